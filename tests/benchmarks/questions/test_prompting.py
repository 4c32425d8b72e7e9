import hashlib
from pathlib import Path

import pytest

from regrade.benchmarks.questions.prompting import (
    chat_prompt,
    chat_settings,
    chat_template_arguments,
    completion_prompt,
)
from regrade.settings import PromptSettings
from regrade.settings.errors import SettingsError

TURNS = [("Q: 1?\nA:", "one"), ("Q: 2?\nA:", "two")]


def test_a_completion_joins_its_parts_with_blank_lines() -> None:
    prompt = completion_prompt("Be brief.", "Questions:", TURNS, "Q: 3?\nA:")

    assert prompt == ("Be brief.\n\nQuestions:\n\nQ: 1?\nA: one\n\nQ: 2?\nA: two\n\nQ: 3?\nA:")


def test_no_space_is_added_after_white_space() -> None:
    assert completion_prompt(None, "", [("Q:\n", "yes")], "Q:\n") == "Q:\nyes\n\nQ:\n"


def test_a_chat_has_the_opening_in_its_first_question_only() -> None:
    messages = chat_prompt("Be brief.", "Questions:", TURNS[:1], "Q: 3?")

    assert messages == (
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Questions:\n\nQ: 1?\nA:"},
        {"role": "assistant", "content": "one"},
        {"role": "user", "content": "Q: 3?"},
    )


def test_chat_template_arguments_are_json_python_words_or_text() -> None:
    given = ("enable_thinking=false", "b=False", "c=None", "d=3", "e=a=b", "f=", 'g="3"')

    assert chat_template_arguments(given) == {
        "enable_thinking": False,
        "b": False,
        "c": None,
        "d": 3,
        "e": "a=b",
        "f": "",
        "g": "3",
    }


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        *(([given], "expected `name=value`") for given in ("enable_thinking", "=3", "a b=1", "")),
        (["a=1", "a=2"], "gives 'a' twice"),
    ],
)
def test_an_argument_without_a_name_of_its_own_or_value_is_refused(
    arguments: list[str], says: str
) -> None:
    with pytest.raises(SettingsError, match=says):
        chat_template_arguments(arguments)


def test_a_chat_template_is_known_by_its_content(tmp_path: Path) -> None:
    file = tmp_path / "template.jinja"
    file.write_text("{{ messages }}")

    digest = chat_settings(PromptSettings(chat_template=str(file)))["chat_template"]

    assert digest == hashlib.sha256(b"{{ messages }}").hexdigest()


def test_a_chat_template_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    (tmp_path / "template.jinja").write_bytes(b"\xff")

    for name, says in (("template.jinja", "not UTF-8"), ("absent", "cannot be read")):
        with pytest.raises(SettingsError, match=says):
            chat_settings(PromptSettings(chat_template=str(tmp_path / name)))

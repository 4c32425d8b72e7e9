"""`regrade show`: every text of a stranger is shown as it is, and does nothing to the terminal."""

import json
from pathlib import Path

import pytest

from regrade.answers.local import LocalRepository
from regrade.cli.main import run
from tests.builders import row
from tests.stored import publish

HOSTILE = "a[/b]c [red]x[/] \x1b[5m\x1b]0;t\x07 :100: [s](x) \\"
SHOWN = "a[/b]c [red]x[/] \ufffd[5m\ufffd]0;t\ufffd :100: [s](x) \\"


def show(tmp_path: Path, *arguments: str, **changes: object) -> int:
    repository = LocalRepository(tmp_path / "answers")
    answers = publish(repository, [row(1) | changes])
    set_id = answers.manifest.answer_set_id
    return run(["show", set_id, "--answers", repository.uri, *arguments])


@pytest.mark.parametrize(
    "column", ["sample_id", "subset", "prompt", "text", "reasoning", "target", "error"]
)
def test_a_hostile_text_is_shown_and_does_nothing(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], column: str
):
    assert show(tmp_path, "--scorer", "exact", **{column: HOSTILE}) == 0

    out = capfd.readouterr().out
    assert SHOWN in out
    assert "\x1b" not in out


def test_an_empty_subset_is_not_a_missing_one(tmp_path: Path, capfd: pytest.CaptureFixture[str]):
    assert show(tmp_path, subset="") == 0

    assert "no subset" not in capfd.readouterr().out


def test_a_hostile_text_is_itself_in_json(tmp_path: Path, capfd: pytest.CaptureFixture[str]):
    assert show(tmp_path, "--json", subset=HOSTILE) == 0

    (answer,) = json.loads(capfd.readouterr().out)["answers"]
    assert answer["subset"] == HOSTILE


@pytest.mark.parametrize("scorer", ["number", "exact", "choice_letter"])
def test_an_answer_without_a_target_has_no_target_and_is_not_wrong(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], scorer: str
):
    assert show(tmp_path, "--scorer", scorer, target=None, text="It is 4.") == 0
    out = capfd.readouterr().out
    assert " · no target" in out
    assert "It is 4." in out
    assert "wrong" not in out
    assert show(tmp_path, "--scorer", scorer, "--wrong", target=None, text="It is 4.") == 0
    assert "No answer matches." in capfd.readouterr().out
    assert show(tmp_path, "--json", target=None, text="It is 4.") == 0
    [answer] = json.loads(capfd.readouterr().out)["answers"]
    assert (answer["outcome"], answer["value"]) == ("no target", None)


def test_the_question_is_shown_where_the_prompt_is_not_known(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
):
    assert show(tmp_path, prompt=None, question="How many?") == 0
    assert "How many?" in capfd.readouterr().out


def test_what_was_extracted_and_the_target_are_at_the_end(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
):
    assert show(tmp_path) == 0

    lines = capfd.readouterr().out.rstrip().splitlines()
    assert lines[0].startswith("sample-00001 repeat 0 · odd · right")
    assert lines[1:] == ["What is 1?", "It is 1.", "#### 1", "extracted 1   target 1"]

"""Rubrics in Jinja files."""

from pathlib import Path

import pytest

from regrade.records.rubrics import open_rubric
from regrade.records.rubrics.forms import structure_of
from regrade.settings.errors import SettingsError, UnknownNameError

POLITE = """---
name: polite
verdicts: {yes: 1, no: 0}
explanation: 50
---
Is this polite?

{{ answer }}
"""


def file(folder: Path, text: str) -> str:
    path = folder / "polite.jinja"
    path.write_text(text)
    return str(path)


def test_a_file_names_its_verdicts_and_their_values(tmp_path: Path):
    rubric = open_rubric(file(tmp_path, POLITE))
    assert (rubric.name, rubric.scale) == ("polite", (0.0, 1.0))
    assert dict(rubric.fields[0].values) == {"yes": 1.0, "no": 0.0}  # not true and false
    assert rubric.template == "Is this polite?\n\n{{ answer }}\n"


def test_a_verdict_without_explanation_is_a_choice(tmp_path: Path):
    rubric = open_rubric(file(tmp_path, POLITE.replace("explanation: 50", "explanation: 0")))
    assert structure_of(rubric).choice == ("yes", "no")


def test_numbers_beyond_shares_are_a_scale(tmp_path: Path):
    rubric = open_rubric(file(tmp_path, POLITE.replace("{yes: 1, no: 0}", "{1: 1, 2: 2, 5: 5}")))
    assert rubric.scale == (1.0, 5.0)


def test_another_text_is_another_rubric(tmp_path: Path):
    one = open_rubric(file(tmp_path, POLITE)).sha256
    assert open_rubric(file(tmp_path, POLITE.replace("Is this", "Is it"))).sha256 != one
    assert open_rubric(file(tmp_path, POLITE.replace("no: 0", "no: 0.5"))).sha256 != one
    turned = POLITE.replace("{yes: 1, no: 0}", "{no: 0, yes: 1}")
    assert open_rubric(file(tmp_path, turned)).sha256 != one
    needs = POLITE.replace("explanation: 50", "explanation: 50\nreference: true")
    assert open_rubric(file(tmp_path, needs)).sha256 != one
    assert open_rubric(file(tmp_path, POLITE)).sha256 == one


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("Is this polite? {{ answer }}", "has no head. It should begin with a line `---`"),
        (POLITE.replace("name: polite", "name: Very Polite"), "name should be of the form `"),
        (
            POLITE.replace("{yes: 1, no: 0}", "{yes: 1}"),
            "verdicts should have 2 entries or more, not 1",
        ),
        (POLITE.replace("{yes: 1, no: 0}", "{yes: 1, no: 1}"), "all verdicts have the same value"),
        (
            POLITE.replace("{yes: 1, no: 0}", "{yes: good}"),
            "verdicts.yes should be a number, not 'good'",
        ),
        (POLITE.replace("explanation", "explaining"), "explaining is unknown"),
        (POLITE.replace("name: polite", "name: [polite"), "is not YAML"),
    ],
)
def test_a_head_that_cannot_be_used_is_refused(tmp_path: Path, text: str, says: str):
    with pytest.raises(SettingsError) as error:
        open_rubric(file(tmp_path, text))
    assert says in str(error.value)


def test_an_unknown_rubric_is_refused_with_the_closest():
    with pytest.raises(UnknownNameError, match="Did you mean 'correct'"):
        open_rubric("corect")
    with pytest.raises(SettingsError, match="cannot be read: No such file"):
        open_rubric("nowhere/rubric.jinja")

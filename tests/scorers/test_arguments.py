"""Options of a scorer are arguments: `--scorer 'number(last=true)'`. They are part of what is stored."""

from pathlib import Path

import pytest
from pydantic import TypeAdapter, ValidationError

from regrade.answers.local import LocalRepository
from regrade.scorers import load_scorer, stored_name
from regrade.scorers.user_functions.files import forget_files
from regrade.scoring.score import label_of, score_answers
from regrade.settings import ScorerName
from regrade.settings.errors import SettingsError
from tests.builders import row
from tests.scorers.batches import generations, scored
from tests.stored import again, publish, score


def test_arguments_of_a_scorer_change_what_it_reads() -> None:
    batch = generations(["The answer is 5. There are 7 more."], "7")
    letters = generations(["The answer is A. No, the answer is B."], "B", choices=["x", "y"])

    assert scored("number", batch)["extracted"].to_pylist() == ["5"]
    assert scored("number(last=true)", batch)["extracted"].to_pylist() == ["7"]
    for name in ("choice_letter(statement=first)", "choice_letter_first"):
        assert scored(name, letters)["extracted"].to_pylist() == ["A"]


def test_a_name_with_arguments_has_one_form_and_defaults_are_not_part_of_it() -> None:
    assert (
        stored_name("number( last = True )") == stored_name("number(last=1)") == "number(last=true)"
    )
    assert stored_name("number(last=false)") == "number"
    assert label_of("number(last=true)").startswith("number(last=true)-")
    assert TypeAdapter(ScorerName).validate_python("number(last=true)") == "number(last=true)"


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("number(lst=true)", "Scorer 'number' has no argument 'lst'. Its arguments: last"),
        ("exact(x=1)", "Scorer 'exact' has no argument 'x'. Its arguments: none"),
        ("number(last=maybe)", "Scorer 'number' cannot have `last=maybe`"),
        ("choice_letter(statement=middle)", "cannot have `statement=middle`.*'first' or 'last'"),
        ("number(last)", "should be a scorer with arguments, such as"),
    ],
)
def test_a_wrong_argument_is_refused_with_what_there_is(name: str, says: str) -> None:
    with pytest.raises(SettingsError, match=says):
        load_scorer(name)


def test_a_wrong_name_with_arguments_is_refused_by_settings() -> None:
    with pytest.raises(ValidationError, match="Unknown scorer 'numbr'. Did you mean 'number'"):
        TypeAdapter(ScorerName).validate_python("numbr(last=true)")


def test_scorings_with_other_arguments_are_stored_apart_and_each_is_found_again(
    tmp_path: Path,
) -> None:
    rows = [row(0, "The answer is 5. There are 7 more.", target="7")]
    answers = publish(LocalRepository(tmp_path / "answers"), rows)
    score(answers)
    score(again(answers), "number(last=true)")

    found = {file.scorer: file.summary.overall.accuracy for file in again(answers).scores()}
    assert found == {"number": 0.0, "number(last=true)": 1.0}
    assert score_answers(again(answers), "number(last=true)").table is None


def test_parameters_with_a_default_are_arguments_of_ones_own_scorer(tmp_path: Path) -> None:
    file = tmp_path / "scoring.py"
    file.write_text(
        "def found(answer, target, ignore_case=False):\n"
        "    return (target.lower() in answer.lower()) if ignore_case else (target in answer)\n"
    )
    batch = generations(["It is ROME."], "Rome")
    try:
        assert stored_name(f"{file}:found(ignore_case=true)") == "found(ignore_case=true)"
        assert scored("found", batch)["value"].to_pylist() == [0.0]
        assert scored("found(ignore_case=true)", batch)["value"].to_pylist() == [1.0]
    finally:
        forget_files()

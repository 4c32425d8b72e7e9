"""A score of zero, or one that contradicts the score that came with the answers, is never published without a word."""

from typing import Any

import pytest

from regrade.answers.local import LocalRepository
from regrade.answers.scorefile import ORIGINAL, OriginalScoring
from regrade.answers.sets import AnswerSet
from regrade.results.page import blocks
from regrade.results.results import Evaluation, score_result
from regrade.results.tables import headline
from regrade.scorers import load_scorer, scorer_names
from regrade.scoring import fit
from regrade.scoring.fit import notes
from regrade.scoring.score import score_answers
from regrade.text.markdown import markdown
from tests.builders import row
from tests.stored import again, publish, result_of, score_with_an_older_scorer


def prose(n: int) -> list[dict[str, Any]]:
    """Answers to questions with text targets, which are right, but not the whole text."""
    return [
        row(number, f"We think.\nSo the answer is city {number}.", target=f"City {number}")
        for number in range(n)
    ]


def publish_original(answers: AnswerSet, values: list[float]) -> None:
    """Publish scores that came with the answers."""
    left = iter(values)
    came = {"outcome": "scored", "extracted": None, "start": None, "end": None}
    original = OriginalScoring(tool="lm-eval", name="exact_match")
    score_with_an_older_scorer(
        answers, lambda _: came | {"value": next(left)}, scorer=ORIGINAL, original=original
    )


def test_a_default_scorer_that_fits_nothing_names_those_that_do_and_gives_no_headline(
    repository: LocalRepository,
) -> None:
    answers = publish(repository, prose(30), scorers=("exact", "text"))

    scored = score_answers(answers, "exact")

    assert scored.file.summary.overall.accuracy == 0.0
    assert scored.file.better_scorers == ("text",)
    assert scored.file.title.endswith("does not fit")
    assert not score_result(scored, None).headline
    (note,) = score_result(scored, None).notes
    assert "0 of 30 answers right (0 unparsed)" in note
    assert "`--scorer text`" in note


def test_a_scorer_that_fits_gives_the_headline_without_a_note(repository: LocalRepository) -> None:
    answers = publish(repository, prose(30), scorers=("text", "exact"))

    scored = score_answers(answers, "text")

    assert score_result(scored, None).headline
    assert score_result(scored, None).notes == ()


def test_a_model_that_is_simply_wrong_keeps_its_zero_as_headline_and_it_is_said(
    repository: LocalRepository,
) -> None:
    answers = publish(repository, [row(number, "#### 999") for number in range(30)])

    scored = score_answers(answers, "number")

    assert scored.file.better_scorers == ()
    assert score_result(scored, None).headline
    assert "no other scorer that was tried does better" in score_result(scored, None).notes[0]


def test_a_few_wrong_answers_and_scorers_beside_the_default_are_no_reason_to_doubt(
    repository: LocalRepository,
) -> None:
    few = publish(repository, prose(19), scorers=("exact",))
    assert score_answers(few, "exact").file.better_scorers == ()
    assert list(notes(few, score_answers(few, "exact").file)) == []

    beside = publish(repository, prose(30), scorers=("text", "exact"))
    file = score_answers(beside, "exact").file
    assert file.better_scorers == ()
    assert list(notes(beside, file)) == []


def test_a_score_that_contradicts_the_imported_one_is_reported(repository: LocalRepository) -> None:
    answers = publish(repository, [row(number) for number in range(100)])
    publish_original(answers, [1.0] * 60 + [0.0] * 40)

    (note,) = notes(again(answers), score_answers(answers, "number").file)

    assert note.startswith("number v3 gives 100.0 %, but the imported file says 60.0 ± 4.9 %")
    assert "lm-eval exact_match" in note


def test_a_score_within_the_error_of_the_imported_one_is_no_news(
    repository: LocalRepository,
) -> None:
    wrong = [row(number, "#### 999") for number in range(100, 103)]
    answers = publish(repository, [row(number) for number in range(97)] + wrong)
    publish_original(answers, [1.0] * 98 + [0.0] * 2)

    assert list(notes(again(answers), score_answers(answers, "number").file)) == []


def truncated(repository: LocalRepository, cut: int, n: int, **changes: Any) -> AnswerSet:
    rows = [row(number, finish_reason="length" if number < cut else "stop") for number in range(n)]
    return publish(repository, rows, **changes)


def test_a_score_of_answers_that_were_cut_off_says_so_first_with_what_to_raise(
    repository: LocalRepository,
) -> None:
    answers = truncated(repository, 6, 100)

    (note,) = notes(answers, score_answers(answers, "number").file)

    assert note.startswith("6.0 % of the answers were cut off at 512 tokens")
    assert "Raise `--max-tokens`" in note


def test_a_few_truncated_answers_are_in_the_table_only(repository: LocalRepository) -> None:
    answers = truncated(repository, 5, 100)

    assert list(notes(answers, score_answers(answers, "number").file)) == []


def test_answers_whose_reasoning_never_ended_are_counted_beside_the_score(
    repository: LocalRepository,
) -> None:
    endless = row(1) | {"text": "", "reasoning": "hm", "reasoning_open": True}
    answers = publish(repository, [row(0), endless])

    (note,) = notes(answers, score_answers(answers, "number").file)

    assert note.startswith("1 of 2 answers never ended their reasoning. They count as wrong")


def test_page_and_headline_begin_with_the_truncated_answers(repository: LocalRepository) -> None:
    answers = truncated(repository, 30, 100)
    score = score_result(score_answers(answers, "number"), None)
    result = result_of(answers, score)
    evaluation = Evaluation(answer_sets=(result,), repository=str(repository.uri))
    page = markdown(blocks(evaluation))
    assert page.startswith("**sums**: 30.0 % of the answers were cut off at 512 tokens")
    assert headline(evaluation) == "org/tiny: sums 100.0 % (n=100, 30.0 % truncated)"


def test_the_scorer_of_harness_tasks_is_not_loaded_to_see_if_it_fits(
    repository: LocalRepository, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its import takes half a second, at the end of a run whose model is simply wrong."""
    loaded: list[str] = []
    monkeypatch.setattr(fit, "load_scorer", lambda name: loaded.append(name) or load_scorer(name))
    answers = publish(repository, [row(number, "#### 999") for number in range(30)])

    score_answers(answers, "number")

    assert "text" in loaded
    assert fit.HARNESS_SCORER not in loaded
    assert fit.HARNESS_SCORER in scorer_names()

"""Two models under one judge: the same rubric and judge, corrected by labels of both, in the unit of the score."""

from pathlib import Path

import pytest

from regrade.answers.local import LocalRepository
from regrade.answers.sets import AnswerSet
from regrade.comparing import verdict_text
from regrade.comparing.comparison import Compared, CompareOptions, compare_sets
from regrade.comparing.gate import gate
from regrade.comparing.likeness import NotComparableError
from regrade.comparing.text import blocks as comparison_page
from regrade.comparing.text import comparison_row, remarks
from regrade.comparing.together import compare_sides
from regrade.records.specification import PromptIdentity
from regrade.settings import GateSettings, SamplingParams
from regrade.text.markdown import markdown
from tests.comparing.sides import answer
from tests.judged import graded, judge, judged_of
from tests.stored import again, commit_shards, numbers


def compared(base: AnswerSet, candidate: AnswerSet, **options: object) -> Compared:
    return compare_sets(base, candidate, CompareOptions(**options))


@pytest.fixture
def base(repository: LocalRepository, tmp_path: Path) -> AnswerSet:
    """Verdicts on 60 answers of org/a, which nobody labelled."""
    return judged_of(repository, tmp_path, seed=0, labels=0, n=60, model="org/a")


def test_verdicts_without_labels_are_compared_as_judged_and_marked(
    repository: LocalRepository, tmp_path: Path
) -> None:
    base = judged_of(repository, tmp_path, seed=0, labels=0, model="org/a")
    candidate = judged_of(repository, tmp_path, seed=1, labels=0, model="org/b")

    comparison = compared(base, candidate).comparison

    assert (comparison.base.model, comparison.candidate.model) == ("org/a", "org/b")
    assert comparison.calibration == "uncalibrated"
    assert comparison.judged_difference is None
    assert comparison_row(comparison)[3].endswith("(uncalibrated)")
    assert comparison.examples == ()
    assert any("regrade label" in line for line in remarks(comparison))


def test_examples_hold_the_judged_answers_beside_the_verdicts(
    base: AnswerSet, repository: LocalRepository, tmp_path: Path
) -> None:
    candidate = judged_of(repository, tmp_path, seed=1, labels=0, n=60, model="org/b")

    [first, *_] = compared(base, candidate, examples=1).comparison.examples

    assert first.prompt.startswith("What is ")
    assert "#### " in first.base_text
    assert 'verdict of the judge: {"explanation": "As it is.", "verdict": "' in first.base_text


def test_labels_of_both_sides_correct_a_judge_that_likes_the_candidate(
    repository: LocalRepository, tmp_path: Path
) -> None:
    # Equally good; the judge calls 3 of 4 of the candidate's wrong answers right.
    base = judged_of(repository, tmp_path, seed=0, labels=150, specificity=0.95, model="org/a")
    candidate = judged_of(repository, tmp_path, seed=0, labels=150, specificity=0.25, model="org/b")

    comparison = compared(base, candidate).comparison

    assert comparison.judged_difference > 0.2
    assert comparison.low < 0 < comparison.high
    assert comparison.p_value > 0.05
    assert comparison.difference == pytest.approx(
        comparison.candidate_accuracy - comparison.base_accuracy, abs=1e-9
    )
    assert comparison.calibration == "PPI++, 150 and 150 labels"
    assert comparison.test == "corrected by labels, Student's t"


def test_the_gate_decides_by_the_corrected_difference(
    repository: LocalRepository, tmp_path: Path
) -> None:
    # As judged the candidate is better; by the labels it is much worse.
    base = judged_of(
        repository, tmp_path, seed=0, labels=200, truth=0.7, specificity=0.95, model="org/a"
    )
    candidate = judged_of(
        repository, tmp_path, seed=1, labels=200, truth=0.4, specificity=0.05, model="org/b"
    )
    ids = [answers.manifest.answer_set_id for answers in (base, candidate)]

    report = gate(ids[1], GateSettings(baseline=ids[0], max_drop=5), answers=repository.uri)

    [verdict] = report.benchmarks
    assert verdict.comparison.judged_difference > 0.1
    assert report.verdict == "regression"
    assert verdict.high < -0.05
    assert "(PPI++, 200 and 200 labels)" in verdict.reason
    assert "PPI\\+\\+" in markdown(verdict_text.blocks(report)) or "PPI++" in markdown(
        verdict_text.blocks(report)
    )


def test_models_are_compared_by_the_verdicts_on_answers_that_only_a_judge_grades(
    repository: LocalRepository, tmp_path: Path
) -> None:
    for model in ("org/a", "org/b"):
        judged_of(repository, tmp_path, seed=0, labels=0, n=60, model=model, scorers=("judge",))

    found = compare_sides("org/a", "org/b", answers=repository.uri)

    assert list(found.compared) == ["judge:correct:sums"]
    assert (found.only_base, found.only_candidate, found.refused) == ((), (), {})
    assert "uncalibrated" in markdown(comparison_page(found.comparisons))


def test_verdicts_are_no_answers_of_the_judge(repository: LocalRepository, base: AnswerSet) -> None:
    judge_model = base.manifest.specification.model.name
    answer(repository, judge_model, right=60, total=60)

    found = compare_sides("org/a", judge_model, answers=repository.uri)

    assert list(found.compared) == ["sums"]
    assert found.only_candidate == ()


def test_two_judges_are_not_compared(
    base: AnswerSet, repository: LocalRepository, tmp_path: Path
) -> None:
    candidate = judged_of(
        repository, tmp_path, seed=0, labels=0, n=60, model="org/b", judge_model="org/other"
    )

    with pytest.raises(
        NotComparableError, match="judged by 'org/judge' at aaaaaaaaaaaa and by 'org/other'"
    ):
        compared(base, candidate)


def test_two_rubrics_are_not_compared(base: AnswerSet, repository: LocalRepository) -> None:
    candidate = graded(repository, "org/b", (1, 2, 3))

    with pytest.raises(NotComparableError, match="rubric 'correct' and rubric 'accuracy_style'"):
        compared(base, candidate)


def test_verdicts_are_not_compared_with_answers(
    base: AnswerSet, repository: LocalRepository
) -> None:

    with pytest.raises(NotComparableError, match="the other has answers"):
        compared(base, answer(repository, "org/b", right=60, total=60))


def test_a_difference_of_the_judged_answers_is_refused_too(repository: LocalRepository) -> None:
    base = judge(answer(repository, "org/a", right=20, total=40), lambda *_: "A")
    other = answer(repository, "org/b", right=20, total=40, n_shots=5)

    with pytest.raises(NotComparableError, match="worked examples: '0' against '5'"):
        compared(base, judge(other, lambda *_: "A"))


def test_grades_are_compared_in_their_own_points(repository: LocalRepository) -> None:
    base = graded(repository, "org/a", (2, 3, 3))
    candidate = graded(repository, "org/b", (2, 2, 3))

    comparison = compared(base, candidate).comparison

    assert comparison.base_accuracy == pytest.approx(8 / 3)
    assert comparison.difference == pytest.approx(-1 / 3)
    assert comparison.low < -1 / 3 < comparison.high < 0
    row = comparison_row(comparison)
    assert row[1:4] == ("2.667", "2.333", "-0.33 (uncalibrated)")


def test_the_gate_takes_the_accepted_drop_in_points_of_the_score(
    repository: LocalRepository,
) -> None:
    base = graded(repository, "org/a", (2, 3, 3)).manifest.answer_set_id
    candidate = graded(repository, "org/b", (2, 2, 3)).manifest.answer_set_id
    name = "judge:accuracy_style:sums"

    unset = gate(candidate, GateSettings(baseline=base), answers=repository.uri)
    strict, lenient, all_of_it, same = (
        gate(
            judged,
            GateSettings(baseline=base, max_drop_of=(f"{name}={drop}",)),
            answers=repository.uri,
        )
        for judged, drop in (
            (candidate, "0.1"),
            (candidate, "0.8"),
            (candidate, "2"),
            (base, "0.1"),
        )
    )

    assert unset.verdict == "cannot tell"
    assert f"--max-drop-of {name}=0.1" in unset.summary
    assert (strict.verdict, lenient.verdict) == ("regression", "pass")
    assert all_of_it.verdict == "cannot tell"
    assert "from 1 to 3, so a drop of 2 says nothing about it" in all_of_it.summary
    assert strict.benchmarks[0].max_drop == pytest.approx(0.1)
    assert (same.verdict, same.benchmarks[0].max_drop) == ("cannot tell", pytest.approx(0.1))
    assert "the accepted drop of 0.1" in strict.summary


def test_two_lists_of_criteria_are_not_compared(repository: LocalRepository) -> None:
    base, candidate = (
        judge(answer(repository, model, right=20, total=40), lambda *_: "A", criteria=sha256)
        for model, sha256 in (("org/a", "a" * 64), ("org/b", "b" * 64))
    )

    with pytest.raises(NotComparableError, match="different lists of criteria"):
        compared(base, candidate)


@pytest.mark.parametrize(
    ("part", "value"),
    [
        ("engine", {"dtype": "float16"}),
        ("sampling", SamplingParams(temperature=0.7)),
        (
            "prompt",
            PromptIdentity(format="chat", template="{{ question }}", n_shots=0, system="Be strict"),
        ),
    ],
)
def test_one_judge_with_two_kinds_of_settings_is_not_compared(
    repository: LocalRepository, part: str, value: object
) -> None:
    base = judge(answer(repository, "org/a", right=20, total=40), lambda *_: "A")
    other = answer(repository, "org/b", right=20, total=40)
    candidate = judge(other, lambda *_: "A", **{part: value})

    with pytest.raises(NotComparableError, match=f"but with different {part} settings"):
        compared(base, candidate, allow=("sampling", "prompt"))


def test_verdicts_on_answers_that_were_changed_since_are_not_compared(
    repository: LocalRepository,
) -> None:
    sets = [
        answer(repository, model, right=20, total=40, scorers=("judge",))
        for model in ("org/a", "org/b")
    ]
    base, candidate = (judge(answers, lambda *_: "A") for answers in sets)
    changed = commit_shards(again(sets[1]), numbers(0, 40))

    with pytest.raises(NotComparableError, match="'org/b' was changed since judge run"):
        compared(again(base), again(candidate))
    found = compare_sides("org/a", "org/b", answers=repository.uri)
    assert list(found.refused) == ["judge:correct:sums"]
    assert "judge it again" in found.refused["judge:correct:sums"]

    newest = judge(changed, lambda *_: "B", questions=38)  # fewer than the one that is outdated
    found = compare_sides("org/a", "org/b", answers=repository.uri)
    [comparison] = found.comparisons.compared
    assert comparison.candidate.answer_set_id == newest.manifest.answer_set_id


def test_models_are_compared_by_the_judge_runs_with_the_most_questions(
    repository: LocalRepository,
) -> None:
    for model in ("org/a", "org/b"):
        answers = answer(repository, model, right=20, total=40, scorers=("judge",))
        judge(answers, lambda *_: "A")
        judge(answers, lambda *_: "A", questions=10)

    [comparison] = compare_sides("org/a", "org/b", answers=repository.uri).comparisons.compared

    assert comparison.n == 40


def test_models_are_compared_by_judge_runs_with_the_same_criteria(
    repository: LocalRepository,
) -> None:
    for model, hashes in (("org/a", "a"), ("org/b", "ab")):
        answers = answer(repository, model, right=20, total=40, scorers=("judge",))
        for letter in hashes:
            judge(answers, lambda *_: "A", criteria=letter * 64)

    found = compare_sides("org/a", "org/b", answers=repository.uri)

    assert list(found.compared) == ["judge:correct:sums"]


def test_a_side_below_the_floor_of_verdicts_is_not_compared(repository: LocalRepository) -> None:
    base = judge(answer(repository, "org/a", right=60, total=60), lambda *_: "A")
    candidate = judge(
        answer(repository, "org/b", right=60, total=60),
        lambda number, _: "A" if number % 15 else None,
    )

    with pytest.raises(NotComparableError, match="93.3 % of the candidate's answers only"):
        compared(base, candidate)
    allowed = compared(base, candidate, allow=("overlap",)).comparison
    assert (allowed.n, len(allowed.allowed)) == (56, 1)


def test_labels_keep_passages_as_groups(repository: LocalRepository, tmp_path: Path) -> None:
    base, candidate = (
        judged_of(repository, tmp_path, seed=seed, labels=150, model=model, passage=5)
        for seed, model in enumerate(("org/a", "org/b"))
    )

    alone, grouped = (
        compared(base, candidate, cluster=cluster).comparison for cluster in ("question", "subset")
    )

    assert alone.calibration == grouped.calibration == "PPI++, 150 and 150 labels"
    assert grouped.clusters == 60
    assert grouped.difference == alone.difference
    assert (grouped.low, grouped.high) != (alone.low, alone.high)

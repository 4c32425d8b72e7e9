from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from regrade.answers.local import LocalRepository
from regrade.answers.scorefile import ScoreFile
from regrade.answers.sets import AnswerSet
from regrade.scoring.diff import Diff, compare
from regrade.scoring.diff_sides import diff_scorings, diff_with_before
from regrade.scoring.diff_text import blocks, diff_line
from regrade.scoring.score import label_of, score_answers
from regrade.settings.errors import DamagedAnswersError, SettingsError
from regrade.text.markdown import markdown
from tests.builders import row
from tests.stored import (
    Edit,
    again,
    commit_shards,
    numbers,
    publish,
    score,
    score_with_an_older_scorer,
)

UNPARSED = {"value": 0.0, "extracted": None, "outcome": "unparsed"}
WRONG = {"value": 0.0, "extracted": "17", "outcome": "scored"}


def old_score(answer: dict[str, Any]) -> dict[str, Any]:
    """Return the score of an older scorer: 1 and 2 wrong, 3 unparsed, 4 right by mistake, others unchanged."""
    number = int(answer["sample_id"][-5:])
    if number in (1, 2):
        return WRONG
    if number == 3:
        return UNPARSED
    return {"value": 1.0, "extracted": "4"} if number == 4 else {}


def rows() -> list[dict[str, Any]]:
    wrong = [row(4, "#### 5"), row(5, "#### 6"), row(6, "I do not know."), row(7, error="timeout")]
    return [*numbers(0, 4), *wrong]


def compared(repository: LocalRepository, **changes: Any) -> Diff:
    answers = publish(repository, rows()[:3], rows()[3:], total=8)
    score_with_an_older_scorer(answers, old_score)
    return diff_scorings(again(answers), None, None, **changes)


def test_every_kind_of_change_is_counted(repository: LocalRepository) -> None:
    overall = compared(repository).overall

    assert (overall.wrong_to_right, overall.right_to_wrong) == (3, 1)
    assert (overall.newly_parsed, overall.newly_unparsed) == (1, 0)
    assert overall.read_differently == 3
    assert overall.n == 7  # the failed answer has no pair
    assert overall.before == pytest.approx(2 / 7)
    assert overall.after == pytest.approx(4 / 7)
    assert overall.difference == pytest.approx(2 / 7)
    assert overall.low < 0 < overall.high  # seven answers prove nothing


def graded(repository: LocalRepository, **changes: Any) -> Diff:
    """0 and 1 were right and are; 2 rises from a quarter to right; 3 and 4 rise to a half, 5 falls to it."""
    answers = publish(repository, numbers(0, 6))
    before = {2: 0.25, 3: 0.25, 4: 0.0, 5: 0.75}
    now = {2: 1.0, 3: 0.5, 4: 0.5, 5: 0.5}

    def edit(values: dict[int, float]) -> Edit:
        return lambda scored: {"value": values.get(int(scored["sample_id"][-5:]), 1.0)}

    score_with_an_older_scorer(answers, edit(before))
    later = {"version": 1, "source_hash": "1" * 8, "scored_at": datetime(2026, 1, 2, tzinfo=UTC)}
    score_with_an_older_scorer(again(answers), edit(now), **later)
    return diff_scorings(again(answers), "number@0", "number@1", **changes)


def test_grades_that_moved_are_counted_and_shown(repository: LocalRepository) -> None:
    diff = graded(repository)

    assert (diff.overall.value_rose, diff.overall.value_fell) == (3, 1)
    assert (diff.overall.wrong_to_right, diff.overall.right_to_wrong) == (1, 0)
    shown = {(example.kind, example.sample_id[-1]) for example in diff.examples}
    assert shown == {
        ("wrong to right", "2"),
        ("value fell", "5"),
        ("value rose", "3"),
        ("value rose", "4"),
    }
    (fell,) = (example for example in diff.examples if example.kind == "value fell")
    assert (fell.value_before, fell.value_after) == (0.75, 0.5)
    assert "3 values rose, 1 fell, 1 wrong to right" in diff_line(diff)
    page = markdown(blocks(diff))
    assert "| value fell | value rose |" in page
    assert "value 0.75 -&gt; 0.5 · target: " in page


def test_a_scorer_of_right_and_wrong_has_no_grades_to_show(repository: LocalRepository) -> None:
    diff = compared(repository)
    assert (diff.overall.value_rose, diff.overall.value_fell) == (3, 1)
    assert "value" not in diff_line(diff)
    assert "value rose" not in markdown(blocks(diff))


def test_answers_with_a_value_on_one_side_only_are_no_change_of_a_mean_and_told(
    repository: LocalRepository,
) -> None:
    answers = publish(repository, [row(n, "#### 9" if n < 2 else "") for n in range(6)])
    missing = {"value": None, "extracted": None, "outcome": "failed"}
    score_with_an_older_scorer(
        answers, lambda scored: missing if scored["sample_id"].endswith("0") else {}
    )

    diff = diff_scorings(again(answers), None, None)

    assert (diff.overall.newly_scored, diff.overall.no_longer_scored) == (1, 0)
    assert (diff.overall.n, diff.overall.difference, diff.before.n, diff.after.n) == (5, 0, 5, 6)
    assert "0 newly unparsed, 1 newly scored; see" in diff_line(diff)
    assert "| newly scored |" in markdown(blocks(diff))
    assert [example.kind for example in diff.examples] == ["newly scored"]


def test_without_names_the_two_newest_scorings_of_a_scorer_of_a_file_are_compared(
    repository: LocalRepository,
) -> None:
    answers = publish(repository, numbers(0, 3))
    score(answers)
    for version in (1, 2):
        changes = {
            "scorer": "close",
            "version": version,
            "scored_at": datetime(2030, 1, version, tzinfo=UTC),
        }
        score_with_an_older_scorer(again(answers), lambda _: {}, **changes)
    diff = diff_scorings(again(answers), None, None)
    assert (diff.before.title, diff.after.title) == ("close v1 00000000", "close v2 00000000")
    assert (diff.before.stored, diff.after.stored) == (True, True)


def test_examples_show_prompt_answer_and_what_was_read(repository: LocalRepository) -> None:
    examples = {
        (example.kind, example.sample_id[-1]): example for example in compared(repository).examples
    }

    assert set(examples) == {
        ("right to wrong", "4"),
        ("wrong to right", "1"),
        ("wrong to right", "2"),
        ("wrong to right", "3"),
    }
    example = examples["wrong to right", "2"]
    assert example.prompt == "What is 2?"
    assert example.text == "It is 2.\n#### 2"
    assert (example.extracted_before, example.extracted_after, example.target) == ("17", "2", "2")


def test_answers_without_a_prompt_and_without_a_target_have_examples(
    repository: LocalRepository,
) -> None:
    published = publish(repository, rows())
    old = score_with_an_older_scorer(published, old_score)
    new = score(again(published))
    nothing = {"prompt": None, "target": None}
    bare = publish(repository, [row | nothing for row in rows()], model="org/imported")
    shards = tuple(shard.sha256 for shard in bare.manifest.shards)
    sides = [
        (file.model_copy(update={"answers": shards}), again(published).score_table(file))
        for file in (old, new)
    ]

    diff = compare(bare, *sides)

    assert len(diff.examples) == 4
    assert {(example.prompt, example.target) for example in diff.examples} == {(None, None)}
    assert "target: -" in markdown(blocks(diff))
    assert Diff.model_validate_json(diff.model_dump_json()) == diff


def test_few_examples_are_read_if_few_are_asked_for(repository: LocalRepository) -> None:
    assert len(compared(repository, examples=1).examples) == 3
    assert compared(repository, examples=0).examples == ()


def test_subsets_that_changed_are_listed_and_one_can_be_chosen(repository: LocalRepository) -> None:
    diff = compared(repository)
    assert [subset.name for subset in diff.subsets] == ["even", "odd"]
    assert diff.subsets[0].changes.right_to_wrong == 1

    odd = diff_scorings(again(publish(repository, rows())), None, None, subset="odd")
    assert odd.rows == 4
    assert odd.overall.wrong_to_right == 2
    assert {example.subset for example in odd.examples} == {"odd"}
    with pytest.raises(SettingsError, match="no subset 'prime'.*'even', 'odd'"):
        diff_scorings(again(publish(repository, rows())), None, None, subset="prime")


def test_a_subset_without_a_change_is_not_listed(repository: LocalRepository) -> None:
    answers = publish(repository, rows())
    score_with_an_older_scorer(answers, lambda row: WRONG if row["sample_id"].endswith("1") else {})

    diff = diff_scorings(again(answers), None, None)

    assert [(subset.name, subset.changes.wrong_to_right) for subset in diff.subsets] == [("odd", 1)]


def test_two_stored_scorings_are_compared_by_label_or_version(repository: LocalRepository) -> None:
    answers = publish(repository, rows())
    score_with_an_older_scorer(answers, old_score)
    score(again(answers))
    score(again(answers), "number_strict")

    by_label = diff_scorings(again(answers), "number-0-00000000", label_of("number"))
    by_version = diff_scorings(again(answers), "number@0", "number@3")
    other = diff_scorings(again(answers), "number", "number_strict")

    assert by_label == by_version
    assert by_label.after.stored
    assert (other.before.label, other.after.label) == (
        label_of("number"),
        label_of("number_strict"),
    )


def test_a_scorer_that_never_scored_is_run_for_the_comparison(repository: LocalRepository) -> None:
    answers = publish(repository, rows())

    diff = diff_scorings(answers, "number_strict", "number")

    assert (diff.before.scorer, diff.after.scorer) == ("number_strict", "number")
    assert again(answers).scores() == []  # nothing was kept


@pytest.mark.parametrize(
    ("before", "after", "says"),
    [
        (None, None, "nothing to compare.*the only scoring by 'number'.*Stored: 'number-3-"),
        ("number@4", None, "no scoring 'number@4'.*Stored"),
        (None, "nonsense", "no scoring 'nonsense'.*Scorers: anls, choice_letter"),
    ],
)
def test_what_cannot_be_compared_is_answered_with_what_there_is(
    repository: LocalRepository, before: str | None, after: str | None, says: str
) -> None:
    answers = publish(repository, rows())
    score(answers)

    with pytest.raises(SettingsError, match=says):
        diff_scorings(again(answers), before, after)


def test_scorings_of_different_answers_are_refused(repository: LocalRepository) -> None:
    answers = publish(repository, rows()[:4], total=8)
    score_with_an_older_scorer(answers, old_score)
    grown = again(publish(repository, rows()[4:], total=8))
    score(grown)

    with pytest.raises(SettingsError, match="scored 1 shards.*scored 2 others"):
        diff_scorings(again(grown), "number@0", "number@3")


def test_a_scorer_as_it_is_now_reads_no_more_than_the_old_one_did(
    repository: LocalRepository,
) -> None:
    answers = publish(repository, rows()[:4], total=8)
    score_with_an_older_scorer(answers, old_score)
    grown = again(publish(repository, rows()[4:], total=8))

    diff = diff_scorings(grown, None, None)

    assert diff.rows == 4
    assert diff.overall.wrong_to_right == 3


def test_a_table_of_other_rows_is_refused_by_name(repository: LocalRepository) -> None:
    answers = publish(repository, rows())
    score_with_an_older_scorer(answers, lambda row: {"sample_id": row["sample_id"][::-1]})

    with pytest.raises(DamagedAnswersError, match=r"number-0-00000000\.parquet"):
        diff_scorings(again(answers), None, None)


def test_no_answer_is_shown_beside_the_scores_of_another(repository: LocalRepository) -> None:
    def scored(answers: AnswerSet, name: Callable[[str], str]) -> list[str]:
        def scoring(version: int, value: Edit) -> ScoreFile:
            changes = {"version": version, "source_hash": f"{version}" * 8}
            renamed = lambda row: value(row) | {"sample_id": name(row["sample_id"])}  # noqa: E731
            return score_with_an_older_scorer(answers, renamed, **changes)

        return [scoring(7, old_score).label, scoring(8, lambda _: {}).label]

    answers = publish(repository, rows(), total=8)
    labels = scored(answers, lambda sample_id: sample_id)
    replaced = commit_shards(again(answers), rows()[::-1])
    diff = diff_scorings(replaced, *labels)
    assert (diff.overall.wrong_to_right, diff.examples) == (3, ())

    mixed = scored(replaced, lambda sample_id: f"sample-{7 - int(sample_id[-5:]):05}")
    with pytest.raises(DamagedAnswersError, match="its rows do not match the scored answers"):
        diff_scorings(again(replaced), *mixed)


def test_a_new_scoring_is_compared_with_the_one_it_replaces(repository: LocalRepository) -> None:
    answers = publish(repository, rows())
    assert diff_with_before(score_answers(answers, "number")) is None
    score_with_an_older_scorer(answers, old_score)

    diff = diff_with_before(score_answers(again(answers), "number"))

    assert diff.overall.wrong_to_right == 3
    score(again(answers))
    assert diff_with_before(score_answers(again(answers), "number")) is None  # scored before


def test_answers_that_were_never_scored_have_nothing_to_compare_and_it_says_how_to_score_them(
    repository: LocalRepository,
) -> None:
    answers = publish(repository, numbers(0, 2))

    set_id = answers.manifest.answer_set_id
    with pytest.raises(SettingsError, match=f"`regrade score --answer-set {set_id}`. `--baseline`"):
        diff_scorings(answers, None, None)


def test_an_example_shows_the_question_where_no_prompt_is_stored(
    repository: LocalRepository,
) -> None:
    imported = [
        row(1, prompt=None, question="How much is 1?"),
        row(2, prompt="[INST] How much is 2? [/INST]", question="How much is 2?"),
        row(3, prompt=None),
    ]
    score_with_an_older_scorer(publish(repository, imported), lambda _: WRONG)

    found = diff_scorings(again(publish(repository, imported)), None, None)

    asked = [example.prompt for example in found.examples]
    assert asked == ["How much is 1?", "[INST] How much is 2? [/INST]", None]


def test_repeats_of_a_question_make_one_cluster(repository: LocalRepository) -> None:
    twice = [row(number, repeat=repeat) for number in range(4) for repeat in range(2)]
    answers = publish(repository, twice, total=4, repeats=2)
    score_with_an_older_scorer(answers, lambda row: WRONG if row["sample_id"].endswith("1") else {})

    overall = diff_scorings(again(answers), None, None).overall

    assert (overall.n, overall.samples, overall.wrong_to_right) == (8, 4, 2)
    assert overall.stderr == pytest.approx((4 / 3 * (3 * 0.5**2 + 1.5**2)) ** 0.5 / 8)

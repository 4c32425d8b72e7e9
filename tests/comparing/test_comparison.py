from pathlib import Path

import numpy as np
import pytest
from scipy.stats import binomtest

from regrade.answers.local import LocalRepository
from regrade.answers.manifest import Manifest
from regrade.answers.sets import AnswerSet
from regrade.comparing.comparison import Compared, CompareOptions, compare_sets
from regrade.comparing.likeness import NotComparableError, differences
from regrade.records.computed import Computed
from regrade.records.specification import ModelIdentity, PromptIdentity
from regrade.settings import SamplingParams
from regrade.settings.errors import SettingsError
from tests.builders import row, session
from tests.comparing.sides import TOTAL, answer
from tests.stored import publish, score, score_with_an_older_scorer


def compared(base: AnswerSet, candidate: AnswerSet, **options: object) -> Compared:
    return compare_sets(base, candidate, CompareOptions(**options))


def test_flips_are_counted_question_by_question(repository: LocalRepository) -> None:
    base = answer(repository, "org/a", wrong=(0, 1, 2, 3))
    candidate = answer(repository, "org/b", wrong=(3, 4, 5, 6, 7, 8, 9))

    comparison = compared(base, candidate, examples=2).comparison

    assert (comparison.right_to_wrong, comparison.wrong_to_right, comparison.n) == (6, 3, TOTAL)
    assert comparison.difference == pytest.approx(-3 / TOTAL)
    assert comparison.low < comparison.difference < comparison.high
    assert (comparison.test, comparison.p_value) == (
        "exact McNemar",
        pytest.approx(binomtest(3, 9).pvalue),
    )
    assert (comparison.coverage, comparison.clusters) == (1.0, TOTAL)
    assert comparison.base.accuracy == pytest.approx(1 - 4 / TOTAL)
    kinds = [example.kind for example in comparison.examples]
    assert kinds == ["right to wrong"] * 2 + ["wrong to right"] * 2
    first = comparison.examples[0]
    assert (first.question, first.target) == ("sample-00004", "4")
    assert (first.base_extracted, first.candidate_extracted) == ("4", "5")
    assert first.candidate_text == "#### 5"


def test_both_sides_are_graded_by_the_scorer_as_it_is_now(repository: LocalRepository) -> None:
    base = answer(repository, "org/a", right=TOTAL)
    score_with_an_older_scorer(base, lambda _: {"value": 0.0})
    candidate = answer(repository, "org/b", right=TOTAL)
    score(candidate)
    before = repository.head()

    comparison = compared(base, candidate).comparison

    assert (comparison.base_accuracy, comparison.candidate_accuracy) == (1.0, 1.0)
    assert comparison.right_to_wrong == comparison.wrong_to_right == 0
    assert repository.head() == before  # scores computed for a comparison are not stored


def prompt(**changes: object) -> dict[str, PromptIdentity]:
    given = {"format": "chat", "template": "{{ question }}", "n_shots": 0}
    return {"prompt": PromptIdentity(**given | changes)}


def with_changes(manifest: Manifest, **changes: object) -> Manifest:
    """The manifest, whose specification has these fields."""
    changed = manifest.specification.model_copy(update=changes)
    return manifest.model_copy(update={"specification": changed})


@pytest.mark.parametrize(
    ("changes", "kind", "says"),
    [
        ({"n_shots": 5}, "few_shot", "worked examples: '0' against '5'"),
        ({"temperature": 0.7}, "sampling", "temperature: '0.0' against '0.7'"),
        ({"sampling": SamplingParams(max_tokens=9)}, "sampling", "max_tokens: '512' against '9'"),
        (
            {"sampling": SamplingParams(thinking_token_budget=9)},
            "sampling",
            "thinking_token_budget: 'none' against '9'",
        ),
        ({"repeats": 2}, "sampling", "answers per question: '1' against '2'"),
        ({"method": "rank"}, "prompt", "method: 'generate' against 'rank'"),
        (prompt(format="completion"), "prompt", "prompt format: 'chat' against 'completion'"),
        (prompt(labels="turn"), "prompt", "prompt labels: 'appended' against 'turn'"),
        (prompt(system="Be brief."), "prompt", "system message: 'none' against 'Be brief.'"),
        (
            prompt(chat_template_args={"enable_thinking": False}),
            "chat_template",
            "enable_thinking: 'not set' against 'False'",
        ),
        ({"total": 20}, "overlap", "20 of 40 questions (50.0 %)"),
    ],
)
def test_what_differs_is_named_and_refused_unless_it_is_meant(
    repository: LocalRepository, changes: dict[str, object], kind: str, says: str
) -> None:
    base = answer(repository, "org/a", right=40, total=40)
    candidate = answer(repository, "org/b", **({"right": 40, "total": 40} | changes))

    with pytest.raises(NotComparableError) as refused:
        compared(base, candidate)

    assert says in str(refused.value)
    assert f"--allow {kind}" in str(refused.value)
    if changes.get("method") != "rank":
        comparison = compared(base, candidate, allow=(kind,)).comparison
        assert any(says in text for text in comparison.allowed)


def test_other_questions_are_named(repository: LocalRepository) -> None:
    base = answer(repository, "org/a", right=4).manifest
    changes = {"source_revision": "c" * 64}
    benchmark = base.specification.benchmark.model_copy(update=changes)

    [(kind, text)], _ = differences(base, with_changes(base, benchmark=benchmark))

    assert (kind, text.partition(":")[0]) == ("questions", "benchmark source_revision")


def test_long_texts_are_shown_where_they_differ(repository: LocalRepository) -> None:
    long = "Solve each problem as a careful teacher would, step by step, and write every number"
    first, second = (
        answer(repository, "org/a", right=4, total=4, **prompt(system=f"{long} in {how}"))
        for how in ("figures", "words, so that a reader without a pen is able to follow")
    )

    [(_, text)], _ = differences(first.manifest, second.manifest)

    assert text == (
        "system message: '…ep, and write every number in figures' against "
        "'…ep, and write every number in words, so that a reader withou…'"
    )


def test_two_differences_are_both_named(repository: LocalRepository) -> None:
    base = answer(repository, "org/a", right=4)
    candidate = answer(repository, "org/b", right=4, temperature=0.5, n_shots=2)

    with pytest.raises(NotComparableError, match="--allow few_shot --allow sampling"):
        compared(base, candidate)
    with pytest.raises(NotComparableError, match=r"temperature.*--allow sampling`"):
        compared(base, candidate, allow=("few_shot",))


def test_what_is_not_known_of_imported_answers_is_told(repository: LocalRepository) -> None:
    imported = ModelIdentity(name="org/b", kind="imported", revision="unknown")
    told = prompt(format=None, template="as imported", n_shots=None)
    base = answer(repository, "org/a", right=TOTAL).manifest

    differing, notes = differences(base, with_changes(base, model=imported, sampling=None, **told))

    assert differing == []
    assert "prompt format, prompt template, worked examples" in notes[0]
    assert "Sampling params are not known" in notes[1]


def test_sampling_that_an_imported_file_tells_is_compared_and_what_only_one_tells_is_unknown(
    repository: LocalRepository,
) -> None:
    ours = answer(repository, "org/a", right=9, total=9).manifest

    def imported(**sampling: object) -> Manifest:
        changes = {"version": 0, "parameters": {"sampling": sampling}}
        benchmark = ours.specification.benchmark.model_copy(update=changes)
        return with_changes(ours, benchmark=benchmark, sampling=None)

    differing, notes = differences(
        imported(temperature=0.7, top_p=0.9), imported(temperature=1, min_p=0.1)
    )

    assert differing == [("sampling", "recorded temperature: '0.7' against '1'")]
    assert notes[0] == "Unknown on one side or both: recorded min_p, recorded top_p."
    # Own answers are greedy, and their params are known in full.
    assert differences(ours, imported(temperature=0, top_p=0.9, max_tokens=512))[0] == []
    assert differences(ours, imported(temperature=1))[0] == [
        ("sampling", "recorded temperature: '0.0' against '1'")
    ]
    assert differences(imported(stop=["b", ["a"]]), imported(stop=[["a"], "b"]))[0] == []


def test_the_chat_template_of_imported_answers_is_not_taken_for_the_models_own(
    repository: LocalRepository,
) -> None:
    own = prompt(chat_template="a" * 64, chat_template_args={"enable_thinking": False})
    ours = answer(repository, "org/a", right=9, total=9, **own).manifest
    imported = ours.specification.benchmark.model_copy(update={"version": 0})
    told = prompt(template="as imported")

    differing, notes = differences(ours, with_changes(ours, benchmark=imported, **told))

    assert differing == []
    assert "chat template, chat template argument enable_thinking" in notes[0]


def test_a_row_without_an_answer_has_no_pair_and_is_no_wrong_answer(
    repository: LocalRepository,
) -> None:
    base = answer(repository, "org/a", right=TOTAL)
    rows = [row(n) if n >= 8 else row(n, text=None, error="out of memory") for n in range(TOTAL)]
    for failed in rows[:8]:
        failed["text"] = None
    candidate = publish(repository, rows, model="org/b")

    comparison = compared(base, candidate).comparison

    assert (comparison.n, comparison.difference) == (TOTAL - 8, 0.0)
    assert comparison.candidate.failed == 8
    assert "392 questions compared, of 400 and 400." in comparison.notes
    with pytest.raises(NotComparableError, match=r"392 of 400 questions \(98.0 %\)"):
        compared(base, candidate, min_coverage=0.99)


def test_answers_of_different_making_are_paired_by_what_is_stored(
    repository: LocalRepository,
) -> None:
    base = answer(repository, "org/a", wrong=(1,), total=50)
    rows = [{**row(n), "sample_id": f"other-{n}"} for n in reversed(range(50))]
    candidate = publish(repository, rows, model="org/b")

    comparison = compared(base, candidate).comparison

    assert (comparison.paired_by, comparison.n, comparison.wrong_to_right) == ("prompt", 50, 1)


def test_few_equal_ids_do_not_keep_equal_questions_apart(repository: LocalRepository) -> None:
    """Ten of 50 ids match by chance, the questions of all 50 do."""
    base = answer(repository, "org/a", wrong=(), total=50)
    rows = [row(n) if n < 10 else {**row(n), "sample_id": f"other-{n}"} for n in range(50)]
    candidate = publish(repository, rows, model="org/b")

    comparison = compared(base, candidate).comparison

    assert (comparison.paired_by, comparison.n) == ("prompt", 50)


def test_a_question_that_is_asked_twice_is_paired_in_order(repository: LocalRepository) -> None:
    def rows(prefix: str, wrong: int) -> list[dict[str, object]]:
        twice = [row(n // 2) for n in range(20)]
        return [
            {
                **answer,
                "sample_id": f"{prefix}-{n if prefix == 'a' else 99 - n:02d}",
                "index": n,  # the order of the questions, not that of the ids
                "text": "#### 99" if n == wrong else answer["text"],
            }
            for n, answer in enumerate(twice)
        ]

    base = publish(repository, rows("a", wrong=4), model="org/a")
    same, other = (
        publish(repository, list(reversed(rows(prefix, wrong))), model=f"org/{prefix}")
        for prefix, wrong in (("b", 4), ("c", 5))
    )

    found = compared(base, same).comparison
    assert (found.paired_by, found.n) == ("prompt", 20)
    assert (found.right_to_wrong, found.wrong_to_right) == (0, 0)
    found = compared(base, other).comparison
    assert (found.n, found.right_to_wrong, found.wrong_to_right) == (20, 1, 1)


def test_an_answer_set_compared_with_itself_says_so(
    repository: LocalRepository, tmp_path: Path
) -> None:
    base = answer(repository, "org/a", right=5, total=9)
    copy = answer(LocalRepository(tmp_path / "copy"), "org/a", right=5, total=9)
    rerun = answer(LocalRepository(tmp_path / "rerun"), "org/a", right=6, total=9)
    other = answer(repository, "org/b", right=5, total=9)

    for same in (base, copy):
        comparison = compared(base, same).comparison
        assert comparison.same_answers
        assert "it is compared with itself" in comparison.notes[0]
    for different in (rerun, other):
        comparison = compared(base, different).comparison
        assert not comparison.same_answers
        assert comparison.notes == ()


def test_other_questions_are_never_paired(repository: LocalRepository) -> None:
    base = answer(repository, "org/a", right=50, total=50)
    candidate = answer(repository, "org/b", right=50, total=50, start=50)

    with pytest.raises(NotComparableError, match="no question has a value on both sides"):
        compared(base, candidate, allow=("overlap",))


def test_repeats_of_a_question_are_one_value(repository: LocalRepository) -> None:
    def rows(wrong: set[tuple[int, int]]) -> list[dict[str, object]]:
        return [
            row(n, f"#### {n + 1}" if (n, k) in wrong else "", repeat=k)
            for n in range(30)
            for k in range(4)
        ]

    sampling = SamplingParams(temperature=1.0)
    base = publish(repository, rows(set()), model="org/a", repeats=4, sampling=sampling)
    lost = {(n, k) for n in range(6) for k in range(3)}
    candidate = publish(repository, rows(lost), model="org/b", repeats=4, sampling=sampling)

    result = compared(base, candidate)
    comparison = result.comparison

    assert (comparison.n, comparison.right_to_wrong) == (30, 6)
    assert comparison.difference == pytest.approx(-18 / 120)
    assert comparison.test == "paired permutation"
    assert comparison.p_value == pytest.approx(2 / 2**6)  # six questions, and not 18 answers
    assert (result.changes.counts, len(result.changes.sums)) == (None, 30)
    assert np.array_equal(np.unique(result.changes.sums), [-3.0, 0.0])


def test_an_example_of_a_question_with_repeats_shows_answers_that_differ_as_it_does(
    repository: LocalRepository,
) -> None:
    sampling = SamplingParams(temperature=1.0)
    sides = []
    for model, wrong in (("org/a", {(1, 0), (1, 2)}), ("org/b", {(0, 1), (1, 2)})):
        rows = [
            row(n, "#### 77" if (n, k) in wrong else "", repeat=k)
            for n in range(5)
            for k in (0, 1, 2)
        ]
        sides.append(publish(repository, rows, model=model, repeats=3, sampling=sampling))

    examples = compared(*sides, examples=1).comparison.examples

    assert [(e.kind, e.base_extracted, e.candidate_extracted) for e in examples] == [
        ("right to wrong", "0", "77"),
        ("wrong to right", "77", "1"),
    ]


def in_subsets(
    repository: LocalRepository, model: str, *wrong: int, total: int, size: int
) -> AnswerSet:
    """Publish answers in subsets of one size, which are named s00, s01 and so on."""
    rows = [row(n, f"#### {n + 1}" if n in wrong else "") for n in range(total)]
    named = [row | {"subset": f"s{n // size:02d}"} for n, row in enumerate(rows)]
    return publish(repository, named, model=model)


def test_passages_are_one_group_where_subsets_are_passages(repository: LocalRepository) -> None:
    base = in_subsets(repository, "org/a", total=100, size=5)
    candidate = in_subsets(repository, "org/b", *range(20), total=100, size=5)

    alone = compared(base, candidate).comparison
    grouped = compared(base, candidate, cluster="subset").comparison

    assert (grouped.clusters, grouped.test, grouped.subsets) == (20, "paired permutation", ())
    assert grouped.p_value == pytest.approx(2 / 2**4)
    assert alone.p_value == pytest.approx(2 / 2**20)
    assert grouped.low < alone.low


def test_only_subsets_that_moved_more_than_looking_at_all_explains_are_said_to_have(
    repository: LocalRepository,
) -> None:
    base = in_subsets(repository, "org/a", total=600, size=20)
    # s00 loses 12 of 20; s01 loses 6, whose p of 0.031 is nothing special among 30 subsets.
    lost = (*range(12), *range(20, 26))
    candidate = in_subsets(repository, "org/b", *lost, total=600, size=20)

    subsets = {subset.name: subset for subset in compared(base, candidate).comparison.subsets}

    assert len(subsets) == 30
    assert [name for name, subset in subsets.items() if subset.moved] == ["s00"]
    assert subsets["s01"].p_value == pytest.approx(2 / 2**6)
    assert subsets["s00"].p_adjusted == pytest.approx(30 * 2 / 2**12)


def test_turns_of_a_conversation_are_one_question_in_its_subset_too(
    repository: LocalRepository,
) -> None:
    def side(model: str, *wrong: int) -> AnswerSet:
        rows = [row(n, f"#### {n + 1}" if n // 2 in wrong else "") for n in range(80)]
        turns = [
            row | {"sample_id": f"q{n // 2}#{n % 2 + 1}/2", "subset": f"s{n // 40}"}
            for n, row in enumerate(rows)
        ]
        return publish(repository, turns, model=model)

    comparison = compared(side("org/a"), side("org/b", *range(5))).comparison

    assert (comparison.n, comparison.clusters) == (80, 40)
    assert comparison.p_value == pytest.approx(2 / 2**5)
    assert [subset.p_value for subset in comparison.subsets] == pytest.approx([2 / 2**5, 1])


def test_sides_without_a_common_scorer_need_one_to_be_named(repository: LocalRepository) -> None:
    base = answer(repository, "org/a", right=5, total=9)
    candidate = answer(repository, "org/b", right=5, total=9)
    other = candidate.manifest.model_copy(update={"scorers": ("exact",)})
    candidate = AnswerSet(candidate.repository, candidate.revision, other)

    with pytest.raises(SettingsError, match="scored by number, the candidate by exact"):
        compared(base, candidate)
    assert compared(base, candidate, scorer="number").comparison.n == 9


def test_settings_that_cannot_matter_are_no_difference(tmp_path: Path) -> None:
    repository = LocalRepository(tmp_path / "answers")
    base = answer(repository, "org/a", total=4, sampling=SamplingParams(seed=1, stop=("b", "a")))
    candidate = answer(repository, "org/b", total=4, sampling=SamplingParams(stop=("a", "b")))

    assert differences(base.manifest, candidate.manifest) == ([], [])


def test_what_two_sides_computed_otherwise_is_noted(repository: LocalRepository) -> None:
    def side(model: str, computed: Computed, *mixed: str) -> Manifest:
        manifest = answer(repository, model, right=1, total=2).manifest
        one = session(computed=computed, mixed=mixed)
        return manifest.model_copy(update={"sessions": (one,)})

    h100 = Computed(layers=("Fp8LinearMethod",), runner="V2", variables={})
    base = side("org/a", h100)
    changes = {"layers": ("Fp8LinearMethod, 16-bit activations",), "runner": "V1"}
    same = side("org/a", h100.model_copy(update=changes), "dtype: float16 against bfloat16")
    another = side("org/b", h100.model_copy(update=changes))

    assert differences(base, same)[1] == [
        "Not computed alike: layers: Fp8LinearMethod against Fp8LinearMethod, 16-bit activations; runner: V2 against V1.",
        f"The answers of {same.answer_set_id} were not all computed alike: dtype: float16 against bfloat16.",
    ]
    assert differences(base, another)[1] == ["Not computed alike: runner: V2 against V1."]

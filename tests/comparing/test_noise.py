"""The noise floor from stored answers: what changed, its interval, and comparisons beside it."""

from typing import Any

import pytest

from regrade.answers.local import LocalRepository
from regrade.answers.sets import AnswerSet, list_sets
from regrade.answers.verify import verify
from regrade.comparing.models import Comparison
from regrade.comparing.noise import askings, floors_of
from regrade.comparing.noise_text import invariance_text
from regrade.comparing.sides import side_at
from regrade.comparing.text import noise_lines, share_text
from regrade.comparing.together import compare_sides
from regrade.records.computed import BatchCheck
from regrade.records.specification import AskedAgain
from regrade.settings.errors import RepositoryError
from regrade.stats.estimates import wilson_interval
from tests.builders import row, specification
from tests.comparing.sides import TOTAL, answer
from tests.stored import again, publish, score

AGAIN = AskedAgain(seed=1, in_flight=16, place="vllm 0.32.0 on cpu with 2 cores")


def compared(base: AnswerSet, candidate: AnswerSet) -> Comparison:
    """As `regrade compare` and `gate` compare them."""
    ids = [side.manifest.answer_set_id for side in (base, candidate)]
    found = compare_sides(*ids, answers=base.repository.uri)
    return found.compared["sums"].comparison


def test_scores_and_texts_that_differ_are_counted_answer_by_answer(
    repository: LocalRepository,
) -> None:
    first = answer(repository, "org/a", wrong=(0, 1))
    other = {**AGAIN.model_dump(), "seed": 2}
    answer(repository, "org/a", wrong=(1, 2, 3), asked_again=AGAIN)
    answer(repository, "org/a", wrong=(0, 1), asked_again=other)

    one, same, _ = (measured.floor for measured in floors_of(again(first), "number"))

    assert (one.n, one.scores_differ, one.texts_differ, one.unanswered) == (TOTAL, 3, 3, 0)
    assert one.scores == wilson_interval(3, TOTAL)
    assert (one.first.again, one.second.again) == (False, True)
    assert (one.second.order, one.temperature) == ("random", 0.0)
    assert (same.scores_differ, same.texts_differ) == (0, 0)
    assert same.scores[1] == pytest.approx(0.0095, abs=1e-4)  # the news without a flip


def test_a_floor_without_an_answer_on_both_sides_is_told_and_divides_by_nothing() -> None:
    assert share_text(0, 0, (0.0, 1.0)) == "in none of 0 answers, so in at most 100 % (95 %)"


def test_another_text_with_the_same_score_counts_as_text_only(repository: LocalRepository) -> None:
    first = publish(repository, [row(0, "#### 0"), row(1, "#### 1")])
    publish(repository, [row(0, "It is 0. #### 0"), row(1, "#### 1")], asked_again=AGAIN)

    (measured,) = floors_of(again(first), "number")

    assert (measured.floor.scores_differ, measured.floor.texts_differ) == (0, 1)


def test_a_request_that_failed_on_a_side_is_no_flip(repository: LocalRepository) -> None:
    failed = row(1) | {"text": None, "error": "too long", "error_permanent": True}
    first = publish(repository, [row(0), row(1), row(2)])
    publish(repository, [row(0), failed, row(2)], asked_again=AGAIN)

    (measured,) = floors_of(again(first), "number")

    assert (measured.floor.n, measured.floor.unanswered) == (2, 1)
    assert measured.floor.scores_differ == 0


def test_several_answers_to_a_question_make_no_narrower_interval(
    repository: LocalRepository,
) -> None:
    first = answer(repository, "org/a", right=TOTAL, repeats=4, temperature=0.7)
    answer(repository, "org/a", wrong=(0,), repeats=4, temperature=0.7, asked_again=AGAIN)

    (measured,) = floors_of(again(first), "number")

    assert (measured.floor.n, measured.floor.scores_differ) == (4 * TOTAL, 4)
    assert measured.floor.scores == wilson_interval(1, TOTAL)
    assert (measured.floor.questions, measured.floor.changed) == (TOTAL, 1)


def test_ranked_choices_are_compared_bit_by_bit(repository: LocalRepository) -> None:
    ranked: dict[str, Any] = {"choices": ["a", "b"], "text": "A", "target": "A"}
    known = {"method": "rank", "scorers": ("choice_logprob",)}
    first = publish(repository, [row(0) | ranked | {"label_logprobs": [-0.5, -1.5]}], **known)
    near = -0.5 - 1e-12
    rows = [row(0) | ranked | {"label_logprobs": [near, -1.5]}]
    publish(repository, rows, asked_again=AGAIN, **known)

    (measured,) = floors_of(again(first), "choice_logprob")

    assert (measured.floor.scores_differ, measured.floor.texts_differ) == (0, 1)
    assert measured.floor.logprob_difference == pytest.approx(1e-12, rel=1e-3)


def test_a_difference_as_small_as_an_unchanged_models_is_inside_the_noise(
    repository: LocalRepository,
) -> None:
    base = answer(repository, "org/a", wrong=(0, 1))
    answer(repository, "org/a", wrong=(1, 2, 3), asked_again=AGAIN)
    near = answer(repository, "org/b", wrong=(0, 1, 2))
    far = answer(repository, "org/c", wrong=tuple(range(40)))

    inside, outside = compared(base, near), compared(base, far)

    assert (inside.noise.floor.scores_differ, inside.noise.floor.n) == (3, TOTAL)
    assert (inside.noise.inside, outside.noise.inside) == (True, False)
    high = wilson_interval(3, TOTAL)[1]
    assert inside.noise.reach == pytest.approx(1.96 * (high / TOTAL) ** 0.5, rel=1e-3)
    (said,) = noise_lines(inside)
    assert "an unchanged model differs in 0.75 % of the answers (0.26 to 2.2 %, n = 400)" in said
    assert said.endswith("the difference is inside the noise")
    assert noise_lines(outside)[0].endswith("the difference is outside the noise")
    assert compared(near, far).noise is None  # measured for neither model


def test_as_many_gains_as_losses_are_more_than_noise_if_many_changed(
    repository: LocalRepository,
) -> None:
    base = answer(repository, "org/a", wrong=tuple(range(50)))
    answer(repository, "org/a", wrong=tuple(range(50)), asked_again=AGAIN)
    candidate = answer(repository, "org/b", wrong=tuple(range(50, 100)))

    comparison = compared(base, candidate)

    assert comparison.difference == 0.0
    assert not comparison.noise.inside
    (said,) = noise_lines(comparison)
    assert "differs in none of 400 answers, so in at most 0.95 % (95 %)" in said
    assert said.endswith(
        "more changed than noise changes, although a difference this small may be noise"
    )


def test_the_floor_of_some_questions_serves_a_comparison_of_all(
    repository: LocalRepository,
) -> None:
    some = {"benchmark": specification().benchmark.model_copy(update={"limit": 100}), "total": 100}
    base = answer(repository, "org/a", right=TOTAL)
    answer(repository, "org/a", right=100, **some)
    answer(repository, "org/a", right=98, **some, asked_again=AGAIN)
    candidate = answer(repository, "org/b", right=TOTAL - 1)

    noise = compared(base, candidate).noise

    assert (noise.floor.n, noise.floor.scores_differ) == (100, 2)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({}, "the batch-invariant mode holds, bit by bit: 0 of 400 texts and 0 of 224"),
        ({"texts_differ": 1}, "the batch-invariant mode does NOT hold, bit by bit: 1 of 400 texts"),
        ({"differing": 1}, "does NOT hold, bit by bit: 0 of 400 texts and 1 of 224 log-prob"),
        ({"device": "NVIDIA H200"}, "which promises nothing between two machines"),
        ({"batches": None}, "both in the batch-invariant mode: 0 of 400 texts differ; log"),
    ],
)
def test_the_batch_invariant_mode_holds_if_no_text_and_no_bit_differs(
    changes: dict[str, Any], says: str, repository: LocalRepository
) -> None:
    first = publish(repository, [row(0)])
    publish(repository, [row(0)], asked_again=AGAIN)
    (measured,) = floors_of(again(first), "number")
    check = BatchCheck(tokens=224, differing=changes.get("differing", 0), largest=0.0)
    known = {"batch_invariant": True, "device": "NVIDIA H100"}
    sides = {
        "first": measured.floor.first.model_copy(update=known),
        "second": measured.floor.second.model_copy(update=known | {"batches": check} | changes),
    }
    counts = {"n": TOTAL, "texts_differ": changes.get("texts_differ", 0)}

    assert says in invariance_text(measured.floor.model_copy(update=sides | counts))


def test_what_was_asked_again_is_no_result(repository: LocalRepository) -> None:
    first = answer(repository, "org/a", right=TOTAL)
    second = answer(repository, "org/a", right=TOTAL, asked_again=AGAIN)
    score(second)
    head = repository.head() or ""

    assert first.manifest.answer_set_id != second.manifest.answer_set_id
    assert second.folder.startswith("asked_again/")
    assert [s.manifest.answer_set_id for s in list_sets(repository, head)] == [
        first.manifest.answer_set_id
    ]
    assert side_at(repository, head, "org/a").sets["sums"].manifest == first.manifest
    with pytest.raises(RepositoryError, match="there are no answers of"):
        side_at(repository, head, second.manifest.answer_set_id)
    assert second.manifest.answer_set_id not in repository.fetch("README.md", head).read_text()
    assert [a.manifest.answer_set_id for a in askings(again(first))] == [
        first.manifest.answer_set_id,
        second.manifest.answer_set_id,
    ]
    verified = verify(repository, head)
    assert (verified.problems, verified.answer_sets) == ([], 2)

"""The noise floor: what changes when an unchanged model is asked the same questions again.

Everything is computed from stored answers: those of an answer set, and those of the same questions asked again, which are no
result and lie in a folder of their own (`regrade.records.specification.REPETITIONS`).
"""

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC
from itertools import combinations
from typing import Any

import numpy as np

from regrade.answers.result import Result
from regrade.answers.rows import RowKey, row_keys
from regrade.answers.sets import AnswerSet, find_set, intact_sets
from regrade.comparing.comparison import Compared
from regrade.comparing.likeness import computed_otherwise
from regrade.comparing.models import Asking, FlipExample, FrozenModel, Noise, NoiseFloor
from regrade.comparing.pairing import Pairs, pair, score_sides
from regrade.jobs.time_spent import TimeSpent
from regrade.records.specification import REPETITIONS, Specification
from regrade.settings import ScoringOptions
from regrade.settings.errors import DamagedAnswersError, RepositoryError, SettingsError
from regrade.stats.estimates import wilson_interval
from regrade.stats.metrics import score_values
from regrade.stats.paired import noise_reach

logger = logging.getLogger("regrade.compare")
_TEXTS = ("text", "reasoning", "label_logprobs", "error")
_UNKNOWN = "unknown"


class MeasuredFloor(FrozenModel):
    """A noise floor with examples."""

    floor: NoiseFloor
    examples: tuple[FlipExample, ...] = ()


class NoiseReport(FrozenModel):
    """The noise floors of a model, as `regrade noise --json` prints them."""

    model: str
    repository: str
    revision: str
    floors: tuple[MeasuredFloor, ...]
    """A floor for each two askings of the same questions."""
    notes: tuple[str, ...] = ()
    time_spent: TimeSpent | None = None
    """Parts of the run's wall-clock; None if all answers were stored."""


@dataclass(frozen=True, slots=True)
class MeasuredNoise:
    """A noise floor, and the scored askings behind it."""

    floor: NoiseFloor
    sides: tuple[Result, Result]
    pairs: Pairs


def askings(answers: AnswerSet) -> list[AnswerSet]:
    """Return the complete answer sets with the same questions to the same model: the one given, then those asked again, oldest first."""
    again = [
        found
        for found in _repetitions(answers)
        if found.manifest.specification.asked_first.answer_set_id
        == answers.manifest.specification.answer_set_id
    ]
    return [*([answers] if answers.manifest.state == "complete" else ()), *again]


def floors_of(
    answers: AnswerSet, scorer: str, options: ScoringOptions | None = None
) -> Iterator[MeasuredNoise]:
    """Yield the noise floor of each two askings of an answer set.

    Raises:
        SettingsError: If the scorer cannot score these answers.
        DamagedAnswersError: If stored answers or scores are damaged.
    """
    for first, second in combinations(askings(answers), 2):
        yield measure(first, second, scorer, options)


def measure(
    first: AnswerSet, second: AnswerSet, scorer: str, options: ScoringOptions | None = None
) -> MeasuredNoise:
    """Compare two askings answer by answer; errors as in `floors_of`."""
    sides = score_sides(first, second, scorer, options)
    values = [_values(side) for side in sides]
    texts = [_texts(side.answers) for side in sides]
    keys = [key for key in texts[0] if key in texts[1]]
    scores_differ = sum(values[0].get(key) != values[1].get(key) for key in keys)
    texts_differ = sum(texts[0][key] != texts[1][key] for key in keys)
    pairs = pair(*sides)
    change = pairs.change[pairs.change != 0]
    specification = first.manifest.specification
    floor = NoiseFloor(
        model=specification.model.name,
        benchmark=specification.benchmark.name,
        scorer=sides[0].title,
        first=_asking(first),
        second=_asking(second),
        temperature=None
        if specification.sampling is None or specification.method == "rank"
        else specification.sampling.temperature,
        n=len(keys),
        unanswered=first.manifest.expected - len(keys),
        scores_differ=scores_differ,
        scores=_interval(scores_differ, len(keys), specification),
        texts_differ=texts_differ,
        texts=_interval(texts_differ, len(keys), specification),
        logprob_difference=_largest_difference(
            texts[0][key][2:] + texts[1][key][2:] for key in keys
        ),
        questions=len(pairs.base),
        changed=len(change),
        mean_square=float(np.square(change).mean()) if len(change) else 1.0,
        computed=computed_otherwise(first.manifest, second.manifest),
    )
    return MeasuredNoise(floor, sides, pairs)


def beside_noise(compared: Compared, options: ScoringOptions | None = None) -> Compared:
    """Return a comparison beside the noise floor of one of its models; unchanged if none was measured."""
    comparison = compared.comparison
    sets = [side.answers for side in compared.sides]
    if comparison.same_answers:
        return compared
    floor = known_floor(sets, compared.sides[0].file.scorer, options)
    if floor is None:
        return compared
    changed = comparison.right_to_wrong + comparison.wrong_to_right
    high = floor.changed_interval[1]
    reach = comparison.scale.span * noise_reach(high, floor.mean_square, comparison.n)
    few = wilson_interval(changed, comparison.n)[0] <= high
    noise = Noise(
        floor=floor,
        changed=changed / comparison.n,
        reach=reach,
        inside=few and abs(comparison.difference) <= reach,
    )
    return replace(compared, comparison=comparison.model_copy(update={"noise": noise}))


def known_floor(
    sets: Sequence[AnswerSet], scorer: str, options: ScoringOptions | None = None
) -> NoiseFloor | None:
    """Return the noise floor that was measured for one of the models on the benchmark of its answers; None if none was.

    Of several measurements it is the one with the largest share of changed scores, then that of the most answers: a difference
    within it may be noise. Those in vLLM's batch-invariant mode do not count. What cannot be read is logged.

    Args:
        sets: Answer sets of both sides of a comparison.
        scorer: Scorer of the comparison.
        options: Options for scoring answers that have no stored scores.
    """
    known: list[NoiseFloor] = []
    try:
        for first in {id_: found for s in sets for id_, found in _measured_sets(s)}.values():
            known += [measured.floor for measured in floors_of(first, scorer, options)]
    except (DamagedAnswersError, RepositoryError, SettingsError) as error:
        logger.warning("the noise floor is not shown: %s", error)
    usual = [
        floor
        for floor in known
        if floor.questions and not (floor.first.batch_invariant or floor.second.batch_invariant)
    ]
    return max(usual, key=lambda floor: (floor.scores_differ / floor.n, floor.n), default=None)


def _repetitions(answers: AnswerSet) -> list[AnswerSet]:
    """Return the complete sets of answers that were asked again of a model on a benchmark."""
    known = answers.manifest.specification
    if not answers.repository.files(answers.revision, REPETITIONS):
        return []
    found = intact_sets(
        answers.repository,
        answers.revision,
        benchmark=known.benchmark.name,
        model=known.model.name,
        tops=(REPETITIONS,),
    )
    return [answers for answers in found if answers.manifest.state == "complete"]


def _measured_sets(answers: AnswerSet) -> Iterator[tuple[str, AnswerSet]]:
    """Yield the answer sets that were asked again, by id: those of a set's model and benchmark, of all questions or of some."""
    known = _without_limit(answers.manifest.specification)
    for again in _repetitions(answers):
        first = again.manifest.specification.asked_first
        if _without_limit(first) == known:
            stored = find_set(answers.repository, first, answers.revision)
            yield first.answer_set_id, stored or _empty(again)


def _empty(again: AnswerSet) -> AnswerSet:
    """Return the answer set that was asked again where it has no answers of its own."""
    first = again.manifest.specification.asked_first
    changes: dict[str, Any] = {
        "specification": first,
        "answer_set_id": first.answer_set_id,
        "state": "incomplete",
        "shards": (),
        "sessions": (),
        "rows": 0,
    }
    return AnswerSet(again.repository, again.revision, again.manifest.model_copy(update=changes))


def _without_limit(specification: Specification) -> Specification:
    benchmark = specification.benchmark.model_copy(update={"limit": None})
    return specification.model_copy(update={"benchmark": benchmark, "asked_again": None})


def _values(side: Result) -> dict[RowKey, float | None]:
    """Return the score of each answer; None without one."""
    table = side.scores
    values = score_values(table)
    found = (None if np.isnan(value) else float(value) for value in values)
    return dict(zip(row_keys(table), found, strict=True))


def _texts(answers: AnswerSet) -> dict[RowKey, tuple[Any, ...]]:
    """Return what was answered, without requests that failed."""
    found = {}
    for batch in answers.batches(["sample_id", "repeat", *_TEXTS]):
        for key, row in zip(row_keys(batch), batch.select(list(_TEXTS)).to_pylist(), strict=True):
            if row["error"] is None:
                found[key] = (row["text"], row["reasoning"], row["label_logprobs"])
    return found


def _largest_difference(ranked: Iterator[tuple[Any, ...]]) -> float | None:
    found = [
        abs(one - other) if one != other else 0.0
        for before, after in ranked
        if before is not None and after is not None
        for one, other in zip(before, after, strict=False)
        if one is not None and other is not None
    ]
    return max(found, default=None)


def _interval(count: int, n: int, specification: Specification) -> tuple[float, float]:
    """Return the interval of a share; answers to one question are not independent, so that they count as one."""
    if not n:
        return 0.0, 1.0
    independent = max(1, n // specification.repeats)
    return wilson_interval(count / n * independent, independent)


def _asking(answers: AnswerSet) -> Asking:
    manifest, again = answers.manifest, answers.manifest.specification.asked_again
    sessions = manifest.sessions
    computed = [session.computed for session in sessions if session.computed is not None]
    engines = (" ".join(filter(None, (s.engine, s.engine_version))) for s in sessions)
    invariant = {known.batch_invariant for known in computed}
    return Asking(
        answer_set_id=manifest.answer_set_id,
        again=again is not None,
        engine=_together(engines),
        device=_together(session.device for session in sessions),
        dtype=_together(session.dtype for session in sessions),
        quantization=_together(known.quantization for known in computed),
        in_flight=next((s.in_flight for s in reversed(sessions)), None),
        order="of the benchmark" if again is None or again.seed is None else "random",
        batch_invariant=invariant.pop() if len(invariant) == 1 else None,
        batches=next((s.batches for s in reversed(sessions) if s.batches is not None), None),
        at=manifest.updated_at.astimezone(UTC).date(),
    )


def _together(names: Iterator[str | None]) -> str:
    return ", ".join(dict.fromkeys(name for name in names if name)) or _UNKNOWN

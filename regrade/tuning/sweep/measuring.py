"""Measure a point of a sweep by its stored answers: speed, cost, accuracy, and the test against the first point.

A point that takes less than `STEADY_SECONDS` is asked again until its speed is known; how long that took is kept beside its answers,
in `measurements/repeats/<answer_set_id>.json`.
"""

import hashlib
from collections.abc import Iterator, Sequence
from math import prod
from statistics import fmean
from typing import get_args

import numpy as np
from pydantic import Field

from regrade.answers.documents import find_json
from regrade.answers.manifest import Manifest, Session
from regrade.answers.publishing import keep_document
from regrade.answers.result import Result
from regrade.answers.sets import AnswerSet
from regrade.comparing.comparison import CompareOptions, compare_sets
from regrade.comparing.likeness import NotComparableError
from regrade.engines.base import BaseEngineSettings
from regrade.settings import AnswerSetId, Difference, Seconds, StrictModel
from regrade.settings.marks import DIVIDES, marked
from regrade.stats.estimates import FloatArray
from regrade.stats.speed import Speed, relative_spread, speed_of_times
from regrade.tuning.sweep.results import Measured, PairedTest

STEADY_SECONDS = 10.0
"""Least seconds of all measurements of a point together."""
FEWEST, MOST = 3, 10
"""Fewest and most measurements of a point that takes less."""
_PARTS = 5
"""Parts of a single measurement whose speeds give its spread."""
FOLDER = "measurements/repeats"
_TIMES = ("latency", "time_to_first_token", "completion_tokens")


def gpus_of(engine: BaseEngineSettings) -> int:
    """Return the number of devices that an engine's settings divide a model among; 1 for a server, which is not asked."""
    return prod(getattr(engine, name) for name in marked(type(engine), DIVIDES))


class RepeatedTimes(StrictModel):
    """Times for which all questions of a point were asked again, only to measure."""

    schema_version: int = Field(1, ge=1, le=1)
    answer_set_id: AnswerSetId
    shards: str
    """Digest of the stored answers that were measured first."""
    seconds: tuple[Seconds, ...]


def is_steady(seconds: Sequence[float]) -> bool:
    """Return True if measurements of these seconds suffice for a speed."""
    enough = len(seconds) >= FEWEST or seconds[0] >= STEADY_SECONDS
    return len(seconds) >= MOST or (enough and sum(seconds) >= STEADY_SECONDS)


def keep_times(answers: AnswerSet, seconds: Sequence[float]) -> None:
    """Commit the times for which all questions of a point were asked again.

    Raises:
        HubError: If the store failed, or others commit all the time.
        RepositoryError: If writing is not allowed.
    """
    record = RepeatedTimes(
        answer_set_id=answers.manifest.answer_set_id,
        shards=_shards(answers.manifest),
        seconds=tuple(seconds),
    )
    message = f"Measured {answers.manifest.specification.title} {len(seconds)} times more"
    keep_document(answers.repository, _path(answers), record, message)


def _kept_times(answers: AnswerSet) -> tuple[float, ...]:
    """Return what `keep_times` kept of these very answers at the newest revision; () if nothing.

    Raises:
        DamagedAnswersError: If it cannot be read.
    """
    repository, path = answers.repository, _path(answers)
    record = find_json(repository, path, repository.head(), RepeatedTimes, "the times of a sweep")
    return record.seconds if record and record.shards == _shards(answers.manifest) else ()


def _path(answers: AnswerSet) -> str:
    return f"{FOLDER}/{answers.manifest.answer_set_id}.json"


def _shards(manifest: Manifest) -> str:
    names = "\n".join(sorted(shard.sha256 for shard in manifest.shards))
    return hashlib.sha256(names.encode()).hexdigest()


def measure(point: Result, first: Result | None, *, gpus: int) -> Measured:
    """Return the measurements of a point.

    Args:
        point: Its answers to a benchmark.
        first: Answers of the first point to the same benchmark, for the first point itself `point`. None: it has none, so that
            nothing can be compared.
        gpus: See `gpus_of`.
    """
    manifest, metrics = point.answers.manifest, point.file.summary.overall
    answered = _answered(manifest)
    sessions = [session for session in manifest.sessions if session.rows]
    totals = manifest.totals
    asked = (totals.seconds, *_kept_times(point.answers))
    seconds = fmean(asked)
    # A share of an engine's seconds, too: the points share them in the same way, so their rates compare.
    rate = (
        totals.completion_tokens / seconds if totals.completion_tokens and totals.seconds else None
    )
    times = _times(point.answers)
    speed = _speed(sessions, times)
    test, why_not = (None, None) if first is None or first is point else _test(first, point)
    tpot = None if speed is None or speed.tpot is None else speed.tpot.p50
    return Measured(
        benchmark=manifest.specification.benchmark.name,
        answer_set_id=manifest.answer_set_id,
        revision=point.answers.revision,
        rows=manifest.rows,
        expected_rows=manifest.expected,
        failed=manifest.failed + manifest.refused,
        accuracy=metrics.accuracy,
        accuracy_stderr=metrics.accuracy_stderr,
        accuracy_low=metrics.accuracy_low,
        accuracy_high=metrics.accuracy_high,
        seconds=seconds,
        times=asked,
        spread=_spread(point.answers, asked),
        seconds_per_answer=None if np.isnan(times[0]).all() else float(np.nanmean(times[0])),
        answers_per_second=answered / seconds if seconds and answered else None,
        tokens_per_second=rate,
        tokens_per_second_per_gpu=None if rate is None else rate / gpus,
        tokens_per_second_per_user=1 / tpot if tpot else None,
        speed_up=None if first is None else _speed_up(first.answers, point.answers),
        measured_by=None if speed is None else speed.measured_by,
        speed=speed,
        device=sessions[-1].device if sessions else None,
        engine_version=sessions[-1].engine_version if sessions else None,
        sessions=len(sessions),
        model=manifest.specification.model.name,
        measured_at=sessions[-1].started_at.isoformat(timespec="seconds") if sessions else None,
        figures=point.figures,
        test=test,
        note=" ".join([*_notes(point, first, speed), *([why_not] if why_not else [])]) or None,
    )


def _answered(manifest: Manifest) -> int:
    """Return the number of answers, without requests that failed or were refused."""
    return manifest.rows - manifest.failed - manifest.refused


def _speed_up(first: AnswerSet, now: AnswerSet) -> float | None:
    """Return the ratio of two mean wall-clock times; None unless both have all answers, and as many."""
    before, after = (fmean((a.manifest.totals.seconds, *_kept_times(a))) for a in (first, now))
    manifests = (first.manifest, now.manifest)
    whole = all(_answered(manifest) == manifest.expected for manifest in manifests)
    same = first.manifest.rows == now.manifest.rows
    return before / after if before and after and whole and same else None


def _spread(answers: AnswerSet, asked: Sequence[float]) -> float | None:
    """Return the spread of a speed: of several measurements, or of the parts of the only one; None if it is not known."""
    seconds = np.asarray(asked)
    if len(seconds) > 1:
        return relative_spread(1 / seconds) if (seconds > 0).all() else None
    if len([session for session in answers.manifest.sessions if session.rows]) != 1:
        return None
    columns = [
        batch["finished_at"].to_numpy(zero_copy_only=False)
        for batch in answers.batches(["finished_at"])
    ]
    ends = np.sort(np.concatenate([*columns, np.empty(0)]).astype(np.float64))
    if len(ends) < 2 * _PARTS or np.isnan(ends).any():
        return None
    # Answers that end together, such as those of one batch, are of one part.
    lengths = np.diff(np.quantile(ends, np.linspace(0, 1, _PARTS + 1)), prepend=0.0)[1:]
    return relative_spread(1 / lengths) if (lengths > 0).all() else None


def _times(answers: AnswerSet) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return the columns `_TIMES` of all rows with an answer; NaN if a value is not known."""
    columns: list[list[FloatArray]] = [[], [], []]
    for batch in answers.batches([*_TIMES, "error"]):
        answered = batch["error"].is_null().to_numpy(zero_copy_only=False)
        for column, name in zip(columns, _TIMES, strict=True):
            values = batch[name].to_numpy(zero_copy_only=False).astype(np.float64)
            column.append(values[answered])
    latency, first, tokens = (np.concatenate([*column, np.empty(0)]) for column in columns)
    return latency, first, tokens


def _speed(
    sessions: Sequence[Session], times: tuple[FloatArray, FloatArray, FloatArray]
) -> Speed | None:
    measured = [session for session in sessions if session.speed is not None]
    if measured:
        return max(measured, key=lambda session: session.rows).speed
    return speed_of_times(*times) if times[0].size else None


def _notes(point: Result, first: Result | None, speed: Speed | None) -> Iterator[str]:
    """Yield what a reader of the measurements should know, in sentences."""
    manifest, like = point.answers.manifest, (first or point).answers.manifest.specification
    repeats = manifest.specification.repeats
    if repeats != like.repeats:
        yield f"Answers per question: {repeats:,} here, {like.repeats:,} at the first point."
    if failed := manifest.failed + manifest.refused:
        yield f"{failed:,} of {manifest.rows:,} requests have no answer: rates are of the others, and there is no speed-up."
    sessions = [session for session in manifest.sessions if session.rows]
    if len(sessions) > 1:
        yield f"Generated in {len(sessions)} sessions; latencies are those of the longest one that was measured."
    allowed = max((session.in_flight or 0 for session in sessions), default=0)
    if speed is not None and speed.waiting_max and speed.running_max < allowed:
        yield f"The engine computed at most {speed.running_max:,} of {allowed:,} requests at a time, the others waited in it."
    if first is not point and any(session.engine == "openai" for session in sessions):
        yield "The server was not asked to forget the prompts of earlier points (prefix cache)."


def _test(first: Result, point: Result) -> tuple[PairedTest | None, str | None]:
    """Return the test, or the reason for a missing test."""
    options = CompareOptions(allow=get_args(Difference), scorer=point.file.scorer)
    try:
        comparison = compare_sets(first.answers, point.answers, options).comparison
    except NotComparableError as error:
        return None, str(error)
    test = PairedTest(
        n=comparison.n,
        difference=comparison.difference,
        low=comparison.low,
        high=comparison.high,
        worse=comparison.right_to_wrong,
        better=comparison.wrong_to_right,
        test=comparison.test,
        p_value=comparison.p_value,
    )
    return test, None

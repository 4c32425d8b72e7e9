"""Measure a point of a sweep by its stored answers: speed, cost, accuracy, and the test against the first point."""

from collections.abc import Sequence
from typing import get_args

import numpy as np

from regrade.answers.manifest import Manifest, Session
from regrade.answers.result import Result
from regrade.answers.sets import AnswerSet
from regrade.comparing.comparison import CompareOptions, compare_sets
from regrade.comparing.likeness import NotComparableError
from regrade.engines.base import PARALLEL, BaseEngineSettings
from regrade.settings import Difference
from regrade.stats.estimates import FloatArray
from regrade.stats.speed import Speed, speed_of_times
from regrade.tuning.sweep.results import Measured, PairedTest

_TIMES = ("latency", "time_to_first_token", "completion_tokens")


def gpus_of(engine: BaseEngineSettings) -> int:
    """Return the number of devices that an engine's settings divide a model among; 1 for a server, which is not asked."""
    return int(np.prod([getattr(engine, name, 1) for name in PARALLEL]))


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
    rate = totals.tokens_per_second
    times = _times(point.answers)
    speed = _speed(sessions, times)
    notes = [
        _repeats_note(manifest, first),
        _failed_note(manifest),
        _session_note(sessions),
        _limit_note(sessions, speed),
    ]
    if first is not point and any(session.engine == "openai" for session in sessions):
        notes.append(
            "The server was not asked to forget the prompts of earlier points (prefix cache)."
        )
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
        seconds=totals.seconds,
        load_seconds=totals.load_seconds,
        seconds_per_answer=None if np.isnan(times[0]).all() else float(np.nanmean(times[0])),
        answers_per_second=answered / totals.seconds if totals.seconds and answered else None,
        prompt_tokens=totals.prompt_tokens,
        completion_tokens=totals.completion_tokens,
        tokens_per_second=rate,
        tokens_per_second_per_gpu=None if rate is None else rate / gpus,
        tokens_per_second_per_user=1 / tpot if tpot else None,
        speed_up=None if first is None else _speed_up(first.answers.manifest, manifest),
        measured_by=None if speed is None else speed.measured_by,
        speed=speed,
        device=sessions[-1].device if sessions else None,
        engine_version=sessions[-1].engine_version if sessions else None,
        sessions=len(sessions),
        test=test,
        note=" ".join(note for note in (*notes, why_not) if note) or None,
    )


def _answered(manifest: Manifest) -> int:
    """Return the number of answers, without requests that failed or were refused."""
    return manifest.rows - manifest.failed - manifest.refused


def _speed_up(first: Manifest, now: Manifest) -> float | None:
    """Return the ratio of two wall-clock times; None unless both have all answers, and as many."""
    before, after = (manifest.totals.seconds for manifest in (first, now))
    whole = all(_answered(manifest) == manifest.expected for manifest in (first, now))
    return before / after if before and after and whole and first.rows == now.rows else None


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


def _repeats_note(manifest: Manifest, first: Result | None) -> str | None:
    repeats = manifest.specification.repeats
    of_first = repeats if first is None else first.answers.manifest.specification.repeats
    if repeats == of_first:
        return None
    return f"Answers per question: {repeats:,} here, {of_first:,} at the first point."


def _failed_note(manifest: Manifest) -> str | None:
    failed = manifest.failed + manifest.refused
    if not failed:
        return None
    return f"{failed:,} of {manifest.rows:,} requests have no answer: rates are of the others, and there is no speed-up."


def _session_note(sessions: Sequence[Session]) -> str | None:
    if len(sessions) < 2:
        return None
    return f"Generated in {len(sessions)} sessions; latencies are those of the longest one that was measured."


def _limit_note(sessions: Sequence[Session], speed: Speed | None) -> str | None:
    allowed = max((session.in_flight or 0 for session in sessions), default=0)
    if speed is None or not speed.waiting_max or speed.running_max >= allowed:
        return None
    return f"The engine computed at most {speed.running_max:,} of {allowed:,} requests at a time, the others waited in it."


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

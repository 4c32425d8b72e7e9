"""Answers as traces in MLflow, whose own pages show them, and the feedback that people give on these pages."""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from regrade.settings.errors import TrackingError
from regrade.tracking.connection import connect, experiment_id, public_uri, scoring_runs
from regrade.tracking.labels import EXPERIMENT

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Trace

_SET, _SAMPLE, _REPEAT = "regrade.answer_set", "regrade.sample", "regrade.repeat"
_SEED, _PLACE, _EXPECTED = "regrade.seed", "regrade.place", "regrade.label"
_LONGEST_NUMBER = 18
_SYNCHRONOUS = "MLFLOW_ENABLE_ASYNC_TRACE_LOGGING"
_NOBODY = ("", "default", "unknown")
"""Sources of feedback from a server without accounts."""


@dataclass(frozen=True, slots=True)
class TracedAnswer:
    """An answer to show as a trace."""

    sample_id: str
    repeat: int
    question: str
    answer: str
    target: str | None
    verdict: float | None = None
    """Value of the scorer or judge; None: hidden."""


@dataclass(frozen=True, slots=True)
class SampledTraces:
    """Numbers of traces of an answer set."""

    new: int
    total: int
    experiment: str
    """Id of the experiment."""


@dataclass(frozen=True, slots=True)
class Feedback:
    """Feedback of a person on a trace."""

    sample_id: str
    repeat: int
    name: str
    value: object
    person: str
    """Name of the person; "" if MLflow does not know it."""


@dataclass(frozen=True, slots=True)
class TracedFeedback:
    """All feedback on the traces of an answer set, and the random sample that they are."""

    seed: int
    size: int
    given: tuple[Feedback, ...]


def log_traces(
    uri: str,
    answer_set: str,
    answers: Sequence[TracedAnswer],
    *,
    seed: int,
    scorer: str,
    judge: bool,
    expected: str,
) -> SampledTraces:
    """Log answers that are no traces yet, in the run of their scoring if there is one.

    Args:
        uri: MLflow tracking URI.
        answer_set: Id of the answer set.
        answers: The first answers in the random order of a seed.
        seed: The seed.
        scorer: Name of the scorer, for verdicts.
        judge: The verdicts are a judge model's.
        expected: What people may say, in words.

    Raises:
        TrackingError: If MLflow cannot be reached or rejects a trace, or has traces of another seed.
    """
    with connect(uri) as client, _traced_to(uri):
        experiment = experiment_id(client, uri, EXPERIMENT)
        known = _places(uri, _traces(client, experiment, answer_set))
        if others := {other for _, other in known.values()} - {seed}:
            drawn = f"answers drawn with seed {min(others)}, which are a random sample only without others"
            raise TrackingError(public_uri(uri), f"it has traces of {drawn}: give `--seed`.")
        runs = scoring_runs(client, experiment, _SET, answer_set)
        run_id = next((run.info.run_id for run in runs), None)
        tags = {_SET: answer_set, _SEED: str(seed), _EXPECTED: expected}
        new = 0
        for place, answer in enumerate(answers):
            if (answer.sample_id, answer.repeat) not in known:
                own = tags | {_SAMPLE: answer.sample_id, _REPEAT: str(answer.repeat)}
                trace = _log(client, experiment, run_id, own | {_PLACE: str(place)}, answer)
                _assess(trace, answer, scorer, judge=judge)
                new += 1
        # MLflow only warns about traces that it could not store.
        total = len(_places(uri, _traces(client, experiment, answer_set)))
        if total != len(known) + new:
            problem = f"it has stored {total - len(known):,} of {new:,} traces. Repeat the command."
            raise TrackingError(public_uri(uri), problem)
    return SampledTraces(new, total, experiment)


def read_traces(uri: str, answer_set: str) -> TracedFeedback | None:
    """Return people's feedback on the traces of an answer set; None if there are no traces.

    Of several by one person with one name, the newest counts.

    Raises:
        TrackingError: If MLflow cannot be reached.
    """
    with connect(uri) as client:
        experiment = client.get_experiment_by_name(EXPERIMENT)
        if experiment is None:
            return None
        traces = _traces(client, experiment.experiment_id, answer_set)
        if not traces:
            return None
        places = _places(uri, traces)
        newest: dict[tuple[str, int, str, str], tuple[int, Feedback]] = {}
        for trace in traces:
            sample_id, repeat = _key(uri, trace)
            for given in trace.info.assessments:
                person = _person(given.source)
                if person is None or given.feedback is None or given.valid is False:
                    continue
                feedback = Feedback(sample_id, repeat, given.name, given.feedback.value, person)
                at, key = given.last_update_time_ms or 0, (sample_id, repeat, given.name, person)
                if key not in newest or newest[key][0] <= at:
                    newest[key] = at, feedback
    size = 1 + max(place for place, _ in places.values())
    seed = min(seed for _, seed in places.values())
    return TracedFeedback(seed, size, tuple(feedback for _, feedback in newest.values()))


@contextmanager
def _traced_to(uri: str) -> Iterator[None]:
    """Send traces to a server: MLflow takes the address for them from its global setting, and sends them when it likes."""
    import mlflow

    names = ("MLFLOW_TRACKING_URI", _SYNCHRONOUS)
    before = {name: os.environ.get(name) for name in names}
    os.environ[_SYNCHRONOUS] = "false"
    try:
        mlflow.set_tracking_uri(uri)
        yield
    finally:
        mlflow.set_tracking_uri(None)  # type: ignore[arg-type]  # back to its default
        for name, value in before.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value


def _log(
    client: "MlflowClient",
    experiment: str,
    run_id: str | None,
    tags: Mapping[str, str],
    answer: TracedAnswer,
) -> str:
    span = client.start_trace(
        f"{answer.sample_id} {answer.repeat}" if answer.repeat else answer.sample_id,
        span_type="LLM",
        inputs={"question": answer.question},
        tags=dict(tags),
        experiment_id=experiment,
        run_id=run_id,
    )
    client.end_trace(span.trace_id, outputs={"answer": answer.answer})
    return str(span.trace_id)


def _assess(trace: str, answer: TracedAnswer, scorer: str, *, judge: bool) -> None:
    import mlflow
    from mlflow.entities import AssessmentSource

    source = AssessmentSource("LLM_JUDGE" if judge else "CODE", scorer)
    if answer.target is not None:
        mlflow.log_expectation(trace_id=trace, name="target", value=answer.target, source=source)
    if answer.verdict is not None:
        mlflow.log_feedback(trace_id=trace, name=scorer, value=answer.verdict, source=source)


def _traces(client: "MlflowClient", experiment: str, answer_set: str) -> "list[Trace]":
    from mlflow.utils import get_results_from_paginated_fn

    traces: list[Trace] = get_results_from_paginated_fn(  # type: ignore[no-untyped-call]
        lambda most, token: client.search_traces(
            locations=[experiment],
            filter_string=f"tags.`{_SET}` = '{answer_set}'",
            max_results=most,
            page_token=token,
            include_spans=False,
        ),
        max_results_per_page=200,
    )
    return traces


def _key(uri: str, trace: "Trace") -> tuple[str, int]:
    return trace.info.tags.get(_SAMPLE, ""), _number(uri, trace, _REPEAT)


def _places(uri: str, traces: "list[Trace]") -> dict[tuple[str, int], tuple[int, int]]:
    """Return place in the random order, and seed of each answer."""
    return {
        _key(uri, trace): (_number(uri, trace, _PLACE), _number(uri, trace, _SEED))
        for trace in traces
    }


def _number(uri: str, trace: "Trace", tag: str) -> int:
    """Return the number in a tag, which everyone who reaches MLflow can change."""
    text = trace.info.tags.get(tag, "")
    if not (text.isascii() and text.isdecimal() and len(text) <= _LONGEST_NUMBER):
        raise TrackingError(
            public_uri(uri),
            f"trace '{trace.info.trace_id}' has the tag `{tag}` with '{text[:100]}' instead of a number. Delete the trace.",
        )
    return int(text)


def _person(source: "object") -> str | None:
    """Return the person who gave feedback, "" if unknown; None for programs and models."""
    if getattr(source, "source_type", None) != "HUMAN":
        return None
    name = " ".join(str(getattr(source, "source_id", "") or "").split())
    return "" if name in _NOBODY else name

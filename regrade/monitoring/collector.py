"""Metrics in Prometheus' data model, read from the evaluation at each scrape: nothing is counted twice."""

from collections.abc import Callable, Iterable, Iterator, Sequence

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from regrade import __version__
from regrade.monitoring.state import AnswerSetState

LABELS = ("benchmark", "model", "answer_set")
Value = Callable[[AnswerSetState], float | None]
GAUGES: tuple[tuple[str, str, Value], ...] = (
    ("regrade_answers_planned", "Answers of the complete answer set.", lambda s: s.planned),
    (
        "regrade_answers_stored",
        "Answers from earlier runs, and of other machines.",
        lambda s: s.stored,
    ),
    ("regrade_answers_left", "Answers that are not on disk yet.", lambda s: s.left),
    (
        "regrade_requests_in_engine",
        "Requests that the engine has and has not answered.",
        lambda s: s.in_engine,
    ),
    ("regrade_spool_rows", "Answers on disk that are not published.", lambda s: s.spool_rows),
    ("regrade_spool_bytes", "Size of the spool on disk.", lambda s: s.spool_bytes),
    (
        "regrade_last_commit_timestamp_seconds",
        "Time of the last commit of answers.",
        lambda s: s.last_commit,
    ),
    ("regrade_engine_load_seconds", "Time that the engine took to load.", lambda s: s.load_seconds),
)
"""Name, help and value of each gauge."""
COUNTERS: tuple[tuple[str, str, Value, dict[str, str]], ...] = (
    ("regrade_answers", "Answers of this run that are on disk.", lambda s: s.answers, {}),
    (
        "regrade_failed_answers",
        "Answers of this run without text: `failed` may succeed later, `refused` cannot.",
        lambda s: s.failed,
        {"reason": "failed"},
    ),
    ("regrade_failed_answers", "", lambda s: s.refused, {"reason": "refused"}),
    ("regrade_tokens", "Tokens of this run.", lambda s: s.prompt_tokens, {"kind": "prompt"}),
    ("regrade_tokens", "", lambda s: s.completion_tokens, {"kind": "completion"}),
    (
        "regrade_commits",
        "Attempts of this run to publish answers.",
        lambda s: s.commits,
        {"outcome": "published"},
    ),
    ("regrade_commits", "", lambda s: s.failed_commits, {"outcome": "failed"}),
)
"""Name without `_total`, help, value and further labels of each counter."""


class EvaluationCollector(Collector):
    """Collector of an evaluation's answer sets."""

    def __init__(self, states: Callable[[], Sequence[AnswerSetState]]) -> None:
        """Keep the function that returns the states; it is called at each scrape, from another thread."""
        self._states = states

    def describe(self) -> Iterable[Metric]:
        """Return nothing: the metrics need no check against those of other collectors."""
        return ()

    def collect(self) -> Iterator[Metric]:
        """Yield all metrics."""
        states = self._states()
        info = GaugeMetricFamily(
            "regrade_info", "Version of regrade; always 1.", labels=["version"]
        )
        info.add_metric([__version__], 1)
        yield info
        for name, help_, value in GAUGES:
            gauge = GaugeMetricFamily(name, help_, labels=LABELS)
            for state in states:
                if (number := value(state)) is not None:
                    gauge.add_metric(_labels(state), number)
            yield gauge
        counters: dict[str, CounterMetricFamily] = {}
        for name, help_, value, more in COUNTERS:
            family = counters.setdefault(
                name, CounterMetricFamily(name, help_, labels=[*LABELS, *more])
            )
            for state in states:
                family.add_metric([*_labels(state), *more.values()], value(state) or 0)
        yield from counters.values()


def _labels(state: AnswerSetState) -> list[str]:
    return [state.benchmark, state.model, state.answer_set]

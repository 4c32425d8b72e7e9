"""Metrics and table of a model's evaluation, derived from the runs of its scorings."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING

from regrade.stats.metrics import average_name, further_averages
from regrade.tracking.description import Row
from regrade.tracking.runs import known_values
from regrade.tracking.scoring import Scoring

if TYPE_CHECKING:
    from mlflow.entities import Run


HEADLINE = ("accuracy", "accuracy_stderr", "n")
"""Metrics of a scoring that its evaluation shows, each as `<metric>/<benchmark>`."""


def headlines(runs: Iterable["Run"]) -> dict[str, "Run"]:
    """Return the run with the headline accuracy of each benchmark.

    The run of the headline scorer on the most questions, so that a run on few questions never replaces a full
    evaluation. Of several, the run with the newest answers, then the newest scorer version, then the last tracked.
    """

    def rank(run: "Run") -> tuple[float, datetime, int, str]:
        tags = run.data.tags
        return (
            run.data.metrics["samples"],
            datetime.fromisoformat(tags["regrade.answers_created_at"]),
            int(tags["regrade.scorer_version"]),
            tags["regrade.tracked_at"],
        )

    best: dict[str, Run] = {}
    for run in runs:
        name = run.data.tags["regrade.benchmark"]
        if run.data.tags["regrade.headline"] == "true" and (
            name not in best or rank(run) > rank(best[name])
        ):
            best[name] = run
    return best


def headline_metrics(best: Mapping[str, "Run"]) -> dict[str, float]:
    """Return `accuracy/<benchmark>`, `accuracy_stderr/<benchmark>` and `n/<benchmark>` of the `headlines`."""
    return {
        f"{metric}/{benchmark}": value
        for benchmark, run in best.items()
        for metric, value in known_values(run).items()
        if metric in HEADLINE
    }


def settings_tags(best: Mapping[str, "Run"]) -> dict[str, str]:
    """Return `regrade.settings.<benchmark>` of the `headlines`: the settings of prompts and sampling, and the scorer.

    A tag and no parameter, because a later evaluation may replace the headline of a benchmark.
    """
    return {f"regrade.settings.{benchmark}": _settings(run) for benchmark, run in best.items()}


def _settings(run: "Run") -> str:
    parameters, tags = run.data.params, run.data.tags
    kept = {
        name: value
        for name, value in parameters.items()
        if name.startswith(_SETTINGS)
        and name not in _LONG
        and value not in ("null", "{}", "[]", "")
    }
    scorer = f"{tags['regrade.scorer']} v{tags['regrade.scorer_version']}"
    return ", ".join(
        [*(f"{name}={value}" for name, value in sorted(kept.items())), f"scorer={scorer}"]
    )


_SETTINGS = ("benchmark.version", "benchmark.limit", "prompt.", "sampling.", "repeats")
_LONG = ("prompt.template",)


def model_parameters(scoring: Scoring) -> dict[str, str]:
    """Return the parameters that all scorings of a model share: its identity and the settings of its engine."""
    return {
        name: value
        for name, value in scoring.parameters().items()
        if name.startswith(("model.", "engine")) and value not in ("null", "{}")
    }


def table_rows(runs: Iterable["Run"], best: Mapping[str, "Run"]) -> list[Row]:
    """Return the rows of the description's table, the headline of each benchmark first."""
    rows = [_row(run, run is best.get(run.data.tags["regrade.benchmark"])) for run in runs]
    return sorted(
        rows, key=lambda row: (row.benchmark, not row.headline, row.scorer, row.answer_set)
    )


def _row(run: "Run", headline: bool) -> Row:
    tags, metrics = run.data.tags, known_values(run)
    repeats = int(run.data.params.get("repeats", 1))
    return Row(
        benchmark=tags["regrade.benchmark"],
        scorer=", ".join(
            part
            for part in (
                f"{tags['regrade.scorer']} v{tags['regrade.scorer_version']}",
                tags.get("regrade.intact_only"),
            )
            if part
        ),
        accuracy=metrics.get("accuracy"),
        stderr=metrics.get("accuracy_stderr"),
        counts=tuple(int(metrics[name]) for name in ("n", "unparsed", "truncated", "failed")),
        answer_set=tags["regrade.answer_set"],
        url=tags.get("regrade.url"),
        headline=headline,
        calibration=tags.get("regrade.calibration", ""),
        average=average_name(repeats),
        further=tuple(further_averages(metrics, repeats)),
    )

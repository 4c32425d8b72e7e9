"""The result of a search for the fastest settings as `--json` prints it, and its page."""

from collections.abc import Iterator

from regrade.jobs.time_spent import TimeSpent
from regrade.settings import StrictModel
from regrade.stats.scale import percent
from regrade.stats.speed import Speed
from regrade.text.blocks import Block, Heading, Line, Table, with_code
from regrade.tuning.search.records import Tuning, settings_text
from regrade.tuning.search.rule import best, means

COLUMNS = ("start", "settings", "in flight", "per second", "TTFT p99 ms", "TPOT p99 ms", "n", "")


class TuneResult(StrictModel):
    """Settings that a search found, and the answers that it made."""

    tuning: Tuning
    path: str
    """Path of the measurement in the answer repository."""
    repository: str
    answer_set_id: str
    answers_made: int
    """Answers of the evaluation that the measurements generated."""
    rows: int
    expected_rows: int
    load_seconds: float
    measure_seconds: float
    time_spent: TimeSpent | None = None
    """Parts of the run's wall-clock."""


def trial_rows(tuning: Tuning) -> Iterator[tuple[str, ...]]:
    """Yield a row per measurement, in the order of `COLUMNS`; the chosen settings are marked."""
    chosen, _ = best(tuning.trials)
    for trial in tuning.trials:
        speed = trial.speed or Speed()
        is_chosen = chosen is not None and trial.point == chosen.point
        yield (
            f"{trial.start + 1}",
            settings_text(trial.settings, "default"),
            f"{trial.in_flight:,}",
            f"{trial.rate:,.1f}",
            *(
                "-" if latency is None else f"{1000 * latency.p99:,.1f}"
                for latency in (speed.ttft, speed.tpot)
            ),
            f"{trial.requests:,}",
            trial.broken or ("chosen" if is_chosen else ""),
        )


def blocks(result: TuneResult) -> list[Block]:
    """Return the page of a search."""
    return [
        Heading(f"Tuned: {result.tuning.key.model.name}", 1),
        Table(
            COLUMNS, [*trial_rows(result.tuning)], ("start", "settings", ""), lists=("settings",)
        ),
        *(Line(with_code(sentence)) for sentence in _sentences(result, result.tuning)),
        *(result.time_spent.blocks() if result.time_spent is not None else ()),
    ]


def why(tuning: Tuning) -> str:
    """Return why the settings were chosen, in words."""
    chosen, _ = best(tuning.trials)
    top = max(means(tuning.trials)[0], key=lambda trial: trial.rate, default=None)
    shown = percent(tuning.spread)
    if chosen is None or top is None or top.rate <= chosen.rate:
        return (
            f"the fastest; differences below {shown} are noise" if tuning.spread else "the fastest"
        )
    alike = top.settings == chosen.settings
    first = "smallest" if alike else "first tried"
    named = "" if alike else f" with {settings_text(top.settings, 'default')}"
    return f"the {first} within the noise ({shown}) of the fastest, {top.in_flight:,} in flight{named} with {top.rate:,.1f}"


def _sentences(result: TuneResult, tuning: Tuning) -> Iterator[str]:
    unit = "answers" if tuning.key.workload.method == "rank" else "tokens"
    yield f"Chosen: {settings_text(tuning.settings)}, {tuning.rate:,.1f} {unit}/s: {why(tuning)}."
    yield f"For {tuning.key}."
    yield from (f"{remark.rstrip('.')}." for remark in tuning.remarks)
    yield (
        f"{tuning.starts} engine starts ({result.load_seconds:.0f} s), {result.measure_seconds:.0f} s of measuring; "
        f"{result.answers_made:,} new answers are kept: {result.rows:,} of {result.expected_rows:,}."
    )
    yield f"Kept as {result.path} in {result.repository}; `regrade evaluate --engine.tuned` uses it."

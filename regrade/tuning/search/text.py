"""The page of a search for the fastest settings."""

from collections.abc import Iterator

from regrade.stats.scale import percent
from regrade.stats.speed import Spread
from regrade.text.blocks import Block, Heading, Line, Table, with_code
from regrade.tuning.search.job import TuneResult
from regrade.tuning.search.records import TrialRecord, Tuning
from regrade.tuning.search.rule import TOKENS

COLUMNS = ("start", "settings", "in flight", "per second", "TTFT p99 ms", "TPOT p99 ms", "n", "")
TEXT_COLUMNS = ("start", "settings", "")


def trial_rows(tuning: Tuning) -> Iterator[tuple[str, ...]]:
    """Yield a row per measurement, in the order of `COLUMNS`; the chosen settings are marked."""
    chosen = {k: v for k, v in tuning.settings.items() if k != "max_num_seqs"}
    default = tuning.trials[0].settings.get(TOKENS)  # the chosen settings leave it out
    if default is not None:
        chosen.setdefault(TOKENS, default)
    for trial in tuning.trials:
        is_chosen = trial.in_flight == tuning.in_flight and trial.settings == chosen
        mark = trial.broken or ("chosen" if is_chosen else "")
        yield (
            f"{trial.start + 1}",
            ", ".join(f"{name}={value:,}" for name, value in trial.settings.items()) or "default",
            f"{trial.in_flight:,}",
            f"{trial.rate:,.1f}",
            _p99(trial, "ttft"),
            _p99(trial, "tpot"),
            f"{trial.requests:,}",
            mark,
        )


def _p99(trial: TrialRecord, name: str) -> str:
    spread = getattr(trial.speed, name, None)
    return f"{1000 * spread.p99:,.1f}" if isinstance(spread, Spread) else "-"


def lines(result: TuneResult) -> Iterator[str]:
    """Yield the result in sentences."""
    tuning = result.tuning
    settings = ", ".join(f"{name}={value:,}" for name, value in tuning.settings.items())
    unit = "answers" if tuning.key.workload.method == "rank" else "tokens"
    yield (
        f"Fastest: {settings}, {tuning.rate:,.1f} {unit}/s. Differences below {percent(tuning.spread)} are noise: of "
        "equal settings, the smaller is chosen."
    )
    yield (
        f"For {tuning.key.model.name} on {tuning.key.hardware} with vLLM {tuning.key.vllm}: {tuning.key.workload}."
    )
    if tuning.key.limits:
        yield f"Within the limits: {tuning.key.limits_text}."
    yield from (f"{remark.rstrip('.')}." for remark in tuning.remarks)
    yield (
        f"{tuning.starts} engine starts ({result.load_seconds:.0f} s), {result.measure_seconds:.0f} s of measuring; "
        f"{result.answers_made:,} new answers are kept: {result.rows:,} of {result.expected_rows:,}."
    )
    yield f"Kept as {result.path} in {result.repository}; `regrade evaluate --engine.tuned` uses it."


def blocks(result: TuneResult) -> list[Block]:
    """Return the page of a search."""
    return [
        Heading(f"Tuned: {result.tuning.key.model.name}", 1),
        Table(COLUMNS, list(trial_rows(result.tuning)), TEXT_COLUMNS, lists=("settings",)),
        *(Line(with_code(line)) for line in lines(result)),
        *(result.time_spent.blocks() if result.time_spent is not None else ()),
    ]

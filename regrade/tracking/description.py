"""Markdown descriptions of runs: results, links to the answers, and the command that scores them again."""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

from regrade.stats.metrics import Average
from regrade.text.blocks import (
    Block,
    Code,
    Commands,
    Items,
    Line,
    Link,
    Strong,
    Table,
    Text,
    Words,
    with_code,
)
from regrade.text.markdown import markdown
from regrade.tracking.scoring import MAX_TAG, Scoring

# Stored in existing descriptions: must not change.
_GATE = "**Gate:** "
NOTES = "*Notes below this line are kept when the results above are brought up to date.*"


@dataclass(frozen=True, slots=True)
class Row:
    """A scoring in the table of an evaluation."""

    benchmark: str
    scorer: str
    accuracy: float | None
    stderr: float | None
    counts: tuple[int, ...]
    """n, unparsed, truncated, failed."""
    answer_set: str
    url: str | None
    headline: bool
    """The accuracy is the headline number of the benchmark."""
    calibration: str = ""
    """Figure corrected by people's labels, or `uncalibrated`; "" for scorings without a judge and labels."""
    average: str = ""
    """Name of the accuracy over several answers per question, such as `avg@8`; "" for one answer."""
    further: tuple[Average, ...] = ()
    """pass@k and maj@k; empty for one answer per question."""


_COLUMNS = ("Benchmark", "Scorer", "Accuracy", "n", "Unparsed", "Truncated", "Failed", "Answers")
_TEXT = (*_COLUMNS[:2], _COLUMNS[-1])
MAX_VERDICT = 1000
"""Characters for which a description has room above it."""


def evaluation_text(
    model: str, step: int, rows: Sequence[Row], command: str, existing: str = ""
) -> str:
    """Return the description of an evaluation, keeping the text below the `NOTES` line of `existing`.

    Rows beyond MLflow's limit on the length of a tag are counted instead of shown.
    """
    written = existing.partition(NOTES)[2].strip()
    notes = "\n".join([NOTES, *(["", written] if written else [])])
    cells = [_cells(row) for row in rows]

    def page(shown: int) -> str:
        return f"{markdown(list(blocks(shown)), width=None)}\n{notes}"

    def blocks(shown: int) -> Iterator[Block]:
        # The page folds the text after about five lines, so the headline numbers come first.
        best = [(" · ", row.benchmark, " ", *_accuracy(row)) for row in rows if row.headline][:8]
        yield Line(tuple(chain.from_iterable(best))[1:])
        yield Line(f"{model}, training step {step}" if step else model)
        yield Table(_COLUMNS, cells[:shown], _TEXT)
        if left := len(rows) - shown:
            yield Line(f"And {left} more: expand this run in the list of runs.")
        yield Line(with_code("± is the standard error. Bold is what `accuracy/<benchmark>` shows."))
        yield from (Line("Score the answers again:"), Commands([command]))

    room = MAX_TAG - MAX_VERDICT
    fitting = bisect_right(range(len(rows) + 1), room, key=lambda shown: len(page(shown)))
    results = page(max(0, fitting - 1)).removesuffix(f"\n{notes}")
    return f"{results[: max(0, MAX_TAG - len(notes) - 1)]}\n{notes}"


def with_verdict(description: str, verdict: str) -> str:
    """Return the description of an evaluation with the verdict of its gate as the first line, in place of an earlier one."""
    if verdict_in(description):
        description = description.partition("\n")[2].lstrip("\n")
    room = MAX_TAG - len(description) - 2
    if room <= len(_GATE):
        return description  # what people wrote below leaves no room
    return f"{f'{_GATE}{verdict}'[:room]}\n\n{description}"


def verdict_in(description: str) -> str:
    """Return the verdict with which a description begins, as markdown; "" without one."""
    first = description.partition("\n")[0]
    return first.removeprefix(_GATE) if first.startswith(_GATE) else ""


def scoring_text(scoring: Scoring, change: str | None = None) -> str:
    """Return the description of a scoring; `change` summarises the difference from the previous scoring."""
    return markdown(list(_of_scoring(scoring, change))).rstrip()[:MAX_TAG]


def _of_scoring(scoring: Scoring, change: str | None) -> Iterator[Block]:
    file, benchmark = scoring.file, scoring.manifest.specification.benchmark
    if file.intact_only:
        yield Line(Strong(file.intact_only))
    if scoring.calibration:
        yield Line(f"By people's labels: {scoring.calibration}")
    if change:
        yield Line(("The scorer changed, the answers are the same: ", *with_code(change)))
    yield Line(f"{benchmark.name} by {scoring.model_label}.")
    answers = Link(scoring.manifest.answer_set_id, scoring.url)
    place = (Code(scoring.repository), " at commit ", Code(scoring.revision))
    questions = (Code(benchmark.source), " at ", Code(benchmark.source_revision))
    source = (f" version {file.version}, source ", Code(file.source_hash))
    yield Items(
        [
            ("Answers: ", answers, " in ", *place),
            ("Questions: ", *questions),
            ("Scorer: ", Code(file.scorer), *source),
        ]
    )


def _cells(row: Row) -> tuple[Text, ...]:
    counts = (f"{count:,}" for count in row.counts)
    return (row.benchmark, row.scorer, _accuracy(row), *counts, Link(row.answer_set, row.url))


def _accuracy(row: Row) -> tuple[Words, ...]:
    """Return the accuracy, in bold if it is the headline, with pass@k and maj@k."""
    shown = "none"
    if row.accuracy is not None:
        calibrated = f" ({row.calibration})" if row.calibration else ""
        shown = f"{row.average} {_value(row.accuracy, row.stderr)}{calibrated}".strip()
    further = (f", {name} {_value(value, error)}" for name, value, error in row.further)
    return (Strong(shown) if row.headline else shown, *further)


def _value(value: float, error: float | None) -> str:
    return f"{value:.4f}" + (f" ± {error:.4f}" if error else "")

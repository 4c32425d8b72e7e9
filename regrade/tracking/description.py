"""Markdown descriptions of runs: results, links to the answers, and the command that scores them again."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import quote

from regrade.stats.metrics import Average
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


def evaluation_text(
    model: str, step: int, rows: Sequence[Row], command: str, existing: str = ""
) -> str:
    """Return the description of an evaluation, keeping the text below the `NOTES` line of `existing`.

    Rows beyond MLflow's limit on the length of a tag are counted instead of shown.
    """
    notes = existing.partition(NOTES)[2].strip()
    best = [
        ", ".join([f"{escape(row.benchmark)} **{_accuracy(row)}**", *_further(row)])
        for row in rows
        if row.headline
    ]
    head = [
        # The page folds the text after about five lines, so the headline numbers come first.
        " · ".join(best[:8]),
        "",
        f"{escape(model)}, training step {step}" if step else escape(model),
        "",
        "| Benchmark | Scorer | Accuracy | n | Unparsed | Truncated | Failed | Answers |",
        "|---|---|---:|---:|---:|---:|---:|---|",
    ]
    tail = ["", "± is the standard error. Bold is what `accuracy/<benchmark>` shows."]
    if command:
        tail += ["", "Score the answers again:", "", _fenced(command)]
    tail += ["", NOTES, *(["", notes] if notes else [])]
    lines = [_line(row) for row in rows]
    room = MAX_TAG - len("\n".join([*head, *tail])) - 100
    shown = 0
    while shown < len(lines) and room >= len(lines[shown]) + 1:
        room -= len(lines[shown]) + 1
        shown += 1
    left = len(lines) - shown
    more = ["", f"And {left} more: expand this run in the list of runs."] if left else []
    return "\n".join([*head, *lines[:shown], *more, *tail])[:MAX_TAG]


def with_verdict(description: str, verdict: str) -> str:
    """Return the description of an evaluation with the verdict of its gate as the first line, in place of an earlier one."""
    if verdict_in(description):
        description = description.partition("\n")[2].lstrip("\n")
    return f"{_GATE}{verdict}\n\n{description}"[:MAX_TAG]


def verdict_in(description: str) -> str:
    """Return the verdict with which a description begins, as markdown; "" without one."""
    first = description.partition("\n")[0]
    return first.removeprefix(_GATE) if first.startswith(_GATE) else ""


def scoring_text(scoring: Scoring, change: str | None = None) -> str:
    """Return the description of a scoring; `change` summarises the difference from the previous scoring."""
    answers = _link(scoring.manifest.answer_set_id, scoring.url)
    benchmark = scoring.manifest.specification.benchmark
    more = [f"**{escape(scoring.file.intact_only)}**", ""] if scoring.file.intact_only else []
    if scoring.calibration:
        more += [f"By people's labels: {escape(scoring.calibration)}", ""]
    if change:
        more += [f"The scorer changed, the answers are the same: {escape(change)}", ""]
    return "\n".join(
        [
            *more,
            f"{escape(benchmark.name)} by {escape(scoring.model_label)}.",
            "",
            f"- Answers: {answers} in {_code(scoring.repository)} at commit {_code(scoring.revision)}",
            f"- Questions: {_code(benchmark.source)} at {_code(benchmark.source_revision)}",
            f"- Scorer: {_code(scoring.file.scorer)} version {scoring.file.version}, source {_code(scoring.file.source_hash)}",
        ]
    )[:MAX_TAG]


_ESCAPED = {
    **{ord(special): f"\\{special}" for special in "\\`*_{}[]()!~$"},
    ord("&"): "&amp;",
    ord("<"): "&lt;",
    ord(">"): "&gt;",
    ord("|"): "&#124;",
}


def escape(text: str) -> str:
    """Escape text for one line of markdown, also inside a table."""
    return _visible(text).translate(_ESCAPED)


def _visible(text: str) -> str:
    """Return the text on one line without control characters."""
    line = " ".join(text.split())
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in line)


def _accuracy(row: Row) -> str:
    if row.accuracy is None:
        return "none"
    shown = f"{row.average} {_value(row.accuracy, row.stderr)}".strip()
    return f"{shown} ({escape(row.calibration)})" if row.calibration else shown


def _further(row: Row) -> list[str]:
    return [f"{name} {_value(value, error)}" for name, value, error in row.further]


def _value(value: float, error: float | None) -> str:
    return f"{value:.4f}" + (f" ± {error:.4f}" if error else "")


def _line(row: Row) -> str:
    cells = (
        escape(row.benchmark),
        escape(row.scorer),
        ", ".join([f"**{_accuracy(row)}**" if row.headline else _accuracy(row), *_further(row)]),
        *(f"{count:,}" for count in row.counts),
        _link(row.answer_set, row.url),
    )
    return f"| {' | '.join(cells)} |"


def _link(text: str, url: str | None) -> str:
    if url is None or not url.startswith(("https://", "http://")):
        return _code(text)
    return f"[{escape(text)}]({quote(url, safe=':/?#@%&=+,;~')})"


def _code(text: str) -> str:
    # Inside code, a bar still ends a table cell, and a backtick ends the code.
    text = _visible(text)
    return escape(text) if {"|", "`"} & set(text) or not text else f"`{text}`"


def _fenced(text: str) -> str:
    runs = re.findall(r"`{3,}", text)
    fence = "`" * (max(map(len, runs), default=2) + 1)
    return f"{fence}\n{text}\n{fence}"

"""A comparison of two models as table rows or a page of markdown; untrusted texts are escaped."""

from collections.abc import Iterator

from regrade.comparing.models import Comparison, Comparisons, FlipExample
from regrade.settings.view_address import comparison_address
from regrade.stats.scale import SHARES
from regrade.text.markdown import escape, page_tables
from regrade.text.numbers import average_text
from regrade.text.text import code_block, tail

COLUMNS = (
    "benchmark",
    "baseline",
    "candidate",
    "difference",
    "95 % interval",
    "right to wrong",
    "wrong to right",
    "p",
    "could show",
    "n",
)
GROUPS = (COLUMNS[:5], COLUMNS[5:])
"""Columns that stay together on a page."""
MAX_SUBSETS = 20
"""Most subsets listed for a benchmark."""
MAX_EXAMPLES_CHARACTERS = 100_000
"""Most characters of examples on a page, for a benchmark."""


def points(value: float | None, digits: int = 2) -> str:
    """Return a difference of shares in percentage points; a dash for None."""
    return SHARES.difference_text(value, digits)


def p_text(p: float | None) -> str:
    """Return a p-value, with four digits if it is below 0.1, else two."""
    if p is None:
        return "-"
    return "below 0.0001" if p < 1e-4 else f"{p:.4f}" if p < 0.1 else f"{p:.2f}"


def comparison_row(comparison: Comparison) -> tuple[str, ...]:
    """Return the cells of a benchmark, in the order of `COLUMNS`."""
    scale = comparison.scale
    return (
        comparison.benchmark,
        scale.text(comparison.base_accuracy, 2),
        scale.text(comparison.candidate_accuracy, 2),
        f"{scale.difference_text(comparison.difference)}{mark(comparison)}",
        f"{scale.difference_text(comparison.low)} to {scale.difference_text(comparison.high)}",
        f"{comparison.right_to_wrong:,}",
        f"{comparison.wrong_to_right:,}",
        p_text(comparison.p_value),
        scale.size_text(comparison.detectable_drop),
        n_text(comparison),
    )


def mark(comparison: Comparison) -> str:
    """Return ` (uncalibrated)`, or the correction by people's labels, of verdicts of a judge; "" without a judge."""
    return f" ({comparison.calibration})" if comparison.calibration else ""


def n_text(comparison: Comparison) -> str:
    """Return the number of compared questions, and their share if some were left out."""
    return f"{comparison.n:,}" + (
        "" if comparison.coverage >= 1 else f" ({100 * comparison.coverage:.1f} %)"
    )


def remarks(comparison: Comparison) -> Iterator[str]:
    """Yield remarks on a comparison: both sides, the test, moved subsets, known differences, notes."""
    scale = comparison.scale
    if comparison.judged_difference is not None:
        yield (
            f"corrected by people's labels ({comparison.calibration}); as judged, the difference is "
            f"{scale.difference_text(comparison.judged_difference)}"
        )
    elif comparison.calibration is not None:
        yield "uncalibrated: people have labelled too few answers of both sides to correct the judge (`regrade label`)"
    for name, side in (("baseline", comparison.base), ("candidate", comparison.candidate)):
        counts = f"{side.unparsed:,} unparsed, {side.truncated:,} truncated, {side.failed:,} without an answer"
        rows = f"{side.rows:,} answers"
        if side.rows < side.expected_rows:
            rows += f" of {side.expected_rows:,}"
        accuracy = average_text(side.accuracy, side.accuracy_stderr, side.repeats, 2, scale)
        yield f"{name}: {side.model}, answer set {side.answer_set_id}, {accuracy} of {rows}; {counts}"
    together = f", in {comparison.clusters:,} groups" if comparison.clusters < comparison.n else ""
    by = "" if comparison.paired_by == "sample_id" else ", paired by prompt, target and choices"
    yield f"{comparison.test}{together}{by}; both sides scored by {comparison.scorer}"
    as_judged = " as judged" if comparison.calibration else ""
    moved = [subset for subset in comparison.subsets if subset.moved]
    if comparison.subsets:
        yield (
            f"{len(moved)} of {len(comparison.subsets)} subsets moved{as_judged} (Benjamini-Hochberg at 5 %)"
        )
    for subset in sorted(moved, key=lambda subset: subset.p_adjusted)[:MAX_SUBSETS]:
        yield (
            f"subset {subset.name}: {scale.text(subset.base)} -> {scale.text(subset.candidate)} "
            f"({scale.difference_text(subset.difference, 1)} points{as_judged}, n={subset.n:,}, adjusted p {p_text(subset.p_adjusted)})"
        )
    for text in comparison.allowed:
        yield f"allowed difference: {text}"
    yield from comparison.notes


def comparison_view(comparison: Comparison, question: str | None = None) -> str | None:
    """Return the address of a comparison in the viewer, or of a question in it; None as in `view_address`."""
    base, candidate = comparison.base, comparison.candidate
    return comparison_address(
        (base.repository, candidate.repository),
        base.answer_set_id,
        candidate.answer_set_id,
        sample_id=question,
        revision=candidate.revision,
    )


def view_lines(comparison: Comparison) -> list[str]:
    """Return a line of markdown with the address of a comparison in the viewer; empty without one."""
    address = comparison_view(comparison)
    return [] if address is None else [f"[Read all changed answers]({address})", ""]


def not_compared(comparisons: Comparisons) -> Iterator[str]:
    """Yield a line for each benchmark that was not compared."""
    for refused in comparisons.refused:
        yield f"{refused.benchmark}: {refused.reason}"
    if comparisons.only_base:
        yield f"only the baseline has complete answers to: {', '.join(comparisons.only_base)}"
    if comparisons.only_candidate:
        yield f"only the candidate has complete answers to: {', '.join(comparisons.only_candidate)}"


def comparisons_markdown(comparisons: Comparisons) -> str:
    """Return a page of markdown; names and texts of models are escaped."""
    lines = [
        f"# {escape(comparisons.candidate)} against {escape(comparisons.base)}",
        "",
        *page_tables(
            GROUPS, COLUMNS, list(map(comparison_row, comparisons.compared)), key=COLUMNS[:1]
        ),
        "",
        "Differences are candidate minus baseline in percentage points, or in the points of the scores, paired by question. `could show`: the smallest "
        "true drop that this number of questions detects with a probability of 80 %, if as many answers change as here. "
        "± is one standard error.",
        "",
        *(f"- Not compared: {escape(text)}" for text in not_compared(comparisons)),
        "",
    ]
    for comparison in comparisons.compared:
        lines += [f"## {escape(comparison.benchmark)}", ""]
        lines += [f"- {escape(text)}" for text in remarks(comparison)]
        lines += ["", *view_lines(comparison), *examples_markdown(comparison)]
    return "\n".join(lines)


def examples_markdown(comparison: Comparison) -> list[str]:
    """Return the flipped answers, folded; examples beyond `MAX_EXAMPLES_CHARACTERS` are only counted."""
    if not comparison.examples:
        return []
    lines = [
        f"<details><summary>Examples of flipped answers: {len(comparison.examples)}</summary>",
        "",
    ]
    size = 0
    for number, example in enumerate(comparison.examples):
        shown = _example(comparison, example)
        size += sum(len(line) for line in shown)
        if size > MAX_EXAMPLES_CHARACTERS:
            lines += [f"And {len(comparison.examples) - number} more.", ""]
            break
        lines += shown
    return [*lines, "</details>", ""]


def _example(comparison: Comparison, example: FlipExample) -> list[str]:
    subset = f" · {escape(example.subset)}" if example.subset else ""
    texts = (
        ("prompt", example.prompt, None),
        ("baseline", example.base_text, example.base_extracted),
        ("candidate", example.candidate_text, example.candidate_extracted),
    )
    lines = [
        f"**{example.kind}** · {escape(example.question)}{subset} · target: {escape(tail(example.target or '-'))}",
        "",
    ]
    for name, text, read in texts:
        note = "" if name == "prompt" else f", read: {escape(tail(read)) if read else 'nothing'}"
        lines += code_block(f"{name}{note}", text or "")
    address = comparison_view(comparison, example.question)
    return lines if address is None else [*lines, f"[Both answers]({address})", ""]

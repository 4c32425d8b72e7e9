"""A comparison as people read it: rows of a table, and a page of markdown that nothing breaks out of."""

from collections.abc import Iterator

from regrade.comparing.models import Comparison, Comparisons, FlipExample
from regrade.reporting.diffs import tail
from regrade.reporting.tables import escape, percent

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
MAX_SUBSETS = 20
MAX_EXAMPLES_CHARACTERS = 100_000


def points(value: float | None, digits: int = 2) -> str:
    """Return a difference of shares in percentage points; a dash where there is none."""
    return "-" if value is None else f"{100 * value:+.{digits}f}"


def p_text(p: float | None) -> str:
    """Return a p-value as people read it."""
    if p is None:
        return "-"
    return "< 0.0001" if p < 1e-4 else f"{p:.4f}" if p < 0.1 else f"{p:.2f}"


def comparison_row(one: Comparison) -> tuple[str, ...]:
    """Return the cells of one benchmark, in the order of `COLUMNS`."""
    return (
        one.benchmark,
        percent(one.base_accuracy, 2),
        percent(one.candidate_accuracy, 2),
        points(one.difference),
        f"{points(one.low)} to {points(one.high)}",
        f"{one.right_to_wrong:,}",
        f"{one.wrong_to_right:,}",
        p_text(one.p_value),
        f"{100 * one.detectable_drop:.2f}",
        f"{one.n:,}" + ("" if one.coverage >= 1 else f" ({100 * one.coverage:.1f} %)"),
    )


def remarks(one: Comparison) -> Iterator[str]:
    """Yield what a reader should know beside the row: both sides, what moved, what differs, what is not known."""
    for name, side in (("baseline", one.base), ("candidate", one.candidate)):
        counts = f"{side.unparsed:,} unparsed, {side.truncated:,} truncated, {side.failed:,} without an answer"
        rows = f"{side.rows:,} answers"
        if side.rows < side.expected_rows:
            rows += f" of {side.expected_rows:,}"
        yield f"{name}: {side.model}, answer set {side.answer_set_id}, {percent(side.accuracy, 2)} of {rows}; {counts}"
    together = f", in {one.clusters:,} groups" if one.clusters < one.n else ""
    by = "" if one.paired_by == "sample_id" else ", paired by prompt, target and choices"
    yield f"{one.test}{together}{by}; both sides graded by {one.scorer}"
    moved = [subset for subset in one.subsets if subset.moved]
    if one.subsets:
        yield f"{len(moved)} of {len(one.subsets)} subsets moved (Benjamini-Hochberg at 5 %)"
    for subset in sorted(moved, key=lambda each: each.p_adjusted)[:MAX_SUBSETS]:
        yield (
            f"subset {subset.name}: {percent(subset.base)} -> {percent(subset.candidate)} "
            f"({points(subset.difference, 1)} points, n={subset.n:,}, adjusted p {p_text(subset.p_adjusted)})"
        )
    for text in one.allowed:
        yield f"differs, as meant: {text}"
    yield from one.notes


def beside(comparisons: Comparisons) -> Iterator[str]:
    """Yield what was not compared, and why."""
    for refused in comparisons.refused:
        yield f"{refused.benchmark}: {refused.reason}"
    if comparisons.only_base:
        yield f"only the baseline has complete answers to: {', '.join(comparisons.only_base)}"
    if comparisons.only_candidate:
        yield f"only the candidate has complete answers to: {', '.join(comparisons.only_candidate)}"


def comparisons_markdown(comparisons: Comparisons) -> str:
    """Return a page of markdown; what comes from a model, a prompt or a name is shown as it is."""
    lines = [
        f"# {escape(comparisons.candidate)} against {escape(comparisons.base)}",
        "",
        *table(COLUMNS, [comparison_row(one) for one in comparisons.compared]),
        "",
        "Differences are candidate minus baseline in percentage points, paired by question. `could show`: the smallest "
        "true drop that this many questions would have shown with a chance of 80 %.",
        "",
        *(f"- Not compared: {escape(text)}" for text in beside(comparisons)),
        "",
    ]
    for one in comparisons.compared:
        lines += [f"## {escape(one.benchmark)}", ""]
        lines += [f"- {escape(text)}" for text in remarks(one)]
        lines += ["", *examples_markdown(one)]
    return "\n".join(lines)


def table(columns: tuple[str, ...], rows: list[tuple[str, ...]]) -> list[str]:
    """Return the lines of a table, texts on the left in the first column only; none where there are no rows."""
    if not rows:
        return []
    head = ["| " + " | ".join(columns) + " |", "| --- |" + " ---: |" * (len(columns) - 1)]
    return [*head, *("| " + " | ".join(escape(cell) for cell in row) + " |" for row in rows)]


def examples_markdown(one: Comparison) -> list[str]:
    """Return what flipped, folded; those that would make the page too long are only counted."""
    if not one.examples:
        return []
    lines = [f"<details><summary>What flipped: {len(one.examples)} examples</summary>", ""]
    size = 0
    for number, example in enumerate(one.examples):
        shown = _example(example)
        size += sum(len(line) for line in shown)
        if size > MAX_EXAMPLES_CHARACTERS:
            lines += [f"And {len(one.examples) - number} more.", ""]
            break
        lines += shown
    return [*lines, "</details>", ""]


def _example(example: FlipExample) -> list[str]:
    subset = f" · {escape(example.subset)}" if example.subset else ""
    said = (
        ("prompt", example.prompt, None),
        ("baseline", example.base_text, example.base_extracted),
        ("candidate", example.candidate_text, example.candidate_extracted),
    )
    lines = [
        f"**{example.kind}** · {escape(example.question)}{subset} · target: {escape(tail(example.target or '-'))}",
        "",
    ]
    for name, text, read in said:
        which = "" if name == "prompt" else f", read: {escape(tail(read)) if read else 'nothing'}"
        lines += [f"{name}{which}:", "", *indented(text or ""), ""]
    return lines


def indented(text: str) -> list[str]:
    """Return a text as indented code: no line of it can end that."""
    visible = "".join(
        c if c.isprintable() or c in "\n\t" else "\N{REPLACEMENT CHARACTER}" for c in tail(text)
    )
    return [f"    {line}" for line in visible.split("\n")]

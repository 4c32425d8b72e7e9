"""A comparison of two scorings as one line or a page of markdown; untrusted texts are escaped."""

import shlex
from collections.abc import Sequence

from regrade.scoring.diff import Changes, Diff, Example
from regrade.stats.scale import Scale
from regrade.text.markdown import escape, markdown_table
from regrade.text.text import code_block, tail

MAX_MARKDOWN = 200_000
"""Longest page, in characters."""
COUNTS = ("right to wrong", "wrong to right", "newly parsed", "newly unparsed", "read differently")


def what_changed(diff: Diff) -> str:
    """Return the explanation that the scorer changed, not the model."""
    return (
        f"The scorer changed ({diff.before.title} -> {diff.after.title}). The {diff.rows:,} answers are the same, "
        "so the differences say nothing about the model."
    )


def diff_line(diff: Diff) -> str:
    """Return the change in one line, with the command that shows the details."""
    overall, before, after = diff.overall, diff.before, diff.after
    versions = f"v{before.version} -> v{after.version}"
    if before.version == after.version:
        versions = f"v{before.version} {before.source_hash} -> {after.source_hash}"
    return (
        f"{after.scorer} {versions}: {diff.scale.text(overall.before)} -> {diff.scale.text(overall.after)}, "
        f"{overall.wrong_to_right} wrong to right, {overall.right_to_wrong} right to wrong, "
        f"{overall.newly_parsed} newly parsed, {overall.newly_unparsed} newly unparsed; see "
        f"`{diff_command(diff)}`"
    )


def diff_command(diff: Diff) -> str:
    """Return the `regrade diff` command that shows this comparison."""
    return (
        f"regrade diff {diff.answer_set_id} --answers {shlex.quote(diff.repository)} "
        f"--from {diff.before.label} --to {diff.after.label}"
    )


def change_text(changes: Changes, scale: Scale) -> str:
    """Return the change of the metric with its paired 95 % interval, in percentage points or those of the scale."""
    if changes.difference is None:
        return "no answers with a value on both sides"
    means = f"{scale.text(changes.before, 2)} -> {scale.text(changes.after, 2)}"
    shown = f"{means}: {scale.difference_text(changes.difference)} points"
    if changes.low is None or changes.high is None:
        return f"{shown} (n={changes.n:,}; one question has no interval)"
    interval = f"{scale.difference_text(changes.low)} to {scale.difference_text(changes.high)}"
    return f"{shown}, 95 % interval {interval} (paired, n={changes.n:,})"


def table_rows(diff: Diff) -> list[tuple[str, ...]]:
    """Return the cells of all answers, then of each changed subset."""
    parts = [
        ("all answers", diff.overall),
        *((subset.name, subset.changes) for subset in diff.subsets),
    ]
    return [(name, *_counts(changes), change_text(changes, diff.scale)) for name, changes in parts]


def diffs_markdown(diffs: Sequence[Diff]) -> str:
    """Return several comparisons on one page; those beyond `MAX_MARKDOWN` are only counted."""
    pages: list[str] = []
    size = 0
    for number, diff in enumerate(diffs):
        page = diff_markdown(diff)
        size += len(page)
        if pages and size > MAX_MARKDOWN:
            pages.append(f"And {len(diffs) - number} more: see `regrade diff`.\n")
            break
        pages.append(page)
    return "\n".join(pages)


def diff_markdown(diff: Diff) -> str:
    """Return a comparison as markdown; names and texts of models are escaped."""
    lines = [
        f"## {escape(diff.benchmark)} · {escape(diff.model)}",
        "",
        what_changed(diff),
        "",
        *markdown_table(
            ("answers", *COUNTS, "accuracy"), table_rows(diff), text=("answers", "accuracy")
        ),
        "",
        "Answers that are newly parsed or newly unparsed may also be counted as `wrong to right` or `right to wrong`.",
        "",
    ]
    for example in diff.examples:
        lines += _example(example)
    return "\n".join([*lines, "```", diff_command(diff), "```", ""])


def _counts(changes: Changes) -> tuple[str, ...]:
    return tuple(f"{getattr(changes, name.replace(' ', '_')):,}" for name in COUNTS)


def _example(example: Example) -> list[str]:
    before, after = (
        "nothing" if read is None else escape(tail(read))
        for read in (example.extracted_before, example.extracted_after)
    )
    subset = f" · {escape(example.subset)}" if example.subset else ""
    return [
        f"**{example.kind}** · {escape(example.sample_id)} repeat {example.repeat}{subset}",
        "",
        f"read before: {before} · read now: {after} · target: {escape(tail(example.target or '-'))}",
        "",
        *code_block("prompt", "-" if example.prompt is None else example.prompt),
        *code_block("answer", "-" if example.text is None else example.text),
    ]

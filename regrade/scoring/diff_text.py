"""A comparison of two scorings as one line or a page."""

import shlex
from collections.abc import Iterator

from regrade.scoring.diff import ChangedExample, Changes, Diff
from regrade.stats.scale import Scale
from regrade.text.blocks import Block, Commands, Heading, Items, Line, Quote, Table, with_code
from regrade.text.text import tail

_EXPLAINED = "Answers that are newly parsed or newly unparsed may also be counted as `wrong to right` or `right to wrong`."
COUNTS = ("right to wrong", "wrong to right", "newly parsed", "newly unparsed", "read differently")
GRADED = ("value fell", "value rose")
"""Counts shown if a value moved that is neither right before nor right now, as of a scorer that gives 0.5."""
SCORED = ("newly scored", "no longer scored")
"""Counts shown if an answer has a value on one side only."""


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
    moved = ""
    if overall.is_graded:
        moved = f"{overall.value_rose} values rose, {overall.value_fell} fell, "
    scored = "".join(
        f", {_count(overall, name)} {name}" for name in SCORED if _count(overall, name)
    )
    return (
        f"{after.scorer} {versions}: {diff.scale.text(overall.before)} -> {diff.scale.text(overall.after)}, "
        f"{moved}{overall.wrong_to_right} wrong to right, {overall.right_to_wrong} right to wrong, "
        f"{overall.newly_parsed} newly parsed, {overall.newly_unparsed} newly unparsed{scored}; see "
        f"`{diff_command(diff)}`"
    )


def diff_command(diff: Diff) -> str:
    """Return the `regrade diff` command that shows this comparison."""
    return (
        f"regrade diff {diff.answer_set_id} --answers {shlex.quote(diff.repository)} "
        f"--baseline {diff.before.label} --to {diff.after.label}"
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


def blocks(diff: Diff) -> list[Block]:
    """Return the page of a comparison: all answers, each changed subset, and examples."""
    changes = [
        ("all answers", diff.overall),
        *((subset.name, subset.changes) for subset in diff.subsets),
    ]
    counts = (
        *(GRADED if diff.overall.is_graded else ()),
        *COUNTS,
        *(name for name in SCORED if _count(diff.overall, name)),
    )
    rows = [
        (name, *(f"{_count(part, kind):,}" for kind in counts), change_text(part, diff.scale))
        for name, part in changes
    ]
    sides = [
        f"{side.label}: {f'stored {side.scored_at}' if side.stored else 'scored just now, not stored'}"
        for side in (diff.before, diff.after)
    ]
    return [
        Heading(f"{diff.benchmark} · {diff.model}"),
        Line(what_changed(diff)),
        Items(sides),
        Table(("answers", *counts, "accuracy"), rows, ("answers", "accuracy")),
        Line(with_code(_EXPLAINED), "note"),
        *(block for example in diff.examples for block in _example(example, diff)),
        Commands([diff_command(diff)]),
    ]


def _count(changes: Changes, name: str) -> int:
    count: int = getattr(changes, name.replace(" ", "_"))
    return count


def _example(example: ChangedExample, diff: Diff) -> Iterator[Block]:
    place = f"{example.sample_id} repeat {example.repeat}"
    yield Heading(" · ".join(filter(None, (example.kind, place, example.subset))), 4)
    before, after = (
        "nothing" if read is None else tail(" ".join(read.split()))
        for read in (example.extracted_before, example.extracted_after)
    )
    target = tail(example.target or "-")
    if not diff.overall.is_graded:
        yield Line(f"read before: {before} · read now: {after} · target: {target}")
    else:
        values = f"value {_value(example.value_before)} -> {_value(example.value_after)}"
        read = before if before == after else f"{before} -> {after}"
        yield Line(f"{values} · target: {target} · read: {read}")
    yield Quote("prompt", "-" if example.prompt is None else tail(example.prompt))
    yield Quote("answer", "-" if example.text is None else tail(example.text))


def _value(value: float | None) -> str:
    return "no value" if value is None else f"{value:.4g}"

"""The page of a comparison of two models."""

from collections.abc import Iterator

from regrade.answers.figures import figures_line
from regrade.comparing.models import Comparison, Comparisons, FlipExample
from regrade.settings.view_address import comparison_address
from regrade.stats.numbers import average_text
from regrade.stats.scale import percent
from regrade.text.blocks import Block, Fold, Heading, Items, Line, Link, Quote, Table, with_code
from regrade.text.text import significant, tail

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
"""Most subsets listed for a benchmark."""
_EXPLAINED = (
    "Differences are candidate minus baseline in percentage points, or in the points of the scores, paired by question. `could "
    "show`: the smallest true drop that this number of questions detects with a probability of 80 %, if as many answers change "
    "as here. ± is one standard error."
)


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
        "" if comparison.coverage >= 1 else f" ({percent(comparison.coverage)})"
    )


def remarks(comparison: Comparison) -> Iterator[str]:
    """Yield remarks on a comparison: the noise floor, facts, known differences, notes."""
    yield from noise_lines(comparison)
    yield from facts(comparison)
    yield from doubts(comparison)


def share_text(count: int, n: int, interval: tuple[float, float]) -> str:
    """Return a share with its interval in per cent; without one of them, the upper end is the news."""
    low, high = (significant(100 * end, 2) for end in interval)
    if not count:
        return f"in none of {n:,} answers, so in at most {high} % (95 %)"
    return f"in {significant(100 * count / n, 2)} % of the answers ({low} to {high} %, n = {n:,})"


def noise_lines(comparison: Comparison) -> list[str]:
    """Return a sentence about the noise floor, and the comparison beside it; empty if it was not measured."""
    noise = comparison.noise
    if noise is None:
        return []
    floor, scale = noise.floor, comparison.scale
    places = " and ".join(dict.fromkeys((floor.first.place, floor.second.place)))
    found = share_text(floor.scores_differ, floor.n, floor.scores)
    few = abs(comparison.difference) <= noise.reach
    unit = " points" if scale.unit == "%" else ""
    if noise.inside:
        verdict = "the difference is inside the noise"
    elif few:
        verdict = "more changed than noise changes, although a difference this small may be noise"
    else:
        verdict = "the difference is outside the noise"
    return [
        f"noise floor: an unchanged model differs {found}; {floor.model}, measured {floor.second.at} by {places}. Here "
        f"{percent(noise.changed)} of the questions changed, and noise alone makes a difference of up to "
        f"{scale.size_text(noise.reach)}{unit}: {verdict}"
    ]


def doubts(comparison: Comparison) -> Iterator[str]:
    """Yield known differences beside the model, and notes."""
    for text in comparison.allowed:
        yield f"allowed difference: {text}"
    yield from comparison.notes


def facts(comparison: Comparison) -> Iterator[str]:
    """Yield facts about a comparison: both sides, their figures, the test, moved subsets."""
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
    if figures := figures_line("compare", comparison.base.figures, comparison.candidate.figures):
        yield f"baseline -> candidate: {figures}"
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


def view_lines(comparison: Comparison) -> list[Line]:
    """Return a line with the address of a comparison in the viewer; empty without one."""
    address = comparison_view(comparison)
    return [] if address is None else [Line(Link("Read all changed answers", address))]


def not_compared(comparisons: Comparisons) -> Iterator[str]:
    """Yield a line for each benchmark that was not compared."""
    for refused in comparisons.refused:
        yield f"{refused.benchmark}: {refused.reason}"
    if comparisons.only_base:
        yield f"only the baseline has complete answers to: {', '.join(comparisons.only_base)}"
    if comparisons.only_candidate:
        yield f"only the candidate has complete answers to: {', '.join(comparisons.only_candidate)}"


def blocks(comparisons: Comparisons) -> list[Block]:
    """Return the page of a comparison."""
    compared = comparisons.compared
    page: list[Block] = [
        Heading(f"{comparisons.candidate} against {comparisons.base}", 1),
        Table(COLUMNS, list(map(comparison_row, compared)), headings=COLUMNS[:1]),
        Line(with_code(_EXPLAINED), "note"),
        Items([f"not compared: {text}" for text in not_compared(comparisons)], "doubt"),
    ]
    for comparison in compared:
        page += [Heading(comparison.benchmark), Items(list(remarks(comparison)))]
        page += [*view_lines(comparison), *example_blocks(comparison)]
    return page


def example_blocks(comparison: Comparison) -> list[Block]:
    """Return the flipped answers, folded."""
    if not comparison.examples:
        return []
    examples = [block for example in comparison.examples for block in _example(comparison, example)]
    return [Fold(f"Examples of flipped answers: {len(comparison.examples)}", examples)]


def _example(comparison: Comparison, example: FlipExample) -> Iterator[Block]:
    parts = (
        example.kind,
        example.question,
        example.subset,
        f"target: {tail(example.target or '-')}",
    )
    yield Heading(" · ".join(filter(None, parts)), 4)
    yield Quote("prompt", tail(example.prompt or ""))
    for name, text, read in (
        ("baseline", example.base_text, example.base_extracted),
        ("candidate", example.candidate_text, example.candidate_extracted),
    ):
        yield Quote(f"{name}, read: {tail(read) if read else 'nothing'}", tail(text or ""))
    if (address := comparison_view(comparison, example.question)) is not None:
        yield Line(Link("Both answers", address))

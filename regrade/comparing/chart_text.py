"""Accuracy over cost: the page and the chart."""

from collections.abc import Iterator

from regrade.comparing.costs import UNITS
from regrade.comparing.text import p_text
from regrade.comparing.tradeoff import PairedDifference, PricedModel, Tradeoff, Tradeoffs
from regrade.stats.curves import Axes, Curve, Place
from regrade.text.blocks import Block, Heading, Line, Table
from regrade.text.text import counted

_MOST_SENTENCES = 12


def blocks(result: Tradeoffs) -> list[Block]:
    """Return a table for each benchmark, and what it says."""
    page: list[Block] = []
    for tradeoff in result.benchmarks:
        page += [Heading(tradeoff.benchmark), choice_table(tradeoff, result.currency)]
        page += map(Line, sentences(tradeoff, result.currency))
    return page


def choice_table(tradeoff: Tradeoff, currency: str) -> Table:
    """Return a row per choice, the cheapest first."""
    rows = [
        (
            choice.name,
            choice.scale.mean_text(choice.accuracy, choice.accuracy_stderr)
            + (f" ({choice.calibration})" if choice.calibration else ""),
            cost_text(tradeoff, choice, currency),
            "front" if choice.on_front else "",
            f"{choice.n:,}",
            ", ".join(choice.devices),
        )
        for choice in tradeoff.choices
    ]
    columns = ("model", "accuracy", f"{tradeoff.over} per question", "", "n", "devices")
    return Table(columns, rows, ("model", "", "devices"))


def cost_text(tradeoff: Tradeoff, choice: PricedModel, currency: str) -> str:
    """Return the cost of a question with its unit."""
    units = {"seconds": " s", "tokens": " tokens", "money": f" {currency}"}
    return f"{choice.cost:,.4g}{units[tradeoff.over]}"


def sentences(tradeoff: Tradeoff, currency: str) -> Iterator[str]:
    """Yield the front, the differences that are real, and reasons for doubt."""
    front = [choice for choice in tradeoff.choices if choice.on_front]
    models = ", ".join(
        f"{choice.name} ({choice.scale.text(choice.accuracy)} for {cost_text(tradeoff, choice, currency)})"
        for choice in front
    )
    yield f"Pareto front, the cheapest first: {models or 'empty'}."
    yield from _differences(tradeoff)
    devices = {choice.devices for choice in tradeoff.choices}
    if tradeoff.over != "tokens" and len(devices) > 1:
        names = "; ".join(sorted(", ".join(names) for names in devices))
        yield f"Measured on different devices ({names}): their seconds are not those of the models alone."
    yield from tradeoff.left_out


def _differences(tradeoff: Tradeoff) -> Iterator[str]:
    if not tradeoff.pairs:
        return
    real = [pair for pair in tradeoff.pairs if pair.real]
    tests = f"{counted(len(tradeoff.pairs), 'paired test')}, Holm's correction at 5 %"
    if not real:
        yield f"No difference in accuracy is real ({tests}). {_within(tradeoff)}"
        return
    yield f"Differences in accuracy that are real: {len(real)} of {len(tradeoff.pairs)} ({tests})."
    shown = sorted(real, key=lambda pair: pair.p_adjusted)[:_MOST_SENTENCES]
    yield from (f"{pair.better} is better than {pair.worse}: {_numbers(pair)}." for pair in shown)
    on_front = {choice.name for choice in tradeoff.choices if choice.on_front}
    unclear = [p for p in tradeoff.pairs if not p.real and {p.better, p.worse} <= on_front]
    for pair in unclear[:_MOST_SENTENCES]:
        yield f"{pair.better} and {pair.worse} are both on the front, but their difference may be chance: {_numbers(pair)}."


def _within(tradeoff: Tradeoff) -> str:
    """Return the largest difference from the cheapest that the paired intervals do not exclude."""
    cheapest = tradeoff.choices[0].name
    pairs = [pair for pair in tradeoff.pairs if cheapest in (pair.better, pair.worse)]
    if not pairs:
        return f"{cheapest}, the cheapest, is compared with none."
    scale, n = pairs[0].scale, min(pair.n for pair in pairs)
    most = scale.size_text(max(max(abs(pair.low), abs(pair.high)) for pair in pairs), 1)
    return f"{cheapest}, the cheapest, is within {most} points of the others, as far as {n:,} questions show."


def _numbers(pair: PairedDifference) -> str:
    scale = pair.scale
    return (
        f"{scale.difference_text(pair.difference)} points [{scale.difference_text(pair.low)}, {scale.difference_text(pair.high)}], "
        f"p = {p_text(pair.p_adjusted)}, n = {pair.n:,}"
    )


def chart_of(
    tradeoff: Tradeoff, currency: str
) -> tuple[tuple[Curve, ...], Axes, tuple[Place, ...]]:
    """Return curves, axes and front for `curve_chart`."""
    places = [
        (choice, Place(choice.cost, choice.accuracy, choice.accuracy_low, choice.accuracy_high))
        for choice in tradeoff.choices
    ]
    curves = tuple(Curve(choice.name, (place,), joined=False) for choice, place in places)
    unit = UNITS[tradeoff.over] + (f" ({currency})" if tradeoff.over == "money" else "")
    front = tuple(place for choice, place in places if choice.on_front)
    dashed = ", dashed: Pareto front" if len(front) > 1 else ""
    title = f"{tradeoff.benchmark}: accuracy over {tradeoff.over} (95 % intervals{dashed})"
    axes = Axes(
        title,
        unit,
        "accuracy",
        percent_y=all(choice.scale.unit == "%" for choice in tradeoff.choices),
    )
    return curves, axes, front

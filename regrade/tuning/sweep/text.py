"""The page and the plots of a sweep."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import hypot

from regrade.answers.figures import figures_in
from regrade.comparing.text import p_text
from regrade.settings.project_folder import VERSION
from regrade.stats.curves import Axes, Curve, Place
from regrade.stats.scale import SHARES, percent
from regrade.stats.significance import holm
from regrade.stats.speed import LATENCY_COLUMNS
from regrade.text import blocks as page
from regrade.text.blocks import Block, Code, Details, Heading, Items, Line, Table, Text
from regrade.text.text import counted
from regrade.tuning.sweep.points import IN_FLIGHT, short
from regrade.tuning.sweep.results import Measured, PointResult, SweepResult

LEVEL = 0.05
_RESULT_COLUMNS = (
    "accuracy",
    "s per answer",
    "wall-clock s",
    "speed-up",
    "spread",
    "answers/s",
    "tokens/s",
    "difference",
    "worse / better",
    "p",
)
_EXPLAINED = (
    "Accuracy ± one standard error. Difference from the first point in percentage points with its 95 % interval; worse / "
    "better: questions with a lower / higher value; p: paired test of no difference, not corrected for the number of points. "
    "Wall-clock: generating, without loading. Where all questions were asked several times, wall-clock, speed-up, answers/s and "
    "tokens/s are those of the mean time, seconds per answer and latencies those of the first time. Spread: half of the 95 % interval "
    "of the speed."
)


@dataclass(frozen=True, slots=True)
class SweepPlot:
    """A plot of a sweep's page."""

    file: str
    """Name without its ending."""
    curves: tuple[Curve, ...]
    axes: Axes


def setting_columns(sweep: SweepResult) -> tuple[str, ...]:
    """Return the names of the columns that distinguish the points."""
    names = tuple("in flight" if name == IN_FLIGHT else short(name) for name in sweep.axes)
    return names if len(set(names)) == len(names) else tuple(sweep.axes)


def result_columns() -> tuple[str, ...]:
    """Return the columns of `result_rows` after the settings: measurements, and figures that the measurements do not have."""
    return (*_RESULT_COLUMNS, *(figure.heading for figure in figures_in("sweep")))


def result_rows(sweep: SweepResult, benchmark: str) -> Iterator[tuple[str, ...]]:
    """Yield a row per point: its settings, then `result_columns`; `notes` has the reason why a point failed."""
    for point in sweep.points:
        settings = _settings(sweep, point)
        measured = point.on(benchmark)
        if measured is None:
            outcome = "failed" if point.failure else "not measured"
            yield *settings, outcome, *("" for _ in result_columns()[1:])
            continue
        test = measured.test
        incomplete = "" if measured.rows == measured.expected_rows else f" of {measured.rows:,}"
        yield (
            *settings,
            SHARES.mean_text(measured.accuracy, measured.accuracy_stderr) + incomplete,
            _number(measured.seconds_per_answer, 4),
            _number(measured.seconds, 2),
            _number(measured.speed_up, 2),
            "-" if measured.spread is None else f"± {percent(measured.spread)}",
            _number(measured.answers_per_second, 1),
            _number(measured.tokens_per_second, 0),
            "-"
            if test is None
            else f"{SHARES.difference_text(test.difference)} ({SHARES.difference_text(test.low)} to {SHARES.difference_text(test.high)})",
            "-" if test is None else f"{test.worse:,} / {test.better:,}",
            "-" if test is None else p_text(test.p_value),
            *(
                figure.text(measured.figures.get(figure.name), "-")
                for figure in figures_in("sweep")
            ),
        )


def latency_rows(sweep: SweepResult, benchmark: str) -> Iterator[tuple[str, ...]]:
    """Yield a row per point and latency: settings, then `LATENCY_COLUMNS`; in milliseconds."""
    for point in sweep.points:
        measured = point.on(benchmark)
        if measured is not None and measured.speed is not None:
            for name, spread in measured.speed.latencies():
                yield *_settings(sweep, point), name, *spread.milliseconds(2)


def sentences(sweep: SweepResult, benchmark: str) -> Iterator[str]:
    """Yield conclusions in plain words: the fastest point, and the points whose accuracy really differs."""
    measured = [(p, m) for p in sweep.points if (m := p.on(benchmark)) is not None]
    first = sweep.points[0].on(benchmark)
    if measured and (first is None or first.speed_up is None):
        yield f"No speed-up: the first point, {sweep.points[0].name}, has no complete measurement."
    rated = [(p, m) for p, m in measured if m.speed_up is not None]
    if len(rated) > 1:
        yield _fastest(rated, sweep.points[0].name)
    tested = [(p, m.test) for p, m in measured if m.test is not None]
    if not tested:
        return
    adjusted = holm([test.p_value for _, test in tested])
    real = [(p, t, q) for (p, t), q in zip(tested, adjusted, strict=True) if q <= LEVEL]
    for point, test, q in real:
        word = "worse" if test.difference < 0 else "better"
        yield (
            f"Accuracy at {point.name} is {word} than at the first point: {SHARES.difference_text(test.difference)} points "
            f"(p = {p_text(q)}, corrected for {counted(len(tested), 'test')})."
        )
    if not real:
        widest = max(max(abs(t.low), abs(t.high)) for _, t in tested)
        yield (
            f"No difference in accuracy from the first point is real ({counted(len(tested), 'test')}, Holm's correction at 5 %). Each point is "
            f"within {100 * widest:.2f} points of it, as far as {min(t.n for _, t in tested):,} questions show."
        )


def _fastest(rated: Sequence[tuple[PointResult, Measured]], first: str) -> str:
    """Return which point is fastest, or those that are, as far as the spread of their speeds tells them apart."""
    point, best = max(rated, key=lambda entry: entry[1].speed_up or 0.0)
    others = [p for p, m in rated if p is not point and not _differ(best, m)]
    if len(others) == len(rated) - 1:
        return "No point is the fastest: the speeds differ by no more than their spread, or it is not known."
    times = f"{best.speed_up:.2f} times as fast as {first}"
    if point.name == first:
        times = "the point that the others are compared with"
    if not others:
        return f"Fastest: {point.name}, {times}."
    names = "; ".join(p.name for p in others)
    return f"Fastest: {point.name}, {times}, and within the spread of its speed: {names}."


def _differ(fast: Measured, slow: Measured) -> bool:
    """Return True if two speeds differ by more than the spreads of both."""
    if fast.spread is None or slow.spread is None or not fast.speed_up or slow.speed_up is None:
        return False
    return 1 - slow.speed_up / fast.speed_up > hypot(fast.spread, slow.spread)


def notes(sweep: SweepResult, benchmark: str) -> Iterator[str]:
    """Yield a line for each point with a failure, a remark or a goodput."""
    for point in sweep.points:
        measured = point.on(benchmark)
        goodput = None if measured is None or measured.speed is None else measured.speed.goodput
        if goodput is not None:
            rate = f"{goodput.per_second:.2f} answers/s, " if goodput.per_second is not None else ""
            yield (
                f"{point.name}: goodput {rate}{goodput.within:,} of {goodput.answers:,} answers within the limits"
            )
        if point.failure is not None:
            yield f"{point.name}: {point.failure}"
        if measured is not None and measured.note is not None:
            yield f"{point.name}: {measured.note}"


def plots(sweep: SweepResult) -> Iterator[SweepPlot]:
    """Yield the plots that the measurements allow."""
    for benchmark in sweep.benchmarks:
        name = f"{benchmark}-" if len(sweep.benchmarks) > 1 else ""
        yield from _speed_plots(sweep, benchmark, name)
        costs = [
            (
                _label(point),
                Place(m.seconds / m.answered, m.accuracy, m.accuracy_low, m.accuracy_high),
            )
            for point in sweep.points
            if (m := point.on(benchmark)) is not None and m.accuracy is not None and m.answered
        ]
        if len(costs) > 1:
            axes = Axes(
                f"{benchmark}: accuracy over cost (95 % intervals)",
                "seconds of the machine per question",
                "accuracy",
                percent_y=True,
            )
            curves = tuple(Curve(label, (place,), joined=False) for label, place in costs)
            yield SweepPlot(f"{name}accuracy-over-cost", curves, axes)


def _speed_plots(sweep: SweepResult, benchmark: str, prefix: str) -> Iterator[SweepPlot]:
    groups: dict[str, list[tuple[PointResult, Measured]]] = {}
    for point in sweep.points:
        if (measured := point.on(benchmark)) is not None:
            groups.setdefault(point.curve or benchmark, []).append((point, measured))
    if IN_FLIGHT in sweep.axes:
        has_tokens = any(m.tokens_per_second for group in groups.values() for _, m in group)
        unit = "tokens/s" if has_tokens else "answers/s"
        curves = tuple(
            Curve(
                name,
                tuple(
                    Place(p.in_flight or 0, rate)
                    for p, m in group
                    if (rate := m.tokens_per_second or m.answers_per_second) is not None
                ),
            )
            for name, group in groups.items()
        )
        if any(len(curve.places) > 1 for curve in curves):
            axes = Axes(f"{benchmark}: throughput", "requests in flight", unit, log_x=True)
            yield SweepPlot(f"{prefix}throughput", curves, axes)
    curves = tuple(
        Curve(
            name,
            tuple(
                Place(user, gpu, label=_label(point))
                for point, m in group
                if (user := m.tokens_per_second_per_user) is not None
                and (gpu := m.tokens_per_second_per_gpu) is not None
            ),
        )
        for name, group in groups.items()
    )
    if sum(len(curve.places) for curve in curves) > 1:
        axes = Axes(
            f"{benchmark}: throughput of a device against the speed that one user sees",
            "tokens/s per user",
            "tokens/s per device",
        )
        yield SweepPlot(f"{prefix}per-gpu-over-per-user", curves, axes)


def _label(point: PointResult) -> str:
    if IN_FLIGHT in point.settings and len(point.settings) == 1:
        return f"{point.settings[IN_FLIGHT]} in flight"
    return point.name


def blocks(sweep: SweepResult, images: Mapping[str, str]) -> list[Block]:
    """Return the page of a sweep.

    Args:
        sweep: The sweep.
        images: Address of the image of each plot, by `SweepPlot.file`; plots without one are left out.
    """
    names = setting_columns(sweep)
    failed = f", {len(sweep.failed)} failed" if sweep.failed else ""
    first = sweep.points[0].name
    shown: list[Block] = [
        Heading(" · ".join(filter(None, (f"Sweep {sweep.sweep_id}", *_models(sweep)))), 1),
        Items(list(_facts(sweep))),
        Line(
            f"{counted(len(sweep.points), 'point')}{failed}. Compared with the first point: {first}."
        ),
    ]
    for benchmark in sweep.benchmarks:
        results, latencies = (
            Table((*names, *columns), list(rows), (*names, "ms"), settings=names)
            for columns, rows in (
                (result_columns(), result_rows(sweep, benchmark)),
                (LATENCY_COLUMNS, latency_rows(sweep, benchmark)),
            )
        )
        shown += [Heading(benchmark), *map(Line, sentences(sweep, benchmark)), results, latencies]
        shown.append(Items(list(notes(sweep, benchmark)), "doubt"))
    shown += [
        page.Plot(plot.axes.title, images[plot.file])
        for plot in plots(sweep)
        if plot.file in images
    ]
    places = [(f"{point.name}: ", Code(point.answers)) for point in sweep.points]
    shown += [
        Line(_EXPLAINED, "note"),
        Details((Heading("Answers of each point", 3), Items(places))),
        *(sweep.time_spent.blocks() if sweep.time_spent else ()),
    ]
    return shown


def _models(sweep: SweepResult) -> list[str]:
    """Return the names of the measured models."""
    every = [m.model for point in sweep.points for m in point.benchmarks if m.model is not None]
    return list(dict.fromkeys(every))


def _facts(sweep: SweepResult) -> Iterator[Text]:
    """Yield what was measured, where, when, and with which command."""
    measured = [m for point in sweep.points for m in point.benchmarks]
    if models := _models(sweep):
        yield f"model: {', '.join(models)}"
    sizes = {
        name: max((m.expected_rows for m in measured if m.benchmark == name), default=0)
        for name in sweep.benchmarks
    }
    yield "answers: " + ", ".join(f"{name} n={n:,}" for name, n in sizes.items() if n)
    if devices := dict.fromkeys(m.device for m in measured if m.device):
        yield f"machine: {', '.join(devices)}"
    engines = dict.fromkeys(m.engine_version for m in measured if m.engine_version)
    yield f"versions: regrade {VERSION}" + "".join(f", engine {name}" for name in engines)
    if days := sorted({m.measured_at[:10] for m in measured if m.measured_at}):
        yield "measured: " + (days[0] if len(days) == 1 else f"{days[0]} to {days[-1]}")
    if sweep.command is not None:
        yield ("command: ", Code(sweep.command))


def _settings(sweep: SweepResult, point: PointResult) -> tuple[str, ...]:
    return tuple(point.settings[name] for name in sweep.axes)


def _number(value: float | None, digits: int) -> str:
    return "-" if value is None else f"{value:,.{digits}f}"

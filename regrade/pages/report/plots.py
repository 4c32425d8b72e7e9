"""Plots of a report, as `data:` addresses of PNG images."""

import base64
import logging
from collections.abc import Callable, Iterator

from regrade.pages.report.gathering import Report, ReportedSet
from regrade.stats.charts import DRAWING_ERRORS, accuracy_chart, change_chart, headline_chart
from regrade.stats.drawing import Bar, Change, bar_of
from regrade.stats.scale import SHARES
from regrade.text.blocks import Plot

logger = logging.getLogger("regrade.report")
MAX_SETS = 12
"""Most answer sets with a plot of their own; the first plot shows up to `MAX_HEADLINES`."""
MAX_HEADLINES = 40


def plots_of(report: Report) -> Iterator[Plot]:
    """Yield the plots: all accuracies, then subsets and changes of each set. One that cannot be drawn is logged."""
    drawn = [
        _plot("accuracies with 95 % intervals", lambda: headline_chart(_bars(report))),
        *(plot for item in report.sets[:MAX_SETS] for plot in _of_set(item)),
    ]
    yield from (plot for plot in drawn if plot is not None)


def _bars(report: Report) -> list[Bar]:
    """Return a bar for each set, and for its baseline before it."""
    bars: dict[str, Bar] = {}
    for item in report.sets[:MAX_HEADLINES]:
        for stored in filter(None, (item.base, item.stored)):
            file = stored.headline
            if file is None or file.summary.overall.accuracy is None or file.scale != SHARES:
                continue
            # Bars of one name would be drawn over each other.
            name = f"{stored.benchmark}\n{stored.model} {stored.id[:6]}"
            bars.setdefault(name, bar_of(name, file.summary))
    return list(bars.values())


def _of_set(item: ReportedSet) -> Iterator[Plot | None]:
    title, scoring, comparison = item.stored.title, item.scoring, item.comparison
    if scoring is not None and item.subsets and item.scale == SHARES:
        yield _plot(f"{title}: subsets", lambda: accuracy_chart(scoring.summary, title))
    if comparison is not None and comparison.subsets:
        changes = [
            Change(subset.name, subset.n, subset.difference, subset.moved)
            for subset in comparison.subsets
        ]
        heading = f"{title} against {comparison.base.model}"
        yield _plot(f"{heading}: changed subsets", lambda: change_chart(changes, heading))


def _plot(text: str, draw: Callable[[], bytes]) -> Plot | None:
    try:
        image = draw()
    except DRAWING_ERRORS as error:
        logger.warning("no plot of %s: %s", text, error)
        return None
    return Plot(text, "data:image/png;base64," + base64.b64encode(image).decode())

"""Show a sweep: its page and plots beside the answers, and on the flow run's page."""

import base64
import logging
from collections.abc import Mapping
from pathlib import Path

from regrade.orchestration.artifacts import SWEEP_KEY, show
from regrade.settings.errors import OperationError
from regrade.settings.files import path_of, write_atomically
from regrade.stats.charts import DRAWING_ERRORS
from regrade.stats.curves import curve_chart
from regrade.text.markdown import markdown
from regrade.tracking.process import TrackingProcessError, call_in_process
from regrade.tuning.sweep.results import SweepResult
from regrade.tuning.sweep.text import blocks, plots

logger = logging.getLogger("regrade.report")
PAGE, DOCUMENT = "sweep.md", "sweep.json"


class NoPointError(OperationError):
    """Every point of a sweep failed."""

    def __init__(self, reasons: tuple[str, ...]) -> None:
        self.reasons = reasons
        super().__init__(reasons)

    def __str__(self) -> str:
        return "\n  ".join(["No point of the sweep has a result:", *self.reasons])


def report_sweep(sweep: SweepResult) -> None:
    """Write the page, its plots and the document into the sweep's folder if it has one, and show the page in Prefect."""
    images = draw_plots(sweep)
    if sweep.folder is not None:
        write_page(sweep, images, path_of(sweep.folder))
    inline = {
        name: f"data:image/png;base64,{base64.b64encode(image).decode()}"
        for name, image in images.items()
    }
    show(SWEEP_KEY, markdown(blocks(sweep, inline)), f"Sweep {sweep.sweep_id}")


def draw_plots(sweep: SweepResult) -> dict[str, bytes]:
    """Return the plots as PNG, by name; a plot that cannot be drawn is logged and left out."""
    images: dict[str, bytes] = {}
    for plot in plots(sweep):
        try:
            images[plot.file] = call_in_process(curve_chart, plot.curves, plot.axes)
        except (TrackingProcessError, *DRAWING_ERRORS) as error:
            logger.warning("no plot '%s': %s", plot.file, error)
    return images


def write_page(sweep: SweepResult, images: Mapping[str, bytes], folder: Path) -> None:
    """Write `sweep.md`, `sweep.json` and the plots into a folder; a folder that cannot be written is logged."""
    files = {
        PAGE: markdown(blocks(sweep, {name: f"{name}.png" for name in images})).encode(),
        DOCUMENT: sweep.model_dump_json(indent=2).encode(),
        **{f"{name}.png": image for name, image in images.items()},
    }
    try:
        for name, content in files.items():
            write_atomically(folder / name, content)
    except OSError as error:
        logger.warning("the page of the sweep is not written into '%s': %s", folder, error)
    else:
        logger.info("the page with tables and plots: %s", folder / PAGE)


def check_complete(sweep: SweepResult) -> None:
    """Raise an error if no point has a result; single points that failed are rows with their reason.

    Raises:
        NoPointError: If there is none.
    """
    if not any(point.benchmarks for point in sweep.points):
        reasons = dict.fromkeys(f"{point.name}: {point.failure}" for point in sweep.points)
        raise NoPointError(tuple(reasons))

"""MLflow's own page draws the curves of a sweep, without any setting: real server, real Chromium.

`REGRADE_SCREENSHOTS` names a folder for the screenshot.
"""

import os
from pathlib import Path

import pytest
from selenium.webdriver.support.ui import WebDriverWait

from regrade.tracking.sweep import PointRun, track_sweep
from tests.browser.pages import SCREENSHOTS, chromium

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]
PLACES = """
return [...document.querySelectorAll('.js-plotly-plot')].flatMap(
    plot => (plot.data || []).map(line => [...line.x].map(Number))
)
"""


def test_the_sweeps_run_has_a_curve_over_the_requests_in_flight(mlflow_server: str, tmp_path: Path):
    points = [
        PointRun(str(n), "", n, {"in_flight": str(n)}, {"tokens_per_second": 100.0 * n}, None)
        for n in (1, 4, 16)
    ]
    tracked = track_sweep(mlflow_server, "0" * 12, "/answers", "sweep of model", points, "# Page")

    with chromium(tmp_path / "profile") as browser:
        assert tracked.url is not None
        browser.get(tracked.url.replace("?", "/model-metrics?", 1))
        WebDriverWait(browser, 120, 0.5).until(
            lambda page: [1, 4, 16] in page.execute_script(PLACES), "no chart has the three points"
        )
        shots = Path(os.environ.get(SCREENSHOTS) or tmp_path)
        browser.save_screenshot(str(shots / "sweep-mlflow.png"))

"""MLflow's own pages show accuracies in the list of runs, a training as a line, and what differs: real server, real Chromium.

`REGRADE_SCREENSHOTS` names a folder for the screenshots.
"""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from selenium import webdriver
from selenium.webdriver.support.ui import WebDriverWait

from regrade.answers.local import LocalRepository
from regrade.scoring.score import score_answers
from regrade.settings import SamplingParams
from regrade.tracking import TrackedRuns, track
from regrade.tracking.connection import connect
from regrade.tracking.run_list import prepared_list
from tests.browser.pages import SCREENSHOTS, chromium
from tests.builders import row
from tests.stored import publish, score, tracked_as
from tests.tracking.test_sweep_charts import PLACES

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[webdriver.Chrome]:
    with chromium(tmp_path_factory.mktemp("profile")) as browser:
        yield browser


def until(browser: webdriver.Chrome, shown: str) -> None:
    """Wait for a text on the page."""
    script = "return document.body.innerText"
    WebDriverWait(browser, 120, 0.5).until(
        lambda page: shown in page.execute_script(script), f"the page does not show '{shown}'"
    )


def tracked(
    uri: str, folder: Path, model: str, right: int, *, temperature: float = 0.0
) -> TrackedRuns:
    rows = [row(n, "" if n < right else "#### 99") for n in range(40)]
    sampling = SamplingParams(temperature=temperature)
    answers = publish(LocalRepository(folder / "answers"), rows, model=model, sampling=sampling)
    score(answers)
    scoring = tracked_as(answers, score_answers(answers, "number").file)
    return track(uri, [scoring])


def shot(browser: webdriver.Chrome, folder: Path, name: str) -> None:
    shots = Path(os.environ.get(SCREENSHOTS) or folder)
    browser.save_screenshot(str(shots / f"{name}.png"))


def test_a_training_draws_itself_as_a_line_over_its_checkpoints(
    mlflow_server: str, browser: webdriver.Chrome, tmp_path: Path
):
    for step, right in ((500, 20), (1000, 30), (1500, 36)):
        runs = tracked(mlflow_server, tmp_path, f"run/checkpoint-{step}", right)
    with connect(mlflow_server) as client:
        query = "tags.`regrade.kind` = 'training'"
        (training,) = client.search_runs([runs.experiment_id], query)

    where = f"{mlflow_server}/#/experiments/{runs.experiment_id}/runs/{training.info.run_id}"
    browser.get(f"{where}/model-metrics?workflowType=machine_learning")

    WebDriverWait(browser, 120, 0.5).until(
        lambda page: [500, 1000, 1500] in page.execute_script(PLACES),
        "no chart has the three checkpoints",
    )
    shot(browser, tmp_path, "training-mlflow")


def test_the_list_of_runs_shows_accuracies_and_compare_the_settings_that_differ(
    mlflow_server: str, browser: webdriver.Chrome, tmp_path: Path
):
    cold = tracked(mlflow_server, tmp_path, "org/cold", 30)
    warm = tracked(mlflow_server, tmp_path, "org/warm", 25, temperature=0.5)

    browser.get(str(prepared_list(mlflow_server)))
    until(browser, "accuracy/sums")
    until(browser, "0.75")
    shot(browser, tmp_path, "list-mlflow")
    runs = f'%5B"{cold.parent_run_id}","{warm.parent_run_id}"%5D&experiments=%5B"{cold.experiment_id}"%5D'
    browser.get(f"{mlflow_server}/#/compare-runs?runs={runs}&workflowType=machine_learning")
    until(browser, "sampling.temperature=0.5")
    until(browser, "sampling.temperature=0.0")
    shot(browser, tmp_path, "compare-mlflow")

"""The story of someone in the Prefect UI: a form, a run that is watched, cancelled and continued, and its result.

Real Prefect server, process worker, vLLM, MLflow and Chromium. `REGRADE_SCREENSHOTS` names a folder for the
screenshots; those of docs/images/ were made by these tests.
"""

from datetime import datetime
from pathlib import Path
from typing import Any

import httpx
import pytest

from regrade.answers.hub import HubRepository
from tests.browser.conftest import Worker
from tests.browser.pages import PATIENCE, Pages
from tests.crash.harness import Account, spooled, stored, wait_until
from tests.hub_server.fixtures import Hub

pytestmark = [pytest.mark.prefect, pytest.mark.timeout(900)]

CANCEL_SECONDS = 15.0
REPEATS = 3
ROWS = 400 * REPEATS


@pytest.mark.usefixtures("deployments")
def test_wrong_values_are_refused_in_the_form(pages: Pages):
    before = len(pages.runs())
    pages.open_form("evaluate-model")

    pages.press("Submit")
    pages.text("'model' is a required property")
    pages.shot("form-missing", 700)

    pages.fill("Model", "Qwen/Qwen3-8B")
    pages.choose("Benchmarks", "gsm8k_chat")
    pages.browser.execute_script("window.scrollTo(0, 0)")
    pages.shot("form", 1250)
    pages.unfold("Sampling", "Set by hand")
    pages.fill("Temperature", 5)
    pages.press("Submit")
    pages.text("'sampling.temperature'. Failure reason: 5 is greater than the maximum of 2")

    pages.fill("Temperature", 1)
    pages.unfold("Engine", "vLLM here")
    pages.fill("Tensor Parallel Size", 0)
    pages.press("Submit")
    pages.text("'engine.tensor_parallel_size'. Failure reason: 0 is less than the minimum of 1")
    pages.shot("form-refused", 1000)

    assert len(pages.runs()) == before


@pytest.mark.slow
@pytest.mark.vllm
@pytest.mark.timeout(1800)
def test_a_run_from_the_form_is_watched_cancelled_and_continued_to_its_result(
    pages: Pages, worker: Worker, hub: Hub, tmp_path: Path
):
    repository = HubRepository(
        hub.repo_id, endpoint=hub.endpoint, token=hub.token, cache=tmp_path / "reading"
    )
    account = Account()

    submit(pages, hub, max_num_seqs=1)
    first = newest(pages)
    watch(pages, first, worker)
    cancel(pages, first, worker)
    account.take(repository, worker.spool)
    assert 0 < len(account.known) < ROWS

    submit(pages, hub, max_num_seqs=16)
    second = newest(pages)
    assert second["id"] != first["id"]
    wait_until(lambda: ended(pages, second), 400, f"the run did not end: {worker.log[-3000:]}")
    assert state(pages, second) == "COMPLETED", worker.log[-3000:]
    account.take(repository, worker.spool)
    assert len(stored(repository)) == len(dict(stored(repository))) == ROWS
    assert not account.lost
    assert not account.again
    assert not account.doubled
    wait_until(lambda: not worker.engine_processes(), 30, "an engine is left behind")
    read_result(pages, second, hub)


def submit(pages: Pages, hub: Hub, *, max_num_seqs: int) -> None:
    """Fill in the form and press the button."""
    before = {one["id"] for one in pages.runs()}
    pages.open_form("evaluate-model")
    pages.fill("Model", "infra/demo/model")
    pages.choose("Benchmarks", "gsm8k_chat")
    pages.fill("Answer repository", f"hf://datasets/{hub.repo_id}")
    pages.unfold("Sampling", "Set by hand")
    pages.fill("Max Tokens", 96)
    pages.fill("Temperature", 1)
    pages.fill("Answers per question", REPEATS)
    pages.unfold("Engine", "vLLM here")
    pages.fill("Max Model Len", 512)
    pages.fill("Max Num Seqs", max_num_seqs)
    pages.click(f"{pages.field('Enforce Eager')}//*[self::label or self::input][last()]")
    pages.unfold("Questions from files", "Add item")
    pages.choose("Benchmark", "gsm8k_chat")
    pages.fill("Path", "infra/demo/data/arithmetic.jsonl")
    pages.press("Submit")
    wait_until(lambda: {one["id"] for one in pages.runs()} - before, PATIENCE, "no run was created")


def watch(pages: Pages, flow_run: dict[str, Any], worker: Worker) -> None:
    """See answers arrive on the page."""
    wait_until(lambda: spooled(worker.spool) or ended(pages, flow_run), 400, "no answer came")
    assert state(pages, flow_run) == "RUNNING", worker.log[-3000:]
    pages.open(f"/runs/flow-run/{flow_run['id']}")
    pages.click('//li[@id="artifacts"]')
    pages.text(f"of {ROWS:,} answers")
    pages.text("infra/demo/model: gsm8k_chat")
    pages.shot("progress", 1000)


def cancel(pages: Pages, flow_run: dict[str, Any], worker: Worker) -> None:
    """Press Cancel and see the run end, with its engine."""
    assert worker.engine_processes()
    pages.press("Cancel")
    pages.press("Confirm")
    wait_until(lambda: ended(pages, flow_run), 90, f"not cancelled: {worker.log[-3000:]}")
    states = httpx.get(
        f"{pages.api}/flow_run_states/", params={"flow_run_id": flow_run["id"]}, timeout=60
    ).json()
    when = {one["name"]: datetime.fromisoformat(one["timestamp"]) for one in states}
    assert state(pages, flow_run) == "CANCELLED", worker.log[-3000:]
    seconds = (when["Cancelled"] - when["Cancelling"]).total_seconds()
    assert seconds < CANCEL_SECONDS
    wait_until(lambda: not worker.engine_processes(), 15, "an engine is left behind")
    pages.text("Cancelled")


def read_result(pages: Pages, flow_run: dict[str, Any], hub: Hub) -> None:
    """Find the result on the run's page, and follow its links."""
    pages.open(f"/runs/flow-run/{flow_run['id']}")
    pages.click('//li[@id="artifacts"]')
    pages.text("model: gsm8k_chat ")
    pages.shot("run", 1000)
    pages.click('//a[normalize-space(.)="result"]')
    pages.text("Grade the same answers again")
    pages.text("gsm8k_chat")
    pages.text(f"regrade score --answers hf://datasets/{hub.repo_id}")
    picture = pages.one("//img")
    assert pages.browser.execute_script("return arguments[0].naturalWidth", picture) > 200
    pages.shot("result", 1000)

    commit = str(pages.one('//a[.="answers"]').get_attribute("href"))
    assert commit.startswith(f"{hub.endpoint}/datasets/{hub.repo_id}/tree/")
    mlflow = str(pages.one('//a[.="MLflow run"]').get_attribute("href"))
    assert "workflowType=machine_learning" in mlflow
    pages.browser.get(mlflow)
    pages.text("accuracy/gsm8k_chat")
    pages.shot("mlflow", 1000)


def newest(pages: Pages) -> dict[str, Any]:
    return max(pages.runs(), key=lambda one: str(one["created"]))


def state(pages: Pages, flow_run: dict[str, Any]) -> str:
    found = httpx.get(f"{pages.api}/flow_runs/{flow_run['id']}", timeout=60)
    return str(found.json()["state_type"])


def ended(pages: Pages, flow_run: dict[str, Any]) -> bool:
    return state(pages, flow_run) in ("COMPLETED", "FAILED", "CRASHED", "CANCELLED")

"""Use the Prefect UI in a browser: fill in a form, watch a run, cancel it, continue it, read its result.

Real Prefect server, process worker, vLLM, MLflow and Chromium. `REGRADE_SCREENSHOTS` names a folder for the
screenshots; those of docs/images/ were made by this test.
"""

from collections.abc import Iterator
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from regrade.answers.hub import HubRepository
from tests.browser.pages import PATIENCE, Pages, opened
from tests.crash.harness import Account, spooled, stored, tell
from tests.hub_server.fixtures import Hub
from tests.infra.running_stack import Stack, living, wait_until

pytestmark = [pytest.mark.stack, pytest.mark.vllm, pytest.mark.prefect, pytest.mark.timeout(1200)]

CANCEL_SECONDS = 15.0
REPEATS = 4
ROWS = 400 * REPEATS


@pytest.fixture
def pages(stack: Stack, tmp_path: Path) -> Iterator[Pages]:
    with opened(stack.api, tmp_path, stack.login) as pages:
        yield pages


def test_a_run_from_the_form_is_watched_cancelled_and_continued_to_its_result(
    pages: Pages, stack: Stack, team: Hub, tmp_path: Path
):
    repository = HubRepository(
        team.repo_id, endpoint=team.endpoint, token=team.token, cache=tmp_path / "reading"
    )
    account = Account()
    assert not spooled(stack.spool)  # of the runs before this one

    submit(pages, team, max_num_seqs=1)
    first = newest(pages)
    watch(pages, first, stack)
    cancel(pages, first, stack)
    account.take(repository, stack.spool)
    assert 0 < len(account.known) < ROWS

    submit(pages, team, max_num_seqs=16)
    second = newest(pages)
    assert second["id"] != first["id"]
    engines = set(stack.engine_processes())

    def over() -> bool:
        engines.update(stack.engine_processes())
        return stack.has_ended(second["id"])

    wait_until(over, 400, lambda: f"no end: {stack.told(second['id'])}")
    stack.completed(second["id"])
    account.take(repository, stack.spool)
    assert len(stored(repository)) == len(dict(stored(repository))) == ROWS
    assert not account.lost
    assert not account.again
    assert not account.doubled
    assert engines
    wait_until(lambda: not living([*engines]), 30, "an engine is left behind")
    read_result(pages, second, team)


def submit(pages: Pages, hub: Hub, *, max_num_seqs: int) -> None:
    """Fill in the form and submit it."""
    before = {run["id"] for run in pages.runs()}
    pages.open_form("evaluate-model")
    pages.fill("Model", "infra/demo/regrade-demo")
    pages.choose("Benchmarks", "gsm8k_chat")
    pages.fill("Answer repository", f"hf://datasets/{hub.repo_id}")
    pages.unfold("Sampling", "Set by hand")
    pages.fill("Max Tokens", 96)
    pages.fill("Temperature", 1)
    pages.fill("Answers per question", REPEATS)
    pages.unfold("Engine", "vLLM here")
    pages.fill("Max Model Len", 512)
    pages.fill("Max Num Seqs", max_num_seqs)
    pages.switch("Enforce Eager")
    pages.unfold("Questions from files", "Add item")
    pages.fill("Benchmark", "gsm8k_chat")
    pages.fill("Path", "infra/demo/data/arithmetic.jsonl")
    pages.press("Submit")
    wait_until(lambda: {run["id"] for run in pages.runs()} - before, PATIENCE, "no run was created")


def watch(pages: Pages, flow_run: dict[str, Any], stack: Stack) -> None:
    """Wait until the page shows answers."""
    run_id = flow_run["id"]
    told = partial(stack.told, run_id)
    wait_until(lambda: spooled(stack.spool) or stack.has_ended(run_id), 400, told)
    assert not stack.has_ended(run_id), told()
    pages.open(f"/runs/flow-run/{run_id}")
    pages.click('//li[@id="artifacts"]')
    pages.text(f"of {ROWS:,} answers")
    pages.text("infra/demo/regrade-demo: gsm8k_chat")
    pages.shot("progress", 1350)


def cancel(pages: Pages, flow_run: dict[str, Any], stack: Stack) -> None:
    """Press Cancel, and wait until the run and its engine have ended."""
    engines = stack.engine_processes()  # after the flow's end they would be nobody's children
    assert len(engines) >= 4  # supervisor, worker, and vLLM's two
    pages.press("Cancel")
    pages.press("Confirm")
    assert stack.finish(flow_run["id"], 90)["state_type"] == "CANCELLED"
    states = stack.ask(f"/flow_run_states/?flow_run_id={flow_run['id']}")
    when = {entry["name"]: datetime.fromisoformat(entry["timestamp"]) for entry in states}
    seconds = (when["Cancelled"] - when["Cancelling"]).total_seconds()
    tell(f"cancelled in {seconds:.1f} s")
    assert seconds < CANCEL_SECONDS
    wait_until(lambda: not living(engines), 15, "an engine is left behind")
    pages.text("Cancelled")


def read_result(pages: Pages, flow_run: dict[str, Any], hub: Hub) -> None:
    """Find the result on the run's page, and follow its links."""
    pages.open(f"/runs/flow-run/{flow_run['id']}")
    pages.click('//li[@id="artifacts"]')
    pages.text("regrade-demo: gsm8k_chat ")
    pages.shot("run", 1000)
    pages.click('//*[not(*) and normalize-space(.)="result"]')
    pages.text("score them again, without a model")
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

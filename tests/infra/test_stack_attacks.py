"""Attacks on the servers of the stack by pages in Chromium: another origin, and DNS rebinding."""

from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import httpx
import pytest

from tests.browser.attacks import FOREIGN, REBINDING, Attacker, hostile_page
from tests.browser.pages import chromium
from tests.infra.running_stack import Stack

pytestmark = [pytest.mark.stack, pytest.mark.prefect, pytest.mark.timeout(600)]

WAYS = ("simple", "form", "json")


@pytest.fixture(scope="module")
def attacker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Attacker]:
    """A page on another port, in a browser for which a foreign name leads to this machine."""
    profile = tmp_path_factory.mktemp("attacks")
    with hostile_page() as page, chromium(profile, REBINDING) as browser:
        browser.get(page)
        yield Attacker(browser)


@pytest.mark.parametrize("name", ["127.0.0.1", "localhost"])
def test_a_page_of_another_origin_neither_reads_nor_changes_prefect(
    stack: Stack, attacker: Attacker, name: str
):
    api = f"http://{name}:{stack.place.prefect_port}/api"
    flows = {way: f"hostile-{way}-{uuid4()}" for way in WAYS}
    for way, flow in flows.items():
        told = attacker.request(way, f"{api}/flows/", {"name": flow})
        assert told["type"] in ("opaque", "error"), told
    assert attacker.request("get", f"{api}/health")["type"] == "error"
    for flow in flows.values():
        found = httpx.get(f"{stack.api}/flows/name/{flow}", auth=stack.auth, timeout=30)
        assert found.status_code == 404, flow
    for path in ("events/in", "events/out", "logs/out"):
        for protocols in ([], ["prefect"]):
            told_by = attacker.socket(f"{api.replace('http', 'ws')}/{path}", protocols)
            assert told_by.startswith("closed"), (path, told_by)


@pytest.mark.parametrize("name", ["127.0.0.1", "localhost"])
def test_a_page_of_another_origin_neither_reads_nor_changes_mlflow(
    stack: Stack, attacker: Attacker, name: str
):
    for start in ("api", "ajax-api"):
        address = f"http://{name}:{stack.place.mlflow_port}/{start}/2.0/mlflow/experiments"
        experiments = {way: f"hostile-{way}-{uuid4()}" for way in WAYS}
        for way, experiment in experiments.items():
            told = attacker.request(way, f"{address}/create", {"name": experiment})
            assert told["type"] in ("opaque", "error"), told
        read = attacker.request("get", f"{address}/get?experiment_id=0")
        assert read["type"] == "error", read
        known = stack.mlflow("experiments/search", max_results=1000)["experiments"]
        assert not {entry["name"] for entry in known} & set(experiments.values())


def test_a_name_that_is_rebound_to_this_machine_is_refused(stack: Stack, tmp_path: Path):
    """The page's own origin is then the server, so that no rule about origins holds."""
    place = stack.place
    with chromium(tmp_path / "profile", REBINDING) as browser:
        attacker = Attacker(browser)
        browser.get(f"http://{FOREIGN}:{place.prefect_port}/api/health")
        assert f"does not answer for the host '{FOREIGN}'" in browser.page_source
        flow = f"rebound-{uuid4()}"
        told = attacker.request("json", "/api/flows/", {"name": flow})
        assert (told["type"], told["status"]) == ("basic", 403), told
        found = httpx.get(f"{stack.api}/flows/name/{flow}", auth=stack.auth, timeout=30)
        assert found.status_code == 404

        browser.get(f"http://{FOREIGN}:{place.mlflow_port}/health")  # answers to everyone
        experiment = f"rebound-{uuid4()}"
        create = "/api/2.0/mlflow/experiments/create"
        told = attacker.request("json", create, {"name": experiment})
        assert (told["type"], told["status"]) == ("basic", 403), told
        read = attacker.request("get", "/api/2.0/mlflow/experiments/get?experiment_id=0")
        assert read["status"] == 403, read


def test_without_the_login_prefect_answers_nothing_but_its_health(stack: Stack):
    assert httpx.get(f"{stack.api}/health", timeout=30).json() is True
    for auth in (None, httpx.BasicAuth("regrade", "a guess")):
        asked = httpx.get(f"{stack.api}/admin/settings", auth=auth, timeout=30)
        assert asked.status_code == 401

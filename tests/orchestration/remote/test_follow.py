"""Log lines of a flow run on a real server."""

import logging
from uuid import UUID

import httpx
import pytest

from regrade.orchestration.remote.client import connected
from regrade.orchestration.remote.follow import Follower
from tests.prefect_login import Login

pytestmark = pytest.mark.prefect


def test_lines_of_one_moment_fill_several_pages_and_are_shown_once(
    flows_on_server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    logged: list[str] = []
    monkeypatch.setattr(
        logging.getLogger("regrade.trigger"),
        "log",
        lambda _, text, *words: logged.append(text % words),
    )
    with httpx.Client(base_url=flows_on_server, auth=Login()) as api:
        flow = api.post("/flows/", json={"name": "talkative"}).json()
        flow_run = api.post("/flow_runs/", json={"flow_id": flow["id"]}).json()
        line = {"name": "regrade", "level": logging.INFO, "flow_run_id": flow_run["id"]}
        line["timestamp"] = "2026-09-01T12:00:00Z"
        lines = [line | {"message": f"line {number}."} for number in range(450)]
        api.post("/logs/", json=lines).raise_for_status()

    with connected(10) as server:
        follower = Follower(server, UUID(flow_run["id"]), None)
        follower.step()
        follower.step()

    shown = [line.split()[-1] for line in logged if " line " in line]
    assert sorted(shown, key=lambda word: int(word[:-1])) == [f"{n}." for n in range(450)]

"""Log lines of a flow run on a real server."""

import logging
from uuid import UUID

import httpx
import pytest
from prefect.settings import PREFECT_API_URL, temporary_settings

from regrade.orchestration.remote.client import connected
from regrade.orchestration.remote.follow import Follower
from tests.prefect_login import Login

pytestmark = pytest.mark.prefect


def test_lines_of_one_moment_fill_several_pages_and_are_shown_once(
    prefect_server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    logged: list[str] = []
    monkeypatch.setattr(
        logging.getLogger("regrade.trigger"),
        "log",
        lambda _, text, *words: logged.append(text % words),
    )
    flow = httpx.post(f"{prefect_server}/flows/", json={"name": "talkative"}, auth=Login()).json()
    flow_run = httpx.post(
        f"{prefect_server}/flow_runs/", json={"flow_id": flow["id"]}, auth=Login()
    ).json()
    moment = "2026-09-01T12:00:00Z"
    lines = [
        {
            "name": "regrade",
            "level": logging.INFO,
            "message": f"line {number}.",
            "timestamp": moment,
            "flow_run_id": flow_run["id"],
        }
        for number in range(450)
    ]
    httpx.post(f"{prefect_server}/logs/", json=lines, auth=Login()).raise_for_status()

    with temporary_settings({PREFECT_API_URL: prefect_server}), connected(10) as server:
        follower = Follower(server, UUID(flow_run["id"]), None)
        follower.step()
        follower.step()

    shown = [line.split()[-1] for line in logged if " line " in line]
    assert sorted(shown, key=lambda word: int(word[:-1])) == [f"{n}." for n in range(450)]

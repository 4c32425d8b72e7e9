"""The page that asks for Prefect's login: who gets it, and what it may do. tests/browser/test_walk.py uses it."""

from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from starlette.testclient import TestClient

from regrade.orchestration.login_page import LoginFirst, asks_first
from tests.timing import taking_less_than

PAGE = {"accept": "text/html,application/xhtml+xml"}


@pytest.fixture
def server() -> TestClient:
    async def other(_: Request) -> PlainTextResponse:
        return PlainTextResponse("Prefect")

    methods = ["GET", "POST"]
    app: Any = LoginFirst(Starlette(routes=[Route("/{path:path}", other, methods=methods)]))
    return TestClient(app, "http://127.0.0.1:4200")


@pytest.mark.parametrize("path", ["/", "/dashboard", "/runs/flow-run/1"])
def test_a_browser_without_a_login_gets_the_login_page_at_any_address(
    server: TestClient, path: str
):
    page = server.get(path, headers=PAGE)

    assert page.status_code == 200
    assert "Log in to Prefect" in page.text
    assert page.headers["cache-control"] == "no-store"


def test_a_browser_that_logged_in_at_this_port_gets_the_pages(server: TestClient):
    def cookie(name: str) -> str:
        return server.get("/", headers=PAGE | {"cookie": f"{name}=1"}).text

    assert cookie("regrade-login-4200") == "Prefect"
    assert "Log in to Prefect" in cookie("regrade-login-4201")


@pytest.mark.parametrize("cookie", ['a="' + "\\" * 64_000 + '"', '"; ' * 20_000, "= " * 30_000])
def test_cookies_of_others_are_read_in_linear_time(server: TestClient, cookie: str):
    given = {"cookie": f"{cookie}; regrade-login-4200=1"}
    assert taking_less_than(1, lambda: server.get("/", headers=PAGE | given)).text == "Prefect"


def test_programs_scripts_and_the_api_get_what_they_ask_for(server: TestClient):
    assert server.get("/").text == "Prefect"
    assert server.post("/", headers=PAGE).text == "Prefect"
    for path in ("/api/health", "/api/docs", "/assets/index.js", "/ui-settings"):
        assert server.get(path, headers=PAGE).text == "Prefect"


def test_the_login_page_may_only_run_its_own_script_and_ask_its_server(server: TestClient):
    policy = server.get("/", headers=PAGE).headers["content-security-policy"]

    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "form-action 'none'" in policy
    assert "connect-src 'self'" in policy
    assert policy.count("sha256-") == 2
    assert "unsafe" not in policy


def test_only_a_server_with_a_login_at_the_root_asks_for_it():
    login = {"PREFECT_SERVER_API_AUTH_STRING": "name:password"}

    assert asks_first(login)
    assert not asks_first({})
    assert not asks_first(login | {"PREFECT_UI_SERVE_BASE": "/prefect"})

"""The guard of web servers, around a small application."""

import pytest
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route, WebSocketRoute
from starlette.testclient import TestClient
from starlette.websockets import WebSocket, WebSocketDisconnect

from regrade.processes.web_guard import CONTAINED, OwnPagesOnly, WithHeaders, split_origins
from regrade.settings.errors import SettingsError
from tests.timing import taking_less_than

OWN = "http://127.0.0.1:4200"


async def _accept(websocket: WebSocket) -> None:
    await websocket.accept()
    await websocket.close()


def client(
    host: str = "127.0.0.1:4200", hosts: tuple[str, ...] | None = ("127.0.0.1",)
) -> TestClient:
    routes = [
        Route("/", lambda _: PlainTextResponse("inside"), methods=["GET", "POST"]),
        Route("/cookies", lambda request: PlainTextResponse(str(len(request.cookies)))),
        WebSocketRoute("/socket", _accept),
    ]
    guarded = OwnPagesOnly(Starlette(routes=routes), origins=[OWN], hosts=hosts)  # type: ignore[arg-type]
    return TestClient(guarded, base_url=f"http://{host}")  # type: ignore[arg-type]


@pytest.mark.parametrize("origin", [None, OWN])
def test_programs_and_the_servers_own_pages_get_through(origin: str | None):
    headers = {} if origin is None else {"Origin": origin}
    assert client().post("/", headers=headers).text == "inside"


@pytest.mark.parametrize(
    "origin", ["http://127.0.0.1:8000", "https://127.0.0.1:4200", "http://evil.example", "null", ""]
)
def test_a_page_of_another_origin_is_refused_with_its_name(origin: str):
    for method in ("GET", "POST", "OPTIONS"):
        told = client().request(method, "/", headers={"Origin": origin})
        assert told.status_code == 403
        assert f"A page of {origin} may not use this server" in told.text
        assert "access-control-allow-origin" not in told.headers
    with (
        pytest.raises(WebSocketDisconnect),
        client().websocket_connect("/socket", headers={"Origin": origin}),
    ):
        pass


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_another_page_may_link_to_it_but_not_load_it_as_a_picture_or_script(site: str):
    for mode, status in (("no-cors", 403), ("navigate", 200)):
        headers = {"Sec-Fetch-Site": site, "Sec-Fetch-Mode": mode}
        assert client().get("/?search=secret", headers=headers).status_code == status
    headers = {"Sec-Fetch-Site": "same-origin", "Sec-Fetch-Mode": "no-cors"}
    assert client().get("/", headers=headers).status_code == 200
    headers = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "cors", "Origin": OWN}
    assert client().get("/", headers=headers).status_code == 200


@pytest.mark.parametrize("host", ["evil.example:4200", "127.0.0.1.evil.example", "localhost:4200"])
def test_a_foreign_host_is_refused_with_its_name(host: str):
    told = client(host).get("/", headers={"Origin": OWN})
    assert told.status_code == 403
    assert f"does not answer for the host '{host.removesuffix(':4200')}'" in told.text


@pytest.mark.parametrize("cookie", ['a="' + "\\" * 64_000 + '"', "a" * 70_000])
def test_cookies_that_take_seconds_to_read_are_refused_unread(cookie: str):
    told = taking_less_than(1, lambda: client().get("/cookies", headers={"Cookie": cookie}))
    assert told.status_code == 403
    assert "are not read. Delete the browser's cookies" in told.text
    usual = "; ".join(f'a{n}="\\"{n}\\""' for n in range(100))
    assert client().get("/cookies", headers={"Cookie": usual}).text == "100"


def test_hosts_are_not_checked_if_the_server_checks_them_itself():
    assert client("elsewhere.example", hosts=None).get("/").text == "inside"


def test_a_websocket_of_the_servers_own_page_is_accepted():
    with client().websocket_connect(
        "ws://127.0.0.1:4200/socket", headers={"Origin": OWN}
    ) as socket:
        assert socket is not None


@pytest.mark.parametrize("value", [None, "", " , ", "*", "http://*.example"])
def test_a_list_that_allows_every_page_or_none_is_refused(value: str | None):
    with pytest.raises(SettingsError, match="CORS is '.*', which is no list of origins"):
        split_origins("CORS", value)


def test_origins_are_separated_by_commas():
    assert split_origins("CORS", f"{OWN}/, https://prefect.team.example") == [
        OWN,
        "https://prefect.team.example",
    ]


def test_no_page_elsewhere_frames_it_and_its_pages_load_no_pictures_from_elsewhere():
    page = TestClient(WithHeaders(PlainTextResponse("inside"), CONTAINED)).get("/")  # type: ignore[arg-type]
    assert page.headers["content-security-policy"] == (
        "frame-ancestors 'self'; img-src 'self' data: blob:"
    )

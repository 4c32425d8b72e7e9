"""Our own requests, and the meaning of statuses."""

import gzip
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest

from regrade.hub.http_client import Failure, NoResponseError, failure_of, retry_after, send
from tests.http_server import Handler, serving

CLOSED = "http://127.0.0.1:9/"


class _Server(Handler):
    def do_GET(self) -> None:
        if self.path == "/moved":
            self.reply(b"", 302, {"Location": "/long"})
        elif self.path.startswith("/to?"):
            self.reply(b"", 302, {"Location": self.path.removeprefix("/to?")})
        elif self.path == "/long":
            self.reply(b"x" * 1000)
        elif self.path == "/packed":
            packed = gzip.compress(b" " * (1 << 24), mtime=0)
            self.reply(packed, 200, {"Content-Encoding": "gzip"})
        elif self.path == "/slow":
            time.sleep(0.5)
            self.reply(b"late")
        elif self.path == "/gone":
            self.close_connection = True
        elif self.path == "/half":
            self.send_response(200)
            self.send_header("Content-Length", "100")
            self.end_headers()
            self.wfile.write(b"half")
        else:
            self.reply({"detail": "no"}, 503, {"Retry-After": "7"})

    def do_POST(self) -> None:
        length = int(self.headers["Content-Length"])
        self.reply(self.headers["X-Test"].encode() + self.rfile.read(length))


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with serving(_Server) as address:
        yield address


@pytest.mark.parametrize(
    ("failure", "statuses"),
    [
        (Failure.REFUSED, (400, 413, 422)),
        (Failure.UNAUTHORIZED, (401,)),
        (Failure.FORBIDDEN, (403,)),
        (Failure.NOT_FOUND, (404,)),
        (Failure.TRANSIENT, (408, 429, 500, 503, 529)),
    ],
)
def test_a_status_tells_whether_the_same_request_may_succeed(
    failure: Failure, statuses: tuple[int, ...]
):
    assert {failure_of(status) for status in statuses} == {failure}


def test_a_response_has_status_headers_and_content(url: str):
    response = send(f"{url}/busy", seconds=5)

    assert (response.status, response.content) == (503, b'{"detail": "no"}')
    assert retry_after(response.headers) == 7


def test_a_redirect_is_followed_on_the_same_host_and_port_only(url: str):
    asked: list[str] = []

    class Other(Handler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.reply(b"secret")

    assert send(f"{url}/moved", seconds=5).content == b"x" * 1000
    with (
        serving(Other) as other,
        pytest.raises(NoResponseError, match=f"redirects to {other}, which is not followed"),
    ):
        send(f"{url}/to?{other}", seconds=5)
    assert asked == []


def test_a_response_is_not_unpacked(url: str):
    assert send(f"{url}/packed", seconds=5).content == gzip.compress(b" " * (1 << 24), mtime=0)


def test_a_response_is_cut_at_its_limit(url: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("regrade.hub.http_client.MOST_BYTES", 10)
    assert send(f"{url}/long", seconds=5).content == b"x" * 10


def test_a_body_makes_it_a_post(url: str):
    assert send(url, seconds=5, headers={"X-Test": "a"}, body=b"bc").content == b"abc"


def test_a_server_that_does_not_answer_in_time_is_no_response(url: str):
    with pytest.raises(NoResponseError, match=r"nothing came for 0\.1 s"):
        send(f"{url}/slow", seconds=0.1)


@pytest.mark.parametrize("path", ["half", "gone"])
def test_half_a_response_and_none_are_no_response(url: str, path: str):
    with pytest.raises(NoResponseError, match="."):
        send(f"{url}/{path}", seconds=5)


def test_a_header_that_cannot_be_sent_is_not_shown(url: str):
    with pytest.raises(NoResponseError, match="a header has a character") as caught:
        send(url, seconds=5, headers={"Authorization": "Bearer secret\n"})

    assert "secret" not in str(caught.value)
    assert caught.value.__suppress_context__


@pytest.mark.parametrize("address", [CLOSED, "http://a..b/", "http://", "nonsense", "http://[::"])
def test_an_address_without_a_server_is_no_response(address: str):
    with pytest.raises(NoResponseError, match="."):
        send(address, seconds=5)


@pytest.mark.parametrize(
    ("value", "seconds"), [("7", 7.0), (" 7 ", 7.0), ("1.5", 1.5), ("-3", 0.0), ("0", 0.0)]
)
def test_retry_after_may_be_seconds(value: str, seconds: float) -> None:
    assert retry_after({"Retry-After": value}) == seconds


def test_a_date_of_retry_after_is_by_the_clock_of_its_server() -> None:
    sent = datetime(2001, 1, 1, tzinfo=UTC)
    dates = {"Date": sent, "Retry-After": sent + timedelta(seconds=90)}
    assert retry_after({n: format_datetime(d, usegmt=True) for n, d in dates.items()}) == 90


def test_retry_after_may_be_a_date() -> None:
    now = datetime.now(UTC)

    later = {"Retry-After": format_datetime(now + timedelta(seconds=90), usegmt=True)}
    earlier = {"Retry-After": format_datetime(now - timedelta(days=1), usegmt=True)}

    assert retry_after(later) == pytest.approx(90, abs=5)
    assert retry_after(earlier) == 0.0


@pytest.mark.parametrize("value", ["", "soon", "nan", "inf", "Wed, 21 Oct 2015 07:28:00 -0000"])
def test_anything_else_is_no_time_to_wait(value: str) -> None:
    assert retry_after({"Retry-After": value}) is None
    assert retry_after({}) is None

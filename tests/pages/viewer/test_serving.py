"""Protection of the viewer: its own pages only, headers, a token beyond loopback, no writing."""

import base64
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import httpx2
import pytest
from starlette.testclient import TestClient

from regrade.answers.local import LocalRepository
from regrade.pages.viewer.serving import application, bound_socket, place_for
from regrade.settings.errors import SettingsError
from tests.builders import row
from tests.command_line import ROOT
from tests.server_process import free_port, wait_until_healthy
from tests.stored import numbers, publish, score

TOKEN = "0123456789abcdef01234567"


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> LocalRepository:
    repository = LocalRepository(tmp_path_factory.mktemp("stored") / "answers")
    score(publish(repository, [*numbers(0, 3), row(3, "#### 9")]))
    return repository


def client(repository: LocalRepository, host: str = "127.0.0.1", port: int = 4300) -> TestClient:
    return TestClient(application(repository, place_for(host, port)), f"http://127.0.0.1:{port}")


def test_every_page_forbids_scripts_frames_and_other_hosts(stored: LocalRepository):
    for path in ("/", "/nothing", "/static/style.css", "/?page=x"):
        headers = client(stored).get(path).headers
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "script-src 'self'" in policy
        assert "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer"
        assert headers["cache-control"] == "no-store"


def test_a_page_has_no_inline_script_or_style_and_names_no_other_host(stored: LocalRepository):
    html = client(stored).get("/").text
    assert not re.search(r"<style|style=|<script(?! src=\"/static/)|\son\w+=", html)
    assert not re.search(r"(?:src|href|action)=\"(?![/#])", html)


@pytest.mark.parametrize("host", ["evil.example", "evil.example:4300", "127.0.0.1.evil.example"])
def test_a_foreign_host_is_refused(stored: LocalRepository, host: str):
    refused = client(stored).get("/", headers={"Host": host})
    assert refused.status_code == 403
    assert "answer" not in refused.text.split("host")[1]


def test_a_page_of_another_origin_is_refused(stored: LocalRepository):
    for origin in ("https://evil.example", "http://127.0.0.1:9999", "null"):
        assert client(stored).get("/", headers={"Origin": origin}).status_code == 403
    assert client(stored).get("/", headers={"Origin": "http://localhost:4300"}).status_code == 200


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
def test_nothing_can_be_written(stored: LocalRepository, method: str):
    for path in ("/", "/compare", "/static/keys.js"):
        assert client(stored).request(method, path).status_code == 405


def test_reading_changes_nothing_in_the_repository(stored: LocalRepository):
    def files() -> dict[str, int]:
        return {str(path): path.stat().st_mtime_ns for path in stored.folder.rglob("*")}

    before = files()
    page = client(stored).get("/").text
    for link in re.findall(r'href="(/sets/\w+)"', page):
        assert client(stored).get(link).status_code == 200
    assert files() == before


def test_beyond_loopback_a_token_is_needed(
    stored: LocalRepository, monkeypatch: pytest.MonkeyPatch
):
    with pytest.raises(SettingsError, match="Set REGRADE_VIEW_TOKEN"):
        place_for("0.0.0.0", 4300)
    monkeypatch.setenv("REGRADE_VIEW_TOKEN", "short")
    with pytest.raises(SettingsError, match="has 5 characters, expected 16 or more"):
        place_for("0.0.0.0", 4300)
    monkeypatch.setenv("REGRADE_VIEW_TOKEN", TOKEN)
    reading = client(stored, "0.0.0.0")
    refused = reading.get("/")
    assert refused.status_code == 401
    assert refused.headers["www-authenticate"].startswith("Basic")
    assert "org/tiny" not in refused.text
    basic = base64.b64encode(f"anybody:{TOKEN}".encode()).decode()
    for allowed in (f"Bearer {TOKEN}", f"Basic {basic}"):
        assert reading.get("/", headers={"Authorization": allowed}).status_code == 200
    wrong = base64.b64encode(b"anybody:wrong").decode()
    for given in (
        "Bearer wrong",
        f"Basic {wrong}",
        "Basic ???",
        f"Digest {TOKEN}",
        TOKEN,
        "Bearer ",
    ):
        assert reading.get("/", headers={"Authorization": given}).status_code == 401
    assert reading.get("/static/style.css").status_code == 401


def test_the_name_of_the_prefix_and_further_names_are_its_own(
    stored: LocalRepository, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("REGRADE_VIEW_URL", "https://eval.example.org/view")
    monkeypatch.setenv("REGRADE_VIEW_HOSTS", "view, other.example")
    reading = client(stored)
    for host in ("eval.example.org", "view:4300", "other.example"):
        assert reading.get("/", headers={"Host": host}).status_code == 200
    own = {"Origin": "https://eval.example.org"}
    assert reading.get("/", headers=own).status_code == 200
    assert 'href="/view/static/style.css"' in reading.get("/").text


def test_a_taken_port_is_named():
    with (
        bound_socket("127.0.0.1", 0) as taken,
        pytest.raises(SettingsError, match="Choose another port with `--port`"),
    ):
        taken.listen()
        bound_socket("127.0.0.1", taken.getsockname()[1])


@pytest.mark.parametrize(
    "form",
    [
        "both",
        *(pytest.param(form, marks=pytest.mark.slow) for form in ("option", "id", "comparison")),
    ],
)
def test_the_command_serves_until_it_is_stopped(stored: LocalRepository, tmp_path: Path, form: str):
    port, log = free_port(), tmp_path / "view.log"
    set_id = next((stored.folder / "answers").glob("*/*/*")).name
    given = {
        "both": [stored.uri, set_id[:6]],
        "option": ["--answers", stored.uri, "--answer-set", set_id],
        "id": [set_id[:8]],
        "comparison": [set_id, "--against", set_id[:6], "--at", str(stored.head())[:8]],
    }[form]
    path = f"/sets/{set_id}"
    if form == "comparison":
        path = f"/compare/{set_id}/{set_id}?at={stored.head()}"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "regrade.cli.main", "view", *given, "--port", str(port)],
            cwd=ROOT,
            env={**os.environ, "REGRADE_ANSWERS": stored.uri},
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    try:
        wait_until_healthy(
            f"http://127.0.0.1:{port}/health", lambda: process.poll() is not None, log
        )
        address = log.read_text().splitlines()[0]
        assert address == f"http://127.0.0.1:{port}{path}"
        page = httpx2.get(address, timeout=60)
        assert page.status_code == 200
        assert "server" not in page.headers
        assert httpx2.get(address, headers={"Host": "evil.example"}).status_code == 403
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 0
    finally:
        process.kill()
        process.wait()
    assert "Traceback" not in log.read_text()


def test_a_repository_without_answers_is_served_when_asked(tmp_path: Path):
    from regrade.answers.opening import open_repository
    from regrade.settings.errors import RepositoryError

    with pytest.raises(RepositoryError):
        open_repository(str(tmp_path / "later"), create=False)
    repository = open_repository(str(tmp_path / "later"), create=False, empty=True)
    reading = TestClient(
        application(repository, place_for("127.0.0.1", 4300)), "http://127.0.0.1:4300"
    )
    assert "regrade generate" in reading.get("/").text
    assert reading.get("/health").text == "ok"
    assert not (tmp_path / "later").exists()
    assert os.environ.get("REGRADE_VIEW_TOKEN") is None

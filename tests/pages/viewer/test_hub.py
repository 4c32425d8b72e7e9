"""The viewer of a private repository on the Hub: the token stays in the server."""

from pathlib import Path

from starlette.testclient import TestClient

from regrade.answers.hub import HubRepository
from regrade.pages.viewer.app import Viewer
from tests.builders import row
from tests.hub_server.fixtures import Hub
from tests.stored import again, numbers, publish, score


def test_private_answers_are_read_with_a_token_that_no_page_shows(hub: Hub, tmp_path: Path):
    repository = HubRepository(
        hub.repo_id, endpoint=hub.endpoint, token=hub.token, cache=tmp_path / "cache"
    )
    answers = publish(repository, [*numbers(0, 3), row(3, "#### 9")])
    score(answers)
    set_id = again(answers).manifest.answer_set_id
    reading = HubRepository(
        hub.repo_id, endpoint=hub.endpoint, token=hub.read_token, cache=tmp_path / "reader"
    )
    pages = TestClient(Viewer(reading).application())
    for address in ("/", f"/sets/{set_id}", f"/sets/{set_id}/answer?sample=sample-00003&number=0"):
        page = pages.get(address)
        assert page.status_code == 200
        for secret in (hub.token, hub.read_token):
            assert secret not in page.text
            assert secret not in str(page.headers)
    asked = hub.requests("GET", "")
    assert pages.get(f"/sets/{set_id}?verdict=wrong").status_code == 200
    assert hub.requests("GET", "") == asked  # everything that the page needs was read


def test_without_a_token_a_private_repository_is_not_found(hub: Hub, tmp_path: Path):
    repository = HubRepository(
        hub.repo_id, endpoint=hub.endpoint, token=hub.token, cache=tmp_path / "cache"
    )
    publish(repository, numbers(0, 3))
    reading = HubRepository(hub.repo_id, endpoint=hub.endpoint, cache=tmp_path / "reader")
    page = TestClient(Viewer(reading).application()).get("/")
    assert page.status_code == 404
    assert "org/tiny" not in page.text

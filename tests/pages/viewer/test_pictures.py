"""Images in the viewer: where their marks stand, from the repository alone, and only what is verified."""

import html
import re
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from regrade.answers.local import LocalRepository
from regrade.pages.viewer.serving import application, place_for
from tests.answers.test_images import HOSTILE, replaced
from tests.builders import row
from tests.pages.viewer.reading import Reader
from tests.pictures import image, publish_showing, showing
from tests.stored import again, commit_manifest, publish, score

RED, BLUE = image(11), image(12, "JPEG")


def addresses(page: str) -> list[str]:
    return [html.unescape(found) for found in re.findall(r'<img src="([^"]*)"', page)]


def shown(repository: LocalRepository, spool: Path) -> str:
    rows = [showing(1, RED, BLUE, text=f"I see {RED.mark}.\n#### 1"), row(2)]
    answers = publish_showing(repository, spool, rows, [RED, BLUE])
    score(answers)
    return f"/sets/{answers.manifest.answer_set_id}"


@pytest.fixture(scope="module")
def pictured(tmp_path_factory: pytest.TempPathFactory) -> tuple[Reader, str]:
    """The viewer of a set with two images, and its address, for tests that only read it."""
    folder = tmp_path_factory.mktemp("pictured")
    reader = Reader(folder / "answers")
    return reader, shown(reader.repository, folder / "spool")


def test_a_prompt_shows_its_images_where_their_marks_stand(pictured: tuple[Reader, str]) -> None:
    reader, path = pictured

    for form in ("", "&format=markdown"):
        page = reader.page(f"{path}/answer?sample=sample-00001&number=0{form}")
        found = addresses(page.html)
        assert len(found) == 4  # in the question and in the prompt
        assert re.search(
            f'Before (</p>)?<img src="{re.escape(path)}/image/{RED.sha256}\\?at=[0-9a-f]{{40}}" '
            f'alt="image {RED.sha256[:8]}" loading="lazy">(<p>)? ?and',
            page.html,
        )
        assert f"&lt;image:{RED.sha256}&gt;" in page.html  # in the answer, a model's own text
    assert addresses(reader.page(f"{path}/answer?sample=sample-00002&number=0").html) == []


def client(repository: LocalRepository) -> TestClient:
    app = application(repository, place_for("127.0.0.1", 4300))
    return TestClient(app, "http://127.0.0.1:4300")


def test_an_image_is_sent_as_its_content_says_and_nothing_in_it_can_run(
    pictured: tuple[Reader, str],
) -> None:
    reader, path = pictured
    asking = client(reader.repository)

    for picture in (RED, BLUE):
        sent = asking.get(f"{path}/image/{picture.sha256}?at={reader.repository.head()}")
        assert (sent.status_code, sent.content) == (200, picture.content)
        assert sent.headers["content-type"] == picture.media_type
        assert sent.headers["x-content-type-options"] == "nosniff"
        assert "default-src 'none'" in sent.headers["content-security-policy"]
        assert sent.headers["cache-control"] == "no-store"
    foreign = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "no-cors"}
    assert asking.get(f"{path}/image/{RED.sha256}", headers=foreign).status_code == 403


def test_an_image_needs_the_token_like_every_page(
    pictured: tuple[Reader, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    reader, path = pictured
    monkeypatch.setenv("REGRADE_VIEW_TOKEN", "0123456789abcdef01234567")
    asking = client(reader.repository)

    address = f"{path}/image/{RED.sha256}"
    assert asking.get(address).status_code == 401
    bearer = {"authorization": "Bearer 0123456789abcdef01234567"}
    assert asking.get(address, headers=bearer).content == RED.content


@pytest.mark.parametrize("name", ["0" * 64, "x", "..%2f..%2fREADME.md", RED.sha256.upper()])
def test_what_is_no_stored_image_is_not_found(pictured: tuple[Reader, str], name: str) -> None:
    reader, path = pictured

    assert reader.get(f"{path}/image/{name}").status == 404


@pytest.mark.parametrize("kind", HOSTILE)
def test_a_file_that_is_not_the_image_of_its_hash_is_never_sent(
    tmp_path: Path, reader: Reader, kind: str
) -> None:
    content, reason = HOSTILE[kind]
    repository = reader.repository
    answers = publish_showing(repository, tmp_path / "spool", [showing(1, RED)], [RED])
    replaced(answers, content, RED.sha256)

    path = f"/sets/{answers.manifest.answer_set_id}"
    sent = reader.get(f"{path}/image/{RED.sha256}")

    assert sent.status == 500
    assert reason in sent.text
    page = reader.page(f"{path}/answer?sample=sample-00001&number=0")
    assert page.html.count("<img") == 2  # it has an address, whose answer is no image


def test_in_place_of_an_image_that_was_not_copied_its_source_is_named(reader: Reader) -> None:
    answers = publish(reader.repository, [showing(7, RED)])
    address = f"/sets/{answers.manifest.answer_set_id}/answer?sample=sample-00007&number=0"
    words = "[image of local@bbbbbbbbbbbb, row 7, not copied]"

    for kept in (None, "source"):
        commit_manifest(again(answers), images=kept)
        page = reader.page(address)
        assert words in page.text
        assert "<img" not in page.html
    commit_manifest(again(answers), images="stored")
    assert f"[image {RED.sha256[:8]} is missing]" in reader.page(address).text


def test_texts_can_be_read_if_the_list_of_images_is_damaged(tmp_path: Path, reader: Reader) -> None:
    path = shown(reader.repository, tmp_path / "spool")
    head = reader.repository.head()
    reader.repository.commit({"images/sums/index.json": b"<"}, "damage", parent=head)

    page = reader.page(f"{path}/answer?sample=sample-00001&number=0")

    assert "not a list of images" in page.text
    assert "<img" not in page.html
    assert reader.get(f"{path}/image/{RED.sha256}").status == 500


def test_a_question_of_a_comparison_shows_its_images(tmp_path: Path, reader: Reader) -> None:
    ids = []
    for model in ("org/a", "org/b"):
        rows = [showing(1, RED, text="#### 1" if model == "org/a" else "#### 2")]
        answers = publish_showing(reader.repository, tmp_path / model, rows, [RED], model=model)
        score(answers)
        ids.append(answers.manifest.answer_set_id)

    listed = reader.page(f"/compare/{ids[0]}/{ids[1]}")
    assert f"Before [image {RED.sha256[:8]}] after." in listed.text
    page = reader.page(f"/compare/{ids[0]}/{ids[1]}/question?sample=sample-00001")

    [address] = addresses(page.html)
    assert address.startswith(f"/sets/{ids[0]}/image/{RED.sha256}?at=")


def test_a_list_names_an_image_in_few_letters(pictured: tuple[Reader, str]) -> None:
    reader, path = pictured

    named = f"Before [image {RED.sha256[:8]}] and [image {BLUE.sha256[:8]}] after."
    assert named in reader.page(path).text

"""The table of the card: rows are kept while their files are the same, and read again when they are not."""

from pathlib import Path

import pytest

from regrade.answers.hub import HubRepository
from regrade.answers.local import LocalRepository
from tests.builders import row
from tests.hub_server.fixtures import Hub
from tests.hub_server.store import Entry
from tests.stored import again, commit_manifest, numbers, publish, score


@pytest.fixture
def repository(hub: Hub, tmp_path: Path) -> HubRepository:
    return HubRepository(
        hub.repo_id, endpoint=hub.endpoint, token=hub.token, cache=tmp_path / "cache"
    )


def card(repository: HubRepository | LocalRepository) -> str:
    head = repository.head()
    assert head is not None
    return repository.fetch("README.md", head).read_text()


def rows(text: str) -> dict[str, str]:
    """Lines of the table by model."""
    lines = [line for line in text.splitlines() if line.startswith("| sums |")]
    return {line.split(" | ")[1]: line for line in lines}


def test_files_of_other_answer_sets_are_not_read(hub: Hub, repository: HubRepository) -> None:
    other = publish(repository, numbers(0, 2), model="other")
    score(other)
    before = rows(card(repository))
    hub.server.forget()

    publish(repository, numbers(0, 3), model="mine")

    after = rows(card(repository))
    assert after["other"] == before["other"]
    assert "number v" in after["other"]
    assert set(after) == {"other", "mine"}
    assert hub.requests("HEAD", f"/resolve/.*{other.manifest.answer_set_id}") == 0


def test_a_row_is_made_anew_when_its_manifest_changed(repository: HubRepository) -> None:
    other = publish(repository, numbers(0, 2), total=3, model="other")
    assert "| 2 | incomplete |" in rows(card(repository))["other"]
    commit_manifest(other, n_samples=2, state="complete")  # by something that writes no card

    publish(repository, numbers(0, 3), model="mine")

    assert "| 2 | complete |" in rows(card(repository))["other"]


def test_a_row_is_made_anew_when_a_score_was_added(repository: HubRepository) -> None:
    answers = publish(repository, numbers(0, 2), model="other")
    file = score(answers)
    path = f"{answers.scores_folder}/{file.label}.json"
    worse = file.model_dump_json().replace('"accuracy":1.0', '"accuracy":0.25').encode()
    repository.commit({path: worse}, "from a stranger", parent=repository.head())

    publish(repository, numbers(0, 3), model="mine")

    assert "25.00 %" in rows(card(repository))["other"]


def test_a_row_without_files_is_dropped(repository: HubRepository) -> None:
    publish(repository, numbers(0, 2), model="other")
    line = rows(card(repository))["other"]
    other_files = line.replace("<!-- files ", "<!-- files 0")
    forged = card(repository).replace(line, f"{line}\n{other_files}")
    repository.commit({"README.md": forged.encode()}, "by hand", parent=repository.head())

    publish(repository, numbers(0, 3), model="mine")

    assert card(repository).count("| sums | other |") == 1


def test_a_row_that_was_edited_by_hand_is_made_anew_with_the_next_change_of_its_set(
    repository: HubRepository,
) -> None:
    answers = publish(repository, numbers(0, 2), total=3, model="other")
    edited = card(repository).replace("| 2 | incomplete |", "| 9 | incomplete |")
    repository.commit({"README.md": edited.encode()}, "by hand", parent=repository.head())

    score(again(answers))

    assert "| 2 | incomplete |" in rows(card(repository))["other"]


def test_a_damaged_set_is_left_out_and_blocks_nothing(repository: HubRepository) -> None:
    other = publish(repository, numbers(0, 2), model="other")
    commit_manifest(other, rows=7)

    publish(repository, numbers(0, 3), model="mine")

    assert set(rows(card(repository))) == {"mine"}


def test_without_a_verdict_there_is_no_score(tmp_path: Path) -> None:
    repository = LocalRepository(tmp_path / "answers")
    score(publish(repository, [row(0, error="too long", error_permanent=True)], model="mine"))

    assert ": no score (n = 0) |" in rows(card(repository))["mine"]


def test_the_numbers_of_answers_whose_files_are_gone_are_not_shown(tmp_path: Path) -> None:
    repository = LocalRepository(tmp_path / "answers")
    answers = publish(repository, numbers(0, 2), numbers(2, 4), model="lost")
    score(answers)
    assert "number v" in rows(card(repository))["lost"]
    (repository.folder / answers.folder / answers.manifest.shards[0].name).unlink()

    publish(repository, numbers(0, 3), model="mine")

    line = rows(card(repository))["lost"]
    assert "| 4 | complete, 1 of 2 shards missing |  |" in line


def test_a_folder_notes_no_files(tmp_path: Path) -> None:
    repository = LocalRepository(tmp_path / "answers")
    score(publish(repository, numbers(0, 2), model="mine"))

    assert "number v" in rows(card(repository))["mine"]
    assert "<!-- files" not in card(repository)


def test_a_card_that_is_not_utf8_stays_as_it_is_and_blocks_nothing(
    hub: Hub, repository: HubRepository, caplog: pytest.LogCaptureFixture
) -> None:
    first = publish(repository, numbers(0, 2), model="first")
    text = "---\nlicense: mit\n---\nMit Gr\xfc\xdfen\n".encode("latin-1")
    tree = hub.repo().at("main").tree | {"README.md": Entry(text, False)}
    hub.repo().add("main", "by hand", tree)

    score(again(first))
    second = publish(repository, numbers(0, 2), model="second")

    assert repository.fetch("README.md", second.revision).read_bytes() == text
    assert second.manifest.rows == 2
    assert "is not UTF-8; its table is not updated" in caplog.text

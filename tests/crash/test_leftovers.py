"""Rows that a crash left in a spool are published without an engine, or continued on another machine."""

from pathlib import Path

import pytest

from regrade.answers.hub import HubRepository
from regrade.answers.local import LocalRepository
from regrade.answers.origin import begin_session
from regrade.answers.publishing import publish_leftovers
from regrade.answers.spool import Spool, spool_folder
from tests.builders import description, row, session
from tests.command_line import regrade
from tests.crash.conftest import LIMIT, Make
from tests.crash.harness import spooled, stored, whole_rows
from tests.hub_server.fixtures import Hub


def leave(repository: str, rows: range, total: int) -> Path:
    """Leave rows in a spool as a killed run does."""
    asked = description(total)
    folder = spool_folder(repository, asked.specification.answer_set_id)
    with Spool(folder) as spool:
        begin_session(spool, repository, asked, session())
        spool.append([row(number) for number in rows])
    return folder


def test_a_spool_is_published_without_the_run_that_made_it(spool_home: Path, tmp_path: Path):
    repository = LocalRepository(tmp_path / "answers")
    folder = leave(repository.uri, range(3), 5)

    (found,) = publish_leftovers()

    assert found.error is None
    assert found.published is not None
    assert (found.published.manifest.rows, found.published.manifest.state) == (3, "incomplete")
    assert found.published.manifest.sessions[0].rows == 3
    assert not folder.exists()
    assert list(publish_leftovers()) == []


def test_publishing_twice_after_a_crash_in_between_doubles_nothing(
    spool_home: Path, tmp_path: Path
):
    repository = LocalRepository(tmp_path / "answers")
    leave(repository.uri, range(5), 5)
    list(publish_leftovers())
    leave(repository.uri, range(2, 5), 5)  # as if the spool had not been released

    (found,) = publish_leftovers()

    assert found.published is not None
    assert found.published.manifest.rows == 5
    assert len(stored(repository)) == 5


def test_only_one_repository_is_published_where_one_is_named(spool_home: Path, tmp_path: Path):
    other = leave(str(tmp_path / "other"), range(2), 5)
    leave(str(tmp_path / "answers"), range(3), 5)

    (found,) = publish_leftovers(str(tmp_path / "answers"))

    assert found.repository == str(tmp_path / "answers")
    assert other.exists()


@pytest.mark.parametrize("damaged", ["origin.json", "sealed-00001-000000000000.parquet"])
def test_a_damaged_spool_is_named_and_the_others_are_published(
    spool_home: Path, tmp_path: Path, damaged: str
):
    folder = leave(str(tmp_path / "broken"), range(2), 5)
    leave(str(tmp_path / "whole"), range(3), 5)
    (folder / damaged).write_bytes(b"{")

    found = list(publish_leftovers())

    (refused,) = (left for left in found if left.error is not None)
    assert damaged in str(refused.error)
    assert sum(left.published is not None for left in found) == 1
    assert folder.exists()


def test_a_spool_that_another_run_holds_is_left_to_it(spool_home: Path, tmp_path: Path):
    folder = leave(str(tmp_path / "answers"), range(2), 5)
    with Spool(folder):
        (found,) = publish_leftovers()
    assert "Another run" in str(found.error)
    assert not (tmp_path / "answers").exists()


def test_a_repository_that_cannot_be_written_does_not_stop_the_others_and_the_command_names_both(
    spool_home: Path, tmp_path: Path
):
    (tmp_path / "file").write_text("not a folder")
    kept = leave(str(tmp_path / "file"), range(2), 5)
    leave(str(tmp_path / "answers"), range(5), 5)

    ran = regrade("publish")
    assert ran.code == 2
    assert "5 rows, complete" in ran.out
    assert "it is a file" in ran.err
    assert [*kept.glob("*.jsonl"), *kept.glob("*.parquet")]

    ran = regrade("publish", "--answers", tmp_path / "answers", "--json")
    assert ran.code == 0
    assert ran.document["answer_sets"] == []


@pytest.mark.slow
@pytest.mark.prefect
def test_what_a_killed_run_left_is_published_here_and_continued_on_another_machine(
    on_hub: Make, hub: Hub, hub_repository: HubRepository
):
    here = on_hub("here", REGRADE_PUBLISH_SECONDS="600")
    with here.started() as run:
        run.until("is ready")
        while len(spooled(here.spool)) < 20 and run.process.poll() is None:
            pass
        run.kill()
    left = spooled(here.spool)
    assert 20 <= len(left) < LIMIT
    assert stored(hub_repository) == []

    published = here.with_arguments("publish").finish()
    assert published.code == 0, published.err
    assert f"{len(left)} rows, incomplete" in published.out
    assert dict(stored(hub_repository)) == left
    assert spooled(here.spool) == {}

    there = on_hub("there")
    done = there.finish()
    assert done.code == 0, done.err
    assert f"continuing, {len(left)} of {LIMIT}" in done.err
    assert left.items() <= whole_rows(hub_repository, LIMIT).items()

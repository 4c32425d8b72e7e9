import errno
import itertools
import random
import signal
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from regrade.answers.images import image_tables
from regrade.answers.local import LocalRepository
from regrade.answers.local_files import Files
from regrade.answers.local_history import State
from regrade.answers.origin import note
from regrade.answers.parquet import seal_table, write_parquet
from regrade.answers.publishing import (
    SetFiles,
    publish_answers,
    publish_files,
    publish_scores,
    retry_on_conflict,
)
from regrade.answers.sets import AnswerSet, list_sets, readable_sets
from regrade.answers.spool import LONG_PROMPT, Spool
from regrade.answers.verify import verify
from regrade.records.columns import GENERATION_SCHEMA
from regrade.scoring.score import is_stale, score_answers
from regrade.settings.errors import DamagedAnswersError, HeadMovedError, HubError, RepositoryError
from regrade.stats.speed import Speed
from tests.answers.conftest import add
from tests.builders import description, row, session
from tests.pictures import image
from tests.stored import again, numbers, publish, score


@pytest.fixture
def spool(tmp_path: Path) -> Iterator[Spool]:
    with Spool(tmp_path / "spool" / "one") as spool:
        yield spool


def published(
    repository: LocalRepository, spool: Spool, numbers: range, total: int, session: int = 0
) -> AnswerSet:
    return add(repository, spool, description(total), [row(n) for n in numbers], session)


def test_what_a_person_wrote_in_the_card_stays(repository: LocalRepository, spool: Spool):
    repository.commit({"README.md": b"# Mine\r\n\nMy words.\r\n"}, "by hand", parent=None)

    published(repository, spool, range(2), 2)

    card = (repository.folder / "README.md").read_bytes()
    assert b"# Mine\r\n\nMy words.\r\n" in card
    assert b"org/tiny" in card


def test_a_speed_that_comes_after_all_rows_is_published_once(
    repository: LocalRepository, spool: Spool
):
    answers = published(repository, spool, range(5), 5)
    note(spool, session().id or "", speed=Speed(requests=5, steps=40))

    after, again = (publish_answers(repository, spool, description(5)) for _ in range(2))

    assert after
    assert again
    assert after.manifest.sessions[0].speed == Speed(requests=5, steps=40)
    assert after.manifest.shards == answers.manifest.shards
    assert after.revision != answers.revision
    assert again.revision == after.revision


def test_a_later_session_keeps_the_speeds_of_earlier_ones(
    repository: LocalRepository, spool: Spool
):
    published(repository, spool, range(3), 5)
    note(spool, session().id or "", speed=Speed(steps=1))
    published(repository, spool, range(3, 5), 5, session=1)
    note(spool, session(1).id or "", speed=Speed(steps=2))

    answers = publish_answers(repository, spool, description(5))

    assert answers
    assert [kept.speed and kept.speed.steps for kept in answers.manifest.sessions] == [1, 2]


def test_rows_that_another_machine_published_in_the_meantime_are_left_out(
    repository: LocalRepository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    commit = LocalRepository.commit
    with Spool(tmp_path / "here") as here, Spool(tmp_path / "there") as there:
        faster = [lambda: published(LocalRepository(repository.folder), there, range(4), 6)]

        def late(self: LocalRepository, *args: Any, **options: Any) -> str:
            if faster:
                faster.pop()()
            return commit(self, *args, **options)

        monkeypatch.setattr(LocalRepository, "commit", late)
        answers = published(repository, here, range(2, 6), 6, session=1)

    assert (answers.manifest.state, answers.manifest.rows) == ("complete", 6)
    assert [kept.rows for kept in answers.manifest.sessions] == [4, 2]
    assert len(answers.states().done) == 6


def test_scores_are_kept_beside_those_of_other_scorers(repository: LocalRepository, spool: Spool):
    answers = published(repository, spool, range(5), 5)
    number, _ = score(answers, "number"), score(answers, "number_strict")

    now = again(answers)
    assert {file.scorer for file in now.scores()} == {"number", "number_strict"}
    assert now.score_table(number).num_rows == 5
    assert score_answers(now, "number").table is None  # scored before by this version of the scorer
    assert score_answers(now, "number", force=True).table is not None


@pytest.mark.parametrize("rows", [4, 6])
def test_a_score_table_of_more_or_fewer_rows_than_its_answers_is_not_read(
    repository: LocalRepository, spool: Spool, rows: int
):
    answers = published(repository, spool, range(5), 5)
    scored = score_answers(answers, "number")
    assert scored.table is not None
    table = pa.concat_tables([scored.table, scored.table]).slice(0, rows)
    publish_scores(repository, [(answers, scored.file, table)])

    with pytest.raises(DamagedAnswersError, match=f"has {rows} rows, the scored answers have 5"):
        again(answers).score_table(scored.file)


def test_scores_of_fewer_answers_than_there_are_now_are_stale(
    repository: LocalRepository, spool: Spool
):
    early = score_answers(published(repository, spool, range(3), 5), "number")
    assert not is_stale(early.file, early.answers)

    later = published(repository, spool, range(3, 5), 5)
    assert is_stale(early.file, later)
    assert score_answers(later, "number").file.summary.overall.rows == 5


def test_an_id_that_fits_no_answer_set_says_where_to_look(
    repository: LocalRepository, spool: Spool
):
    answers = published(repository, spool, range(5), 5)

    assert list_sets(repository, answers.revision, answer_set_id=answers.manifest.answer_set_id[:6])
    with pytest.raises(RepositoryError, match="regrade list"):
        list_sets(repository, answers.revision, answer_set_id="ffff")


def test_a_model_is_found_by_its_name_or_the_last_part_and_by_its_path(
    repository: LocalRepository, tmp_path: Path
):
    for model in ("org/tiny", "run/checkpoint-5", "merged"):
        publish(repository, numbers(0, 2), model=model)
    (tmp_path / "link").symlink_to(tmp_path / "out/merged")

    def found(asked: str | Path) -> list[str]:
        sets, _ = readable_sets(repository, repository.head() or "", model=str(asked))
        return [answers.manifest.specification.model.name for answers in sets]

    assert found("org/tiny") == found("tiny") == ["org/tiny"]
    assert found(tmp_path / "run/checkpoint-5") == ["run/checkpoint-5"]
    assert found(tmp_path / "out/merged") == found(tmp_path / "link") == ["merged"]
    assert found("some/folder/tiny") == found(tmp_path / "other/checkpoint-5") == []


def test_a_repeated_set_is_complete_when_every_repeat_is_there(
    repository: LocalRepository, spool: Spool
):
    described = description(2, repeats=2)
    spool.append([row(0), row(0, repeat=1), row(1)])
    first = publish_answers(repository, spool, described)
    second = add(repository, spool, described, [row(1, repeat=1)])

    assert first
    assert (first.manifest.state, first.manifest.rows) == ("incomplete", 3)
    assert (second.manifest.state, second.manifest.rows) == ("complete", 4)


def test_answers_to_a_long_prompt_are_published_together_and_others_at_once(
    repository: LocalRepository, spool: Spool, tmp_path: Path
):
    prompts = [random.Random(n).randbytes(LONG_PROMPT // 2).hex() for n in range(4)]
    asked = [(n, repeat) for n in range(4) for repeat in range(4)]
    rows = [row(n, repeat=repeat, prompt=prompts[n]) for n, repeat in asked]
    once = seal_table(pa.Table.from_pylist(rows, GENERATION_SCHEMA), tmp_path / "once.parquet")
    described = description(5, repeats=4)
    spool.append([row(4)])
    stored = []
    for first in range(0, len(rows), 3):  # a commit never ends with a question
        spool.append(rows[first : first + 3])
        answers = publish_answers(repository, spool, described, only_new=True, goes_on=True)
        stored.append(None if answers is None else answers.manifest.rows)

    assert stored == [1, 5, 9, 13, None, 17]
    assert answers is not None
    size = sum(shard.bytes for shard in answers.manifest.shards)
    assert size < 1.1 * once.bytes


def test_an_answer_to_a_long_prompt_waits_for_no_other_after_its_run(
    repository: LocalRepository, spool: Spool
):
    spool.append([row(0, prompt="x" * LONG_PROMPT)])
    described = description(1, repeats=2)

    waiting = publish_answers(repository, spool, described, only_new=True, goes_on=True)
    kept = spool.states().done
    answers = publish_answers(repository, spool, described)

    assert (waiting, len(kept)) == (None, 1)
    assert answers is not None
    assert answers.manifest.rows == 1


def test_a_crash_while_journals_become_one_file_publishes_no_row_twice(
    repository: LocalRepository, tmp_path: Path
):
    folder = tmp_path / "spool" / "crashed"
    for number in range(2):
        with Spool(folder) as spool:
            spool.begin("0123456789ab")
            spool.append([row(number)])
    *_, last = sorted(folder.glob("journal-*"))
    content = last.read_bytes()
    with Spool(folder) as spool:
        [sealed] = spool.seal()
    last.write_bytes(content)  # the crash came before it was removed

    with Spool(folder) as spool:
        answers = publish_answers(repository, spool, description(2))

    assert sealed.rows == 2
    assert answers is not None
    assert answers.manifest.rows == 2


def test_files_are_added_to_a_repository_that_has_answers(
    repository: LocalRepository, tmp_path: Path
):
    def add(model: str, *numbers: int) -> tuple[str | None, list[AnswerSet]]:
        table = pa.Table.from_pylist([row(n) for n in numbers], schema=GENERATION_SCHEMA)
        sealed = seal_table(table, tmp_path / f"{model}.parquet")
        given = [SetFiles(description(2, model=model), [sealed])]
        sets = publish_files(repository, given, "import")
        return repository.head(), sets

    add("first", 0, 1)
    second, sets = add("second", 0, 1)
    again, same = add("second", 0, 1)

    assert second is not None
    models = [s.manifest.specification.model.name for s in list_sets(repository, second)]
    assert sorted(models) == ["first", "second"]
    card = (repository.folder / "README.md").read_text()
    assert "| first |" in card
    assert "| second |" in card
    assert again == second
    assert [entry.manifest for entry in same] == [entry.manifest for entry in sets]


def test_only_a_commit_conflict_is_tried_again(monkeypatch: pytest.MonkeyPatch):
    waits: list[float] = []
    monkeypatch.setattr("tenacity.nap.time.sleep", waits.append)
    tried: list[None] = []

    def attempt(error: Exception) -> None:
        tried.append(None)
        raise error

    for error in (HubError("u", "o", "503", True), RepositoryError("u", "p"), OSError(28, "full")):
        tried.clear()
        with pytest.raises(type(error)):
            retry_on_conflict(lambda: attempt(error))  # noqa: B023 - called at once
        assert len(tried) == 1
    assert waits == []

    tried.clear()
    with pytest.raises(HeadMovedError):
        retry_on_conflict(lambda: attempt(HeadMovedError("u", "o", "moved")))
    assert len(tried) == 8
    assert len(waits) == 7
    assert all(0 <= wait <= 10 for wait in waits)
    assert sum(waits) > 0


def test_a_shard_is_read_once_while_a_spool_is_open(
    repository: LocalRepository, spool: Spool, monkeypatch: pytest.MonkeyPatch
):
    read: list[str] = []
    fetch = LocalRepository.fetch

    def record(repository: LocalRepository, path: str, revision: str) -> Path:
        read.append(path)
        return fetch(repository, path, revision)

    monkeypatch.setattr(LocalRepository, "fetch", record)
    for number in range(4):
        published(repository, spool, range(number, number + 1), 6)

    assert not [path for path in read if path.endswith(".parquet")]


def test_publishing_no_scores_puts_right_what_a_kill_in_a_commit_left(
    repository: LocalRepository, spool: Spool
):
    answers = published(repository, spool, range(2), 2)
    stray = repository.folder / answers.folder / "part-00009-00000000.parquet"
    stray.write_bytes(b"a commit of a killed process")

    publish_scores(repository, [])

    assert not stray.exists()


def test_no_scores_are_published_into_a_folder_that_is_only_read(
    repository: LocalRepository, spool: Spool, monkeypatch: pytest.MonkeyPatch
):
    answers = published(repository, spool, range(2), 2)

    def refused(files: Files) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", str(files.objects))

    monkeypatch.setattr(Files, "prepare", refused)

    assert publish_scores(repository, []) == answers.revision


def test_an_import_of_a_version_that_stored_no_images_keeps_its_rows_and_says_of_none(
    repository: LocalRepository, tmp_path: Path
):
    rows = [row(0), row(1)]
    table = pa.Table.from_pylist(rows, schema=GENERATION_SCHEMA)
    sealed = seal_table(table, tmp_path / "a.parquet")
    [images] = image_tables([image(1)])
    write_parquet(images, tmp_path / "images.parquet")
    (before,) = publish_files(repository, [SetFiles(description(2), [sealed])], "import")

    shown = SetFiles(description(2, images="stored"), [sealed], [tmp_path / "images.parquet"])
    (after,) = publish_files(repository, [shown], "import")

    assert (after.revision, after.manifest.images) == (before.revision, None)
    assert not after.images.places


def test_rows_whose_process_was_killed_in_their_commit_are_at_their_paths_after_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    repository = LocalRepository(tmp_path / "answers")
    with Spool(tmp_path / "spool" / "set") as spool:
        spool.append([row(0)])
        publish_answers(repository, spool, description(2))
        spool.append([row(1)])
        with monkeypatch.context() as killed, pytest.raises(KeyboardInterrupt):
            killed.setattr(LocalRepository, "_place", lambda *_: signal.raise_signal(signal.SIGINT))
            publish_answers(repository, spool, description(2))
    assert list(repository.differences())
    again = LocalRepository(tmp_path / "answers")
    with Spool(tmp_path / "spool" / "set") as spool:
        published = publish_answers(again, spool, description(2))
    assert published is not None
    assert published.manifest.state == "complete"
    assert not list(again.differences())


ALTERED = [lambda content: content[:-20], lambda content: content[::-1]]
ALTERATIONS = pytest.mark.parametrize("alter", ALTERED, ids=["truncated", "altered"])


def publish_altered(
    repository: LocalRepository, spool: Spool, total: int, times: int, alter: Callable[..., bytes]
) -> AnswerSet:
    """Publish a row after the others of a set, while its shard is altered as often after its commit, before it is read back."""
    for number in range(total - 1):
        published(repository, spool, range(number, number + 1), total)
    place, left = LocalRepository._place, itertools.count(1)

    def place_and_alter(self: LocalRepository, state: State, paths: Collection[str]) -> None:
        place(self, state, paths)
        for path in sorted(paths & state.files.keys()):
            if path.endswith(".parquet") and next(left) <= times:
                (self.folder / path).write_bytes(alter((self.folder / path).read_bytes()))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LocalRepository, "_place", place_and_alter)
        return published(repository, spool, range(total - 1, total), total)


@ALTERATIONS
@pytest.mark.parametrize("total", [2, 12], ids=["its shard", "joined with others"])
def test_rows_that_do_not_read_back_after_their_commit_are_written_again(
    repository: LocalRepository, spool: Spool, total: int, alter: Callable[..., bytes]
):
    published = publish_altered(repository, spool, total, 1, alter)

    assert (published.manifest.state, len(published.states().done)) == ("complete", total)
    assert len(published.manifest.shards) == (2 if total == 2 else 1)
    assert not verify(repository, published.revision).problems


@ALTERATIONS
def test_rows_that_never_read_back_stay_in_the_spool_and_are_published_again(
    repository: LocalRepository, spool: Spool, alter: Callable[..., bytes]
):
    with pytest.raises(HubError, match="reads otherwise") as caught:
        publish_altered(repository, spool, 2, 9, alter)
    assert caught.value.retryable
    assert [file.rows for file in spool.seal()] == [1]

    published = publish_answers(LocalRepository(repository.folder), spool, description(2))

    assert spool.seal() == []
    assert published is not None
    assert (published.manifest.state, len(published.states().done)) == ("complete", 2)
    assert not verify(repository, published.revision).problems


@ALTERATIONS
def test_rows_joined_with_others_that_never_read_back_stay_in_the_spool(
    repository: LocalRepository, spool: Spool, alter: Callable[..., bytes]
):
    for publishing in (
        lambda: publish_altered(repository, spool, 12, 9, alter),
        lambda: publish_answers(repository, spool, description(12)),
        lambda: publish_answers(LocalRepository(repository.folder), spool, description(12)),
    ):
        with pytest.raises((HubError, DamagedAnswersError)):
            publishing()
        assert [file.rows for file in spool.seal()] == [1]

"""Failed rows that were asked again, shards that are generated anew, and sessions that add up."""

import itertools
import shutil
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from regrade.answers.base import Repository
from regrade.answers.local import LocalRepository
from regrade.answers.origin import begin_session
from regrade.answers.publishing import publish_answers, publish_scores
from regrade.answers.rows import RowStates, ShardStates
from regrade.answers.sets import AnswerSet, find_set
from regrade.answers.spool import Spool
from regrade.answers.verify import verify
from regrade.records.columns import GENERATION_SCHEMA
from regrade.scoring.score import score_answers
from tests.answers.conftest import Opener, add
from tests.answers.kills import killed_at
from tests.builders import description, row, session, specification
from tests.stored import by_row, score

TOTAL = 4
FAILED = {"text": None, "error": "500", "error_permanent": False}
REFUSED = {"text": None, "error": "too long", "error_permanent": True}


def run(
    repository: LocalRepository,
    folder: Path,
    rows: Sequence[dict[str, Any]],
    *,
    number: int = 0,
    **origin: Any,
) -> AnswerSet:
    """Generate rows in a session of their own and publish them."""
    timed = [row | {"finished_at": 10.0 * number + n} for n, row in enumerate(rows, 1)]
    spool = folder / f"spool-{number}"
    return add(repository, spool, description(TOTAL), timed, number, **origin)


def texts(answers: AnswerSet) -> dict[str, str | None]:
    return {sample_id: row["text"] for (sample_id, _), row in by_row(answers, "text").items()}


PARTS = 12
WHOLE = description(PARTS)


def in_parts(repository: Repository, folder: Path, parts: int = PARTS) -> list[AnswerSet]:
    """Two sessions in turn publish rows one by one, a shard each, of a set of `PARTS` rows; what each commit gave."""
    return [
        add(repository, folder / f"spool-{n % 2}", WHOLE, [row(n, finished_at=1.0 + n)], n % 2)
        for n in range(parts)
    ]


def verified(repository: Repository) -> list[str]:
    return [problem.problem for problem in verify(repository, str(repository.head())).problems]


def test_small_shards_are_joined_when_the_set_is_complete(opened: Opener, tmp_path: Path) -> None:
    repository = opened()
    *_, before, whole = in_parts(repository, tmp_path)

    assert [shard.rows for shard in before.manifest.shards] == [1] * (PARTS - 1)
    joined = [(shard.name[5:10], shard.rows) for shard in whole.manifest.shards]
    assert joined == [("00000", PARTS // 2), ("00001", PARTS // 2)]
    assert whole.manifest.answer_set_id == before.manifest.answer_set_id
    assert whole.manifest.state == "complete"
    assert whole.manifest.replaced == ()
    assert texts(whole) == {row(n)["sample_id"]: row(n)["text"] for n in range(PARTS)}
    assert [kept.rows for kept in whole.manifest.sessions] == [PARTS // 2] * 2
    parts = repository.files(whole.revision, whole.folder)
    assert len(parts) == 1 + 2  # the former ones are only at their revisions
    again = AnswerSet(opened(), before.revision, before.manifest)
    assert len(texts(again)) == PARTS - 1
    assert verified(repository) == []


def test_repeats_of_a_question_are_together_in_joined_shards(
    repository: LocalRepository, tmp_path: Path
) -> None:
    described = description(PARTS, repeats=2)
    with Spool(tmp_path / "spool") as spool:
        for n in range(2 * PARTS):
            whole = add(repository, spool, described, [row(n % PARTS, repeat=n // PARTS)])

    assert len(whole.manifest.shards) == 1
    rows = [key for batch in whole.batches(["index", "repeat"]) for key in batch.to_pylist()]
    assert [(r["index"], r["repeat"]) for r in rows] == [
        (n, k) for n in range(PARTS) for k in (0, 1)
    ]


def test_rows_of_many_small_shards_are_read_in_few_batches(
    repository: LocalRepository, tmp_path: Path
):
    answers = in_parts(repository, tmp_path, PARTS - 1)[-1]

    (batch,) = answers.batches(["index"])
    assert batch["index"].to_pylist() == list(range(PARTS - 1))
    assert len(score_answers(answers, "number").table or ()) == PARTS - 1


def test_rows_that_were_published_before_the_shards_were_joined_are_not_published_again(
    repository: LocalRepository, tmp_path: Path
):
    whole = in_parts(repository, tmp_path)[-1]
    again = add(
        repository, tmp_path / "late", WHOLE, [row(0, finished_at=1.0)]
    )  # killed after the commit

    assert again.revision == whole.revision


def test_a_reader_that_was_opened_before_its_shard_was_joined_reads_on(
    repository: LocalRepository, tmp_path: Path
):
    before = in_parts(repository, tmp_path, PARTS - 1)[-1]
    opened = [before.shard(shard, GENERATION_SCHEMA.names) for shard in before.manifest.shards]
    other = LocalRepository(repository.folder)
    whole = add(other, tmp_path / "last", WHOLE, [row(PARTS - 1)])

    assert len(whole.manifest.shards) == 2
    assert not any(reader.local.exists() for reader in opened)
    assert opened[0].of(["index"]).take([0]).to_pylist() == [{"index": 0}]
    assert [reader.table()["index"].to_pylist() for reader in opened] == [
        [number] for number in range(PARTS - 1)
    ]


def test_a_manifest_that_is_replaced_while_it_is_read_is_the_one_of_its_revision(
    repository: LocalRepository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    first, second = in_parts(repository, tmp_path, 2)
    newer = [repository.folder / second.folder / "manifest.json"]
    fetch = LocalRepository.fetch
    monkeypatch.setattr(
        LocalRepository,
        "fetch",
        lambda self, path, revision: newer.pop() if newer else fetch(self, path, revision),
    )

    found = find_set(repository, specification(), first.revision)

    assert not newer
    assert found is not None
    assert found.manifest == first.manifest


@pytest.mark.slow
def test_a_kill_at_any_step_of_the_commit_that_joins_shards_loses_and_doubles_nothing(
    repository: LocalRepository, tmp_path: Path
):
    in_parts(repository, tmp_path / "0", PARTS - 1)
    with Spool(tmp_path / "0" / "spool-1") as spool:
        begin_session(spool, repository.uri, WHOLE, session(1))
        spool.append([row(PARTS - 1, finished_at=float(PARTS))])
    (tmp_path / "answers").rename(tmp_path / "0" / "answers")

    def publish(home: Path) -> AnswerSet:
        with Spool(home / "spool-1") as spool:
            answers = publish_answers(LocalRepository(home / "answers"), spool, WHOLE)
            assert answers is not None
            assert not spool.seal()
        return answers

    happened = []
    for step in itertools.count(1):
        home = tmp_path / str(step)
        shutil.copytree(tmp_path / "0", home)
        killed = killed_at(step, partial(publish, home))
        read = LocalRepository(home / "answers")
        answers = find_set(read, specification(), read.head())
        assert answers is not None
        happened.append(answers.manifest.state == "complete")
        assert len(texts(answers)) == PARTS - (not happened[-1])
        whole = publish(home)
        assert [shard.rows for shard in whole.manifest.shards] == [PARTS // 2] * 2
        assert len(texts(whole)) == PARTS
        assert not list(read.differences())
        shutil.rmtree(home)
        if not killed:
            break
    assert happened == sorted(happened)
    assert 5 < happened.count(True) < len(happened) - 5


def test_a_damaged_shard_is_not_joined_and_stays_to_be_healed(
    repository: LocalRepository, tmp_path: Path
):
    before = in_parts(repository, tmp_path, PARTS - 1)[-1]
    damaged = before.manifest.shards[2]
    path = repository.folder / before.folder / damaged.name
    path.write_bytes(b"PAR1" * 100)
    with Spool(tmp_path / "spool-1") as spool:  # it knows the rows of all shards
        spool.shard_states.update({shard.sha256: RowStates() for shard in before.manifest.shards})
        whole = add(repository, spool, WHOLE, [row(PARTS - 1)], 1)

    joined = [(shard.name[5:10], shard.rows) for shard in whole.manifest.shards]
    assert joined == [("00000", 5), ("00001", 6), ("00002", 1)]
    assert damaged in whole.manifest.shards


def test_scorings_of_shards_that_were_joined_are_stale_and_no_damage(
    repository: LocalRepository, tmp_path: Path
):
    *_, early, before = in_parts(repository, tmp_path, PARTS - 1)
    score(before)
    late = score_answers(early, "number", force=True)
    whole = add(repository, tmp_path / "spool-1", WHOLE, [row(PARTS - 1)], 1)
    assert len(whole.manifest.shards) == 2
    assert verified(repository) == []  # the scoring is of shards that were joined

    assert late.table is not None  # begun before the shards were joined, published after
    publish_scores(repository, [(early, late.file, late.table)])
    assert verified(repository) == []


def test_a_shard_that_is_joined_is_named_as_replaced_if_a_scoring_cannot_be_read(
    repository: LocalRepository, tmp_path: Path
):
    before = in_parts(repository, tmp_path, PARTS - 1)[-1]
    path = f"{before.scores_folder}/{score(before).label}.json"
    content = repository.fetch(path, repository.head() or "").read_bytes()
    repository.commit({path: b"{"}, "damage", parent=repository.head())
    add(repository, tmp_path / "spool-1", WHOLE, [row(PARTS - 1)], 1)

    repository.commit({path: content}, "healed", parent=repository.head())
    assert verified(repository) == []


def test_shards_that_people_labelled_are_not_joined(repository: LocalRepository, tmp_path: Path):
    before = in_parts(repository, tmp_path, PARTS - 1)[-1]
    labels = {f"{before.labels_folder}/labels-00000000.json": b"{}"}
    repository.commit(labels, "labels", parent=repository.head())
    whole = add(repository, tmp_path / "spool-1", WHOLE, [row(PARTS - 1)], 1)

    assert len(whole.manifest.shards) == PARTS


def test_a_request_that_cannot_succeed_leaves_nothing_open(
    repository: LocalRepository, tmp_path: Path
):
    answers = run(repository, tmp_path, [row(0), row(1), row(2), row(3) | REFUSED])

    assert (answers.manifest.state, answers.manifest.refused) == ("complete", 1)
    assert answers.states().failed == set()


def test_an_answer_takes_the_place_of_its_failed_request(
    repository: LocalRepository, tmp_path: Path
):
    first = run(repository, tmp_path, [row(0), row(1), row(2), row(3) | FAILED])
    assert (first.manifest.rows, first.manifest.failed) == (TOTAL, 1)
    assert first.manifest.state == "incomplete"
    assert first.states().failed == {("sample-00003", 0)}
    assert verified(repository) == []
    second = run(repository, tmp_path, [row(3)], number=1)

    manifest = second.manifest
    assert (manifest.state, manifest.rows, manifest.failed) == ("complete", TOTAL, 0)
    assert texts(second) == {f"sample-{n:05d}": row(n)["text"] for n in range(TOTAL)}
    assert verified(repository) == []
    before = find_set(repository, first.manifest.specification, first.revision)
    assert before is not None
    assert texts(before)["sample-00003"] is None


def test_a_request_that_fails_again_changes_nothing(repository: LocalRepository, tmp_path: Path):
    first = run(repository, tmp_path, [row(0), row(1), row(2), row(3) | FAILED])
    second = run(repository, tmp_path, [row(3) | FAILED], number=1)

    assert second.revision == first.revision


def test_a_spool_with_a_failed_request_and_its_answer_publishes_the_answer(
    repository: LocalRepository, tmp_path: Path
):
    rows = [row(3) | FAILED, row(0), row(1), row(2), row(3), row(3) | FAILED]
    answers = run(repository, tmp_path, rows)

    assert (answers.manifest.state, answers.manifest.rows) == ("complete", TOTAL)
    assert texts(answers)["sample-00003"] == row(3)["text"]


def test_scores_of_replaced_rows_are_stale_and_no_damage(
    repository: LocalRepository, tmp_path: Path
):
    first = run(repository, tmp_path, [row(0), row(1), row(2), row(3) | FAILED])
    score(first)
    second = run(repository, tmp_path, [row(3)], number=1)

    assert verified(repository) == []
    assert score_answers(second, "number").file.summary.overall.n == TOTAL


def test_sessions_add_up_to_the_rows_seconds_and_tokens(
    repository: LocalRepository, tmp_path: Path
):
    run(repository, tmp_path, [row(0), row(1), row(2) | FAILED])
    # Another machine: one row of it is there already, and one answers what failed.
    answers = run(repository, tmp_path, [row(1), row(2), row(3)], number=1)

    first, second = answers.manifest.sessions
    assert (first.rows, second.rows) == (2, 2)
    assert (first.generate_seconds, second.generate_seconds) == (2.0, 13.0)
    assert (first.completion_tokens, second.completion_tokens) == (14, 14)
    assert sum(shard.rows for shard in answers.manifest.shards) == TOTAL


def test_a_session_whose_rows_were_all_there_is_left_out(
    repository: LocalRepository, tmp_path: Path
):
    run(repository, tmp_path, [row(0), row(1)])
    answers = run(repository, tmp_path, [row(1), row(0)], number=1)

    assert [session.rows for session in answers.manifest.sessions] == [2]


def test_answers_that_are_generated_anew_replace_the_old_ones_whose_commit_is_named_once(
    repository: LocalRepository, tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    old = run(repository, tmp_path, [row(n, text=f"old {n}") for n in range(TOTAL)])
    gone = tuple(shard.sha256 for shard in old.manifest.shards)
    some = {"number": 1, "replaced": gone, "fresh": True}
    half = run(repository, tmp_path, [row(n, text=f"new {n}") for n in range(2)], **some)
    assert (half.manifest.state, half.manifest.rows) == ("incomplete", 2)
    whole = run(repository, tmp_path, [row(n, text=f"new {n}") for n in range(2, TOTAL)], **some)

    assert set(texts(whole).values()) == {f"new {n}" for n in range(TOTAL)}
    assert whole.manifest.replaced == gone
    assert verified(repository) == []
    before = find_set(repository, old.manifest.specification, old.revision)
    assert before is not None
    assert set(texts(before).values()) == {f"old {n}" for n in range(TOTAL)}
    [said] = caplog.messages
    assert "2 of 4 answers are generated again (`--fresh`) and take the place of the 4" in said
    assert f"stay at commit {old.revision} (`--revision`)" in said


def test_requests_that_all_fail_cost_no_answer_of_before(
    repository: LocalRepository, tmp_path: Path
):
    old = run(repository, tmp_path, [row(n) for n in range(TOTAL)])
    gone = tuple(shard.sha256 for shard in old.manifest.shards)
    some = {"number": 1, "replaced": gone, "fresh": True}
    new = run(repository, tmp_path, [row(n) | FAILED for n in range(TOTAL)], **some)

    assert new.revision == old.revision
    assert new.manifest.state == "complete"


def test_a_shard_that_is_gone_is_replaced_by_what_is_generated_again(
    repository: LocalRepository, tmp_path: Path
):
    run(repository, tmp_path, [row(0), row(1)])
    answers = run(repository, tmp_path, [row(2), row(3)], number=1)
    lost, kept = answers.manifest.shards
    (repository.folder / answers.folder / lost.name).unlink()
    healed = run(repository, tmp_path, [row(0), row(1)], number=2, replaced=(lost.sha256,))

    assert kept in healed.manifest.shards
    assert (healed.manifest.state, len(texts(healed))) == ("complete", TOTAL)
    assert [session.rows for session in healed.manifest.sessions] == [2, 2]
    assert verified(repository) == []


@pytest.mark.parametrize(
    ("right", "wrong", "says"),
    [
        ('"completion_tokens": 28', '"completion_tokens": 29', "tokens 29, its rows give 28"),
        ('"generate_seconds": 4', '"generate_seconds": 40', "counts of session '000000000000'"),
    ],
    ids=["of a shard", "of a session"],
)
def test_counts_that_do_not_follow_from_the_rows_are_found(
    repository: LocalRepository, tmp_path: Path, right: str, wrong: str, says: str
):
    answers = run(repository, tmp_path, [row(n) for n in range(TOTAL)])
    path = f"{answers.folder}/manifest.json"
    changed = (repository.folder / path).read_text().replace(right, wrong)
    repository.commit({path: changed.encode()}, "edited", parent=repository.head())

    (problem,) = verified(repository)
    assert says in problem


def test_states_of_shards_are_put_together_for_whatever_shards_are_asked():
    def states(done: range, failed: range = range(0)) -> RowStates:
        return RowStates({(f"{n}", 0) for n in done}, {(f"{n}", 0) for n in failed})

    known = ShardStates(
        a=states(range(2), range(2, 4)), b=states(range(2, 3)), c=states(range(9, 10))
    )

    def asked(*shards: str) -> tuple[list[int], list[int]]:
        found = known.together(shards)
        done, failed = ([int(key) for key, _ in part] for part in (found.done, found.failed))
        return sorted(done), sorted(failed)

    assert asked("a") == ([0, 1], [2, 3])
    assert asked("a", "b") == ([0, 1, 2], [3])  # a row that succeeded takes precedence
    assert asked("a", "b", "c") == ([0, 1, 2, 9], [3])
    assert asked("a", "c") == ([0, 1, 9], [2, 3])  # b was replaced
    assert asked() == ([], [])
    assert asked("c", "b") == ([2, 9], [])

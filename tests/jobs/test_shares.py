"""Shares of an answer set: the order of questions, the form of the setting, variables of schedulers, withdrawn requests."""

import itertools
import json
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from regrade.answers.local import LocalRepository
from regrade.answers.origin import begin_session
from regrade.answers.publishing import publish_answers, publish_siblings
from regrade.answers.sets import find_set
from regrade.answers.spool import Spool, spool_folder
from regrade.engines.base import EngineInfo
from regrade.jobs.generate import generate
from regrade.jobs.shares import (
    BLOCK,
    MACHINES_VARIABLE,
    PUBLISH_SECONDS,
    PUBLISH_VARIABLE,
    Share,
    publish_seconds,
)
from regrade.records import Completion, Request
from regrade.settings.errors import EngineError, SettingsError
from tests.builders import session
from tests.jobs.test_continuing import rows
from tests.sums import Answering, plan_of


@pytest.mark.parametrize(("of", "questions"), [(1, 10), (4, 1000), (7, 12), (5, 3)])
def test_every_share_walks_all_questions_once_and_begins_with_its_own_part(of: int, questions: int):
    parts = []
    for number in range(1, of + 1):
        order = Share(number, of).order(questions)
        assert sorted(order) == list(range(questions))
        assert order == Share(number, of).order(questions)  # the same each time
        parts.append(order[: questions * number // of - questions * (number - 1) // of])
    assert [position for part in parts for position in part] == list(range(questions))


def test_the_rest_is_walked_in_blocks_whose_order_differs_between_machines():
    questions = 100 * BLOCK
    rests = [Share(number, 4).order(questions)[questions // 4 :] for number in (1, 2, 3, 4)]
    for rest in rests:
        neighbours = sum(after == before + 1 for before, after in itertools.pairwise(rest))
        assert neighbours >= len(rest) * (1 - 2 / BLOCK)
    firsts = [{*rest[: 10 * BLOCK]} for rest in rests]
    assert all(first != other for first in firsts for other in firsts if first is not other)


@pytest.mark.parametrize(
    ("text", "expected"), [("1/1", (1, 1)), ("2/4", (2, 4)), ("10/10", (10, 10))]
)
def test_a_share_is_its_number_and_the_number_of_machines(text: str, expected: tuple[int, int]):
    share = Share.parse(text, {})
    assert (share.number, share.of) == expected
    assert str(share) == text


@pytest.mark.parametrize("text", ["0/4", "5/4", "2", "2/", "a/b", "2/4/6", "1/0", "-1/4", " 2/4"])
def test_another_text_is_refused_with_the_form(text: str):
    with pytest.raises(SettingsError, match="should be `K/N`"):
        Share.parse(text, {})


def slurm(task: int, count: int, least: int, most: int) -> dict[str, str]:
    names = {"ID": task, "COUNT": count, "MIN": least, "MAX": most}
    return {f"SLURM_ARRAY_TASK_{name}": str(value) for name, value in names.items()}


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        (slurm(1, 4, 1, 4), "1/4"),
        (slurm(0, 4, 0, 3), "1/4"),
        (slurm(9, 3, 1, 9), "3/3"),
        (slurm(5, 3, 1, 9), "2/3"),
        (slurm(7, 1, 7, 7), "1/1"),
        ({"JOB_COMPLETION_INDEX": "0", MACHINES_VARIABLE: "8"}, "1/8"),
        ({"SKYPILOT_NODE_RANK": "3", "SKYPILOT_NUM_NODES": "4"}, "4/4"),
    ],
)
def test_auto_takes_the_variables_of_the_scheduler(environment: dict[str, str], expected: str):
    assert str(Share.parse("auto", environment)) == expected


@pytest.mark.parametrize(
    ("environment", "said"),
    [
        ({}, "needs a Slurm array"),
        (slurm(2, 3, 1, 6), "equal steps"),  # --array=1,2,6
        ({"SLURM_ARRAY_TASK_ID": "2"}, "ARRAY_TASK_COUNT should be a whole number, it is not set"),
        ({"JOB_COMPLETION_INDEX": "0"}, f"{MACHINES_VARIABLE} should be .* number, it is not set"),
        ({"JOB_COMPLETION_INDEX": "x", MACHINES_VARIABLE: "2"}, "it is 'x'"),
        ({"JOB_COMPLETION_INDEX": "2", MACHINES_VARIABLE: "2"}, "should be from 0 to"),
    ],
)
def test_auto_without_a_place_says_what_is_missing(environment: dict[str, str], said: str):
    with pytest.raises(SettingsError, match=said):
        Share.parse("auto", environment)


def test_the_interval_between_commits_grows_with_the_machines():
    hour = 3600
    assert publish_seconds(1) == publish_seconds(2) == 60
    for machines in (2, 8, 1000):
        assert machines * hour / publish_seconds(machines) <= 120  # the Hub allows about 128


def test_answers_are_published_once_a_minute_unless_told_otherwise(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv(PUBLISH_VARIABLE, raising=False)
    assert publish_seconds() == PUBLISH_SECONDS == 60
    monkeypatch.setenv(PUBLISH_VARIABLE, "2.5")
    assert publish_seconds() == 2.5


@pytest.mark.parametrize("given", ["0", "-1", "often", "nan", "inf"])
def test_a_period_that_is_none_is_refused(monkeypatch: pytest.MonkeyPatch, given: str):
    monkeypatch.setenv(PUBLISH_VARIABLE, given)
    with pytest.raises(SettingsError, match=f"{PUBLISH_VARIABLE}={given}"):
        publish_seconds()


def test_a_share_does_not_change_the_answer_set():
    plan = plan_of(6)
    assert [sample.index for sample, _ in plan.missing(set(), Share(2, 3))][:2] == [2, 3]
    rest = {sample.index for sample, _ in plan.missing({("id-0", 0)}, Share(2, 3))}
    assert rest == {1, 2, 3, 4, 5}


class Watching:
    """An engine that answers one request after the other, and calls `meanwhile` before each."""

    info = EngineInfo("vllm", "0", "cpu", "float32", 64, None, 0.0)

    def __init__(self, meanwhile) -> None:
        self.meanwhile = meanwhile
        self.asked: list[int] = []

    def generate(self, requests: Iterable[Request]) -> Iterator[list[Completion]]:
        for request in requests:
            self.asked.append(request.key)
            self.meanwhile(len(self.asked))
            yield [Completion(request.key, "sent", text="1", completion_tokens=1)]


def test_requests_whose_rows_appear_meanwhile_are_left_out(tmp_path: Path):
    plan = plan_of(10)
    requests = plan.requests(plan.missing(set()))
    engine = Watching(
        lambda asked: asked == 3 and requests.withdraw({(f"id-{n}", 0) for n in (0, 2, 5, 6, 9)})
    )
    with Spool(tmp_path / "spool") as spool:
        progress = generate(requests, engine, spool, lambda _: None)
        kept = spool.states().done
    assert engine.asked == [0, 1, 2, 3, 4, 7, 8]
    # The third was withdrawn while it was answered: its row is published already.
    assert kept == {(f"id-{n}", 0) for n in (0, 1, 3, 4, 7, 8)}
    assert (progress.done, progress.new, progress.total) == (10, 6, 10)


def test_a_request_that_was_not_withdrawn_must_be_answered(tmp_path: Path):
    plan = plan_of(4)
    requests = plan.requests(plan.missing(set()))
    requests.withdraw({("id-0", 0)})
    with Spool(tmp_path / "spool") as spool, pytest.raises(EngineError, match="1 of 4"):
        generate(requests, Answering(lose=1), spool, lambda _: None)


@pytest.mark.usefixtures("spool_home")
def test_rows_in_the_spool_of_another_share_of_this_machine_are_published(
    repository: LocalRepository,
):
    plan = plan_of(6)
    folders = [
        spool_folder(repository.uri, plan.specification.answer_set_id, share.folder_suffix)
        for share in (Share(1, 2), Share(2, 2))
    ]
    for number, folder in enumerate(folders):
        with Spool(folder) as spool:
            begin_session(spool, repository.uri, plan.description, session(number))
            spool.append(rows(plan, range(3 * number, 3 * number + 2)))
    (elsewhere,) = folders[0].parent.glob(f"{folders[0].name}.owner-*")

    mine = spool_folder(repository.uri, plan.specification.answer_set_id)
    owner = elsewhere.read_text()
    elsewhere.write_text(json.dumps(json.loads(owner) | {"host": "another-machine"}))
    (first,) = publish_siblings(mine)
    assert first.folder == folders[1]
    elsewhere.write_text(owner)
    (second,) = publish_siblings(mine)
    assert second.folder == folders[0]

    stored = find_set(repository, plan.specification, repository.head())
    assert stored is not None
    assert stored.states().done == {(f"id-{n}", 0) for n in (0, 1, 3, 4)}


@pytest.mark.usefixtures("spool_home")
def test_a_spool_that_another_share_uses_is_left_alone(repository: LocalRepository):
    plan = plan_of(6)
    answer_set_id = plan.specification.answer_set_id
    folder = spool_folder(repository.uri, answer_set_id, Share(1, 2).folder_suffix)
    with Spool(folder) as spool:
        begin_session(spool, repository.uri, plan.description, session())
        spool.append(rows(plan, range(2)))
        (busy,) = publish_siblings(folder.with_name(answer_set_id))
        assert busy.published is None
        spool.append(rows(plan, range(2, 3)))
        published = publish_answers(repository, spool, plan.description)
    assert published is not None
    assert published.manifest.rows == 3

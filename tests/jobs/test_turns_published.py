"""Conversations in the spool and the repository: several machines, failures, and answers that are healed."""

import json
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from regrade.answers.local import LocalRepository
from regrade.answers.origin import begin_session
from regrade.answers.publishing import publish_answers
from regrade.answers.sets import AnswerSet
from regrade.answers.spool import Spool
from regrade.answers.verify import verify
from regrade.comparing.comparison import CompareOptions, compare_sets
from regrade.comparing.stopping import Baseline
from regrade.jobs.continuing import remaining
from regrade.jobs.generate import generate, session_of
from regrade.jobs.plan import Plan
from regrade.records import Request
from regrade.scoring.score import score_answers
from regrade.settings import GateSettings, Reuse, ScoringOptions
from regrade.settings.errors import EngineError, SettingsError
from regrade.tuning.search.job import TuneJob
from tests.conversations import Said, Talking, last_user, plan_of_turns, write_turns
from tests.sums import SERVER

TALKS = [[f"{name}{turn}" for turn in (1, 2, 3)] for name in "abcd"]


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    return plan_of_turns(write_turns(tmp_path / "talks.jsonl", *TALKS))


@contextmanager
def machine(plan: Plan, repository: LocalRepository, folder: Path) -> Iterator["Machine"]:
    with Spool(folder) as spool:
        yield Machine(plan, repository, spool)


@dataclass(frozen=True)
class Machine:
    plan: Plan
    repository: LocalRepository
    spool: Spool

    def generate(self, engine: Talking, reuse: Reuse | None = None) -> None:
        found = remaining(self.plan, self.repository, self.spool, reuse or Reuse())
        begun, described = session_of(engine, SERVER), self.plan.description
        begin_session(self.spool, self.repository.uri, described, begun, replaced=found.replaced)
        requests = self.plan.requests(found.missing, (), found.before)
        if found.missing:
            generate(requests, engine, self.spool, lambda _: None)

    def publish(self) -> AnswerSet | None:
        return publish_answers(self.repository, self.spool, self.plan.description)


def rows_of(answers: AnswerSet | None) -> dict[str, dict[str, Any]]:
    assert answers is not None
    names = ("question", "prompt", "text", "error", "sample_id")
    rows = [row for batch in answers.batches(names) for row in batch.to_pylist()]
    return {row["question"]: row for row in rows}


def check_whole(rows: dict[str, dict[str, Any]]) -> None:
    """Each prompt holds the answers that are stored for the turns before it."""
    for name in "abcd":
        for number in (2, 3):
            if (row := rows.get(f"{name}{number}")) is None or row["error"]:
                continue
            told = [turn["content"] for turn in json.loads(row["prompt"])[1::2]]
            assert told == [rows[f"{name}{k}"]["text"] for k in range(1, number)]


def by(word: str) -> Said:
    return lambda request: {"text": f"{word} says {last_user(request)}"}


def test_only_whole_conversations_are_published_while_they_are_generated(
    plan: Plan, repository: LocalRepository, tmp_path: Path
):
    with machine(plan, repository, tmp_path / "one") as one:
        with suppress(EngineError):
            one.generate(Talking(by("one"), ends_after=5))  # d1, d2, d3, c1, c2
        published = rows_of(one.publish())
        assert set(published) == {"d1", "d2", "d3"}
        assert one.spool.rows == 2
        assert one.publish() is not None  # nothing new: the rest stays
        assert one.spool.rows == 2
    with machine(plan, repository, tmp_path / "one") as again:  # as after a kill
        again.generate(engine := Talking(by("again")))
        assert len(engine.asked) == 12 - 5
        rows = rows_of(again.publish())
    assert rows["c2"]["text"] == "one says c2"
    assert rows["c3"]["text"] == "again says c3"
    assert len(rows) == 12
    check_whole(rows)
    assert not verify(repository, repository.head() or "").problems


@pytest.mark.parametrize("ends_after", range(1, 13))
def test_no_turn_follows_the_answer_of_another_machine(
    plan: Plan, repository: LocalRepository, tmp_path: Path, ends_after: int
):
    with (
        machine(plan, repository, tmp_path / "one") as one,
        machine(plan, repository, tmp_path / "two") as two,
    ):
        with suppress(EngineError):
            one.generate(Talking(by("one"), ends_after=ends_after))
        two.generate(Talking(by("two")))
        one.publish()
        rows = rows_of(two.publish())
        check_whole(rows)
        assert len(rows) == 12
        check_whole(rows_of(one.publish()))


def fails_at(turn: str, word: str) -> Said:
    said = by(word)
    return lambda request: {"error": "500"} if last_user(request) == turn else said(request)


def test_of_two_machines_that_ask_failed_turns_again_one_goes_on(
    plan: Plan, repository: LocalRepository, tmp_path: Path
):
    with machine(plan, repository, tmp_path / "first") as first:
        first.generate(Talking(fails_at("a1", "first")))
        assert rows_of(first.publish())["a3"]["error"] == (
            "Not asked, because of the turn before it: 500"
        )
    with (
        machine(plan, repository, tmp_path / "one") as one,
        machine(plan, repository, tmp_path / "two") as two,
    ):
        one.generate(Talking(fails_at("a2", "one")))
        two.generate(Talking(by("two")))
        one.publish()
        rows = rows_of(two.publish())
        check_whole(rows)
        assert (rows["a1"]["text"], rows["a2"]["text"]) == ("one says a1", None)
        two.generate(engine := Talking(by("two")))
        assert [last_user(request) for request in engine.asked] == ["a2", "a3"]
        rows = rows_of(two.publish())
    check_whole(rows)
    assert (rows["a2"]["text"], rows["d3"]["text"]) == ("two says a2", "first says d3")


def test_a_damaged_shard_has_all_conversations_asked_again(
    plan: Plan, repository: LocalRepository, tmp_path: Path
):
    with machine(plan, repository, tmp_path / "one") as one:
        with suppress(EngineError):
            one.generate(Talking(by("one"), ends_after=6))
        one.publish()
        one.generate(Talking(by("one")))
        answers = one.publish()
        assert answers is not None
        shard = answers.manifest.shards[-1]
        path = repository.folder / answers.folder / shard.name
        path.chmod(0o600)
        path.write_bytes(b"damaged" + path.read_bytes()[7:])
    healing = LocalRepository(repository.folder)
    with machine(plan, healing, tmp_path / "two") as two:
        two.generate(Talking(by("two")), Reuse(heal=True))
        rows = rows_of(two.publish())
    assert {row["text"].partition(" ")[0] for row in rows.values()} == {"two"}


def published(plan: Plan, folder: Path, said: Said) -> AnswerSet:
    repository = LocalRepository(folder / "answers")
    with machine(plan, repository, folder / "spool") as one:
        one.generate(Talking(said))
        answers = one.publish()
    assert answers is not None
    return answers


def right_but(*wrong: str) -> Said:
    def said(request: Request) -> dict[str, Any]:
        turn = last_user(request)
        return {"text": "?" if turn in wrong else turn}

    return said


def test_scores_are_by_turn_and_as_a_whole_with_errors_by_conversation(plan: Plan, tmp_path: Path):
    answers = published(plan, tmp_path, right_but("a1", "a2", "a3", "b3"))

    summary = score_answers(answers, "exact").file.summary

    overall = summary.overall
    assert (overall.n, overall.samples, summary.samples) == (12, 4, 4)
    assert overall.accuracy == pytest.approx(8 / 12)
    assert overall.accuracy_stderr == pytest.approx(0.2357, abs=1e-3)
    # Of 12 answers that did not depend on each other:
    assert overall.accuracy_stderr > 1.6 * (8 / 12 * 4 / 12 / 11) ** 0.5
    by_turn = {subset.name: subset.metrics for subset in summary.subsets}
    accuracies = {"turn 1": 0.75, "turn 2": 0.75, "turn 3": 0.5}
    assert {name: m.accuracy for name, m in by_turn.items()} == accuracies
    assert {m.samples for m in by_turn.values()} == {4}


def test_subsets_of_conversations_are_shown_by_turn_and_by_subset(tmp_path: Path):
    path = write_turns(tmp_path / "talks.jsonl", *TALKS, kind=["x", "x", "y", "y"])
    plan = plan_of_turns(path, subset_column="kind")
    answers = published(plan, tmp_path, right_but("a1", "a2", "a3", "b3"))

    summary = score_answers(answers, "exact").file.summary

    turns = {"turn 1": 0.75, "turn 2": 0.75, "turn 3": 0.5}
    found = {part.name: part.metrics.accuracy for part in summary.categories}
    assert found == turns | {"x": pytest.approx(2 / 6), "y": 1.0}


def test_two_models_are_compared_by_conversation(plan: Plan, tmp_path: Path):
    one = published(plan, tmp_path / "one", right_but())
    other = published(plan, tmp_path / "two", right_but("a1", "a2", "a3"))

    compared = compare_sets(one, other, CompareOptions()).comparison

    assert (compared.n, compared.clusters) == (12, 4)
    assert compared.test == "paired permutation"
    assert compared.p_value == 1.0  # one conversation of four changed


def test_what_needs_questions_that_do_not_depend_on_each_other_is_refused(
    plan: Plan, tmp_path: Path
):
    one = published(plan, tmp_path / "one", right_but())
    settings = GateSettings(stop_when_sure=True)

    with pytest.raises(SettingsError, match="the turns of its conversations depend on each other"):
        Baseline.read(one, one.manifest, [], settings, ScoringOptions())
    with pytest.raises(SettingsError, match="cannot be asked again and again"):
        TuneJob(model="org/tiny", benchmarks=("gsm8k",)).key(plan)

from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace
from datetime import date
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from regrade.answers.rows import RowKey
from regrade.answers.spool import Spool
from regrade.engines.vllm import VllmEngine
from regrade.jobs.generate import Filling, Progress, fill, generate, session_of
from regrade.jobs.plan import Plan
from regrade.records import Completion, Request
from regrade.records.computed import Computed, LoadedWeights
from regrade.settings import GoodputLimits
from regrade.settings.errors import EngineError
from regrade.stats.speed import GoodputCount
from tests.sums import Answering, Sums, plan_of


@pytest.fixture
def spool(tmp_path: Path) -> Iterator[Spool]:
    with Spool(tmp_path / "spool") as spool:
        yield spool


def filled(
    spool: Spool, plan: Plan, engine: Answering | None = None, done: Collection[RowKey] = ()
) -> Progress:
    """Generate the rows of a plan that are not done."""
    requests = plan.requests(plan.missing({*done}))
    return generate(requests, engine or Answering(), spool, lambda _: None)


def test_progress_is_told_only_of_rows_that_are_on_disk(spool: Spool):
    plan = plan_of(6)
    seen: list[tuple[int, int]] = []
    generate(
        plan.requests(plan.missing(set())),
        Answering(),
        spool,
        lambda p: seen.append((p.done, len(spool.states().done))),
    )
    assert seen == [(2, 2), (4, 4), (6, 6)]


def test_only_what_is_missing_is_asked(spool: Spool):
    plan, engine = plan_of(5), Answering()
    progress = filled(spool, plan, engine, [("id-1", 0), ("id-3", 0)])

    assert [request.prompt[0]["content"][0] for request in engine.asked] == ["0", "2", "4"]
    assert (progress.done, progress.new, progress.resumed) == (5, 3, 2)


def test_rows_that_are_asked_later_are_not_part_of_the_progress(spool: Spool):
    plan = plan_of(5)
    requests = plan.requests(plan.missing({("id-0", 0)})[:3])
    requests.later = 1
    progress = generate(requests, Answering(), spool, lambda p: None)

    assert (progress.total, progress.new, progress.resumed) == (4, 3, 1)
    assert progress.finished


class Timed(Answering):
    """An engine whose answer `k` takes k tenths of a second; the first fails."""

    def generate(self, requests: Iterable[Request]) -> Iterator[list[Completion]]:
        for batch in super().generate(requests):
            yield [
                Completion(c.key, "sent", error="no")
                if c.key == 0
                else replace(c, time_to_first_token=c.key / 20, latency=c.key / 10)
                for c in batch
            ]


def test_goodput_counts_the_answers_of_a_session_and_failures_are_outside(spool: Spool):
    plan, count = plan_of(6), GoodputCount(GoodputLimits.model_validate("e2el=350ms"))

    requests = plan.requests(plan.missing(set()))
    fill([Filling(requests, spool, lambda _: None, count)], Timed())

    goodput = count.result(seconds=2.0)
    assert (goodput.answers, goodput.within, goodput.per_second) == (6, 3, 1.5)


class Losing(Answering):
    """Truncates, fails and ranks the first three requests; answer `k` has 2**k tokens."""

    ends = ({"finish_reason": "length"}, {"error": "no"}, {"finish_reason": "length"}, {})

    def generate(self, requests: Iterable[Request]) -> Iterator[list[Completion]]:
        for batch in super().generate(requests):
            for c in batch:
                ranked = (-1.0,) if c.key == 2 else None  # of one token, which is its whole answer
                answer = replace(c, completion_tokens=2**c.key, label_logprobs=ranked)
                yield [replace(answer, **self.ends[c.key])]


def test_tokens_of_truncated_and_failed_answers_are_lost(spool: Spool):
    progress = filled(spool, plan_of(4), Losing())

    assert (progress.completion_tokens, progress.lost_tokens) == (1 + 2 + 4 + 8, 1 + 2)


def test_an_engine_that_ends_early_is_an_error_and_what_it_gave_is_kept(spool: Spool):
    with pytest.raises(EngineError, match="2 of 5 requests unanswered"):
        filled(spool, plan_of(5), Answering(lose=2))
    assert len(spool.states().done) == 3


def test_an_answer_that_comes_twice_is_an_error(spool: Spool):
    with pytest.raises(EngineError, match="unknown or already answered"):
        filled(spool, plan_of(3), Answering(batch=1, repeat_one=True))


def test_withheld_questions_reach_no_spool(spool: Spool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Sums, "withheld", True)
    plan = plan_of(3)

    filled(spool, plan)

    (file,) = spool.seal()
    stored = pq.read_table(file.path)
    assert stored["prompt"].null_count == stored["question"].null_count == 3
    assert plan.description.withheld
    assert plan.withheld is not None
    assert plan.withheld.lacks(3) == 0


def test_time_left_is_unknown_before_the_first_answer():
    assert Progress(10).seconds_left is None


def test_a_session_records_no_path_of_an_adapter():
    session = session_of(Answering(), VllmEngine(lora="/home/me/secret", max_num_seqs=8))

    assert session.engine_settings["max_num_seqs"] == 8
    assert "secret" not in session.model_dump_json()


def test_a_session_records_the_weights_that_its_engine_had_and_what_it_computed():
    engine, weights = Answering(), LoadedWeights(files={"a": "0" * 64}, memory="1", replaced=True)
    computed = Computed(dtype="float32")
    engine.info = replace(engine.info, weights=weights, computed=computed)

    session = session_of(engine, VllmEngine())

    assert (session.weights, session.computed) == (weights, computed)


def test_a_session_records_the_day_that_its_prompts_print():
    day = date(2026, 3, 1)
    assert session_of(Answering(), VllmEngine(), day=day).prompt_day == day
    assert session_of(Answering(), VllmEngine()).prompt_day is None

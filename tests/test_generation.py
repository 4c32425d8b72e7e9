from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Self

import pyarrow.parquet as pq
import pytest

from regrade.answers.spool import Spool
from regrade.engines.base import EngineInfo
from regrade.engines.openai import OpenAIEngine
from regrade.engines.vllm import VllmEngine
from regrade.errors import EngineError, SettingsError
from regrade.generation import (
    Plan,
    Progress,
    generate,
    make_plan,
    request_seed,
    session_of,
)
from regrade.models import ResolvedModel
from regrade.records import Completion, Message, RankingRule, Request, Sample
from regrade.settings import (
    GoodputLimits,
    Method,
    PromptSettings,
    SamplingParams,
    SamplingSettings,
    ScorerName,
)
from regrade.specification import BenchmarkIdentity, PromptIdentity
from regrade.stats.speed import GoodputCount
from tests.builders import specification


class Sums:
    """A benchmark of `n` additions."""

    name = "sums"
    version = 1
    description = "adds"
    paper = ""
    method: Method = "generate"
    scorers: tuple[ScorerName, ...] = ("number",)
    groups: Mapping[str, tuple[str, ...]] = {}
    repeats = 1
    withheld = False
    sampling = SamplingParams(max_tokens=64, stop=("\n",))
    cuts_when_scored = False

    def __init__(self, n: int) -> None:
        self.n = n

    @property
    def identity(self) -> BenchmarkIdentity:
        return specification().benchmark

    @property
    def prompt_identity(self) -> PromptIdentity:
        return PromptIdentity(format="chat", template="{{ n }}", n_shots=0)

    def samples(self) -> Sequence[Sample]:
        return [Sample(f"id-{n}", n, str(2 * n), {"n": n}) for n in range(self.n)]

    def prompt(self, sample: Sample) -> tuple[Message, ...]:
        return (
            {"role": "user", "content": f"{sample.fields['n']} plus the same" + "!" * sample.index},
        )

    def labels(self, sample: Sample) -> tuple[str, ...]:
        return ()

    def ranking(self, sample: Sample) -> RankingRule:
        return "labels"

    def contexts(self, sample: Sample) -> tuple[str | tuple[Message, ...], ...]:
        return ()


class Answering:
    """An engine that answers in reverse order, `batch` at a time."""

    info = EngineInfo("vllm", "0", "cpu", "float32", 64, None, 0.0)

    def __init__(self, batch: int = 2, *, lose: int = 0, repeat_one: bool = False) -> None:
        self.batch, self.lose, self.repeat_one = batch, lose, repeat_one
        self.asked: list[Request] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        return None

    def generate(self, requests: Iterable[Request]) -> Iterator[list[Completion]]:
        self.asked = list(requests)
        done = [Completion(r.key, "sent", text=str(r.key), completion_tokens=3) for r in self.asked]
        done = done[::-1][: len(done) - self.lose]
        if self.repeat_one:
            done.append(done[0])
        for start in range(0, len(done), self.batch):
            yield done[start : start + self.batch]


MODEL = ResolvedModel(
    identity=specification().model,
    path="org/tiny",
    revision="a" * 40,
    answers_chats=True,
    max_position_embeddings=64,
)

SERVER = OpenAIEngine()  # has no identity of its own


def plan_of(n: int, *, repeats: int | None = 1, sampling: SamplingSettings | None = None) -> Plan:
    return make_plan(
        Sums(n), MODEL, SERVER, sampling=sampling, prompt=PromptSettings(), repeats=repeats
    )


@pytest.fixture
def spool(tmp_path: Path) -> Iterator[Spool]:
    with Spool(tmp_path / "spool") as spool:
        yield spool


def test_every_sample_gets_exactly_one_row(spool: Spool):
    plan = plan_of(7)
    generate(plan.requests(plan.missing(set())), Answering(), spool, lambda progress: None)

    (file,) = spool.seal()
    assert file.rows == 7
    assert spool.states().done == {(f"id-{n}", 0) for n in range(7)}


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
    progress = generate(
        plan.requests(plan.missing({("id-1", 0), ("id-3", 0)})), engine, spool, lambda p: None
    )

    assert [request.prompt[0]["content"][0] for request in engine.asked] == ["0", "2", "4"]
    assert (progress.done, progress.new, progress.resumed) == (5, 3, 2)


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
    plan, count = plan_of(6), GoodputCount(GoodputLimits(e2el=0.35))

    generate(plan.requests(plan.missing(set())), Timed(), spool, lambda p: None, count)

    goodput = count.result(seconds=2.0)
    assert (goodput.answers, goodput.within, goodput.per_second) == (6, 3, 1.5)


def test_an_engine_that_ends_early_is_an_error_and_what_it_gave_is_kept(spool: Spool):
    plan = plan_of(5)
    with pytest.raises(EngineError, match="2 of 5 requests unanswered"):
        generate(plan.requests(plan.missing(set())), Answering(lose=2), spool, lambda p: None)
    assert len(spool.states().done) == 3


def test_an_answer_that_comes_twice_is_an_error(spool: Spool):
    plan = plan_of(3)
    with pytest.raises(EngineError, match="unknown or already answered"):
        generate(
            plan.requests(plan.missing(set())),
            Answering(batch=1, repeat_one=True),
            spool,
            lambda p: None,
        )


def test_what_is_set_by_hand_replaces_the_benchmarks_own_sampling_params():
    assert plan_of(1).specification.sampling == SamplingParams(max_tokens=64, stop=("\n",))
    chosen = plan_of(1, sampling=SamplingSettings(temperature=0.6)).specification.sampling
    assert chosen == SamplingParams(temperature=0.6, max_tokens=64, stop=("\n",))


def test_repeats_draw_from_different_seeds_and_the_same_ones_each_time():
    hot = SamplingSettings(temperature=1.0)
    plan = plan_of(2, repeats=3, sampling=hot)
    seeds = [request.sampling.seed for request in plan.requests(plan.missing(set()))]
    again = [request.sampling.seed for request in plan.requests(plan.missing(set()))]

    assert len(set(seeds)) == 6
    assert seeds == again
    assert request_seed(0, "id-0", 0) == seeds[0]
    assert all(0 <= seed < 2**31 for seed in seeds)


def test_the_number_of_answers_is_the_benchmarks_unless_it_is_set_or_decoding_is_greedy(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Sums, "repeats", 16)
    warm, cold = SamplingSettings(temperature=0.7), SamplingSettings(temperature=0.0)

    assert plan_of(2, repeats=None, sampling=warm).specification.repeats == 16
    assert plan_of(2, repeats=3, sampling=warm).specification.repeats == 3
    assert plan_of(2, repeats=None, sampling=cold).specification.repeats == 1


def test_withheld_questions_reach_no_spool(spool: Spool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Sums, "withheld", True)
    plan = plan_of(3)

    generate(plan.requests(plan.missing(set())), Answering(), spool, lambda progress: None)

    (file,) = spool.seal()
    stored = pq.read_table(file.path)
    assert stored["prompt"].null_count == stored["question"].null_count == 3
    assert plan.description.withheld
    assert plan.withheld is not None
    assert plan.withheld.lacks(3) == 0


def test_repeats_with_greedy_decoding_are_refused():
    with pytest.raises(SettingsError, match="Set `--temperature` above 0"):
        plan_of(2, repeats=3)


def test_repeats_are_rendered_once():
    plan = plan_of(3, repeats=4, sampling=SamplingSettings(temperature=1.0))
    rendered = []
    prompt = plan.benchmark.prompt
    plan.benchmark.prompt = lambda sample: rendered.append(sample.id) or prompt(sample)

    requests = [*plan.requests(plan.missing(set()))]

    assert rendered == ["id-0", "id-1", "id-2"]
    assert [request.key for request in requests] == [*range(12)]
    assert requests[4].prompt == requests[7].prompt == prompt(plan.samples[1])


def test_a_chat_prompt_needs_a_chat_template():
    model = ResolvedModel(MODEL.identity, "org/tiny", None, False, 64)
    with pytest.raises(SettingsError, match="has no chat template.*--format completion"):
        make_plan(Sums(1), model, SERVER, sampling=None, prompt=PromptSettings(), repeats=1)


def test_a_limit_above_the_number_of_questions_is_no_limit():
    class Limited(Sums):
        @property
        def identity(self) -> BenchmarkIdentity:
            return specification().benchmark.model_copy(update={"limit": 10})

    def planned(n: int) -> int | None:
        plan = make_plan(
            Limited(n), MODEL, SERVER, sampling=None, prompt=PromptSettings(), repeats=1
        )
        return plan.specification.benchmark.limit

    assert planned(9) is None
    assert planned(10) == 10


def test_cutting_prompts_is_part_of_the_specification():
    cut = make_plan(
        Sums(1), MODEL, SERVER, sampling=None, prompt=PromptSettings(truncate=True), repeats=1
    )
    assert cut.specification.answer_set_id != plan_of(1).specification.answer_set_id


def test_time_left_is_unknown_before_the_first_answer():
    assert Progress(10).seconds_left is None


def test_a_session_records_no_path_of_an_adapter():
    session = session_of(Answering(), VllmEngine(lora="/home/me/secret", max_num_seqs=8))

    assert session.engine_settings["max_num_seqs"] == 8
    assert "secret" not in session.model_dump_json()

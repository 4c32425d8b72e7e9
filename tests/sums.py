"""A benchmark of additions, and an engine that answers without a model."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Self

from regrade.engines.base import EngineInfo
from regrade.engines.openai import OpenAIEngine
from regrade.jobs.plan import Plan, make_plan
from regrade.models.base import ResolvedModel
from regrade.records import Completion, Message, RankingRule, Request, Sample
from regrade.records.images import read_image
from regrade.records.specification import BenchmarkIdentity, PromptIdentity
from regrade.settings import Method, PromptSettings, SamplingParams, SamplingSettings, ScorerName
from tests.builders import specification
from tests.pictures import file_of


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
    images_stay = False
    cuts_when_scored = False
    cut = None
    long_thoughts = False

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


class Seen(Sums):
    """Questions that show an image after their text."""

    def samples(self) -> list[Sample]:
        return [
            replace(sample, images=(read_image(file_of("PNG")),)) for sample in super().samples()
        ]

    def prompt(self, sample: Sample) -> tuple[Message, ...]:
        return ({"role": "user", "content": f"What is it?{sample.images[0].mark}"},)


class Answering:
    """An engine that answers in reverse order, `batch` at a time."""

    info = EngineInfo("vllm", "0", "cpu", "float32", 64, None, 0.0)

    def __init__(self, batch: int = 2, *, lose: int = 0, repeat_one: bool = False) -> None:
        self.batch, self.lose, self.repeat_one = batch, lose, repeat_one
        self.asked: list[Request] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
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

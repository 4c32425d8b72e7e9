"""The plan of an answer set: its specification, its rows, and their requests."""

import hashlib
from bisect import bisect_right
from collections import deque
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from itertools import accumulate, zip_longest
from typing import Any, Protocol

from regrade.answers.manifest import ImagesKept, Session
from regrade.answers.origin import SetDescription
from regrade.answers.rows import RowKey
from regrade.answers.withheld import WithheldQuestions
from regrade.benchmarks.base import Benchmark
from regrade.benchmarks.questions.prompting import read_chat_template
from regrade.engines.base import BaseEngineSettings, PromptRendering
from regrade.jobs.question_settings import question_settings
from regrade.jobs.turns import Before, conversation, row_question, turns_until
from regrade.models.base import ResolvedModel
from regrade.records import Completion, Message, Request, Sample
from regrade.records.images import Image
from regrade.records.specification import (
    PromptIdentity,
    Specification,
    effective_sampling,
    version_1_folder,
)
from regrade.settings import PromptSettings, SamplingParams, SamplingSettings
from regrade.settings.errors import SettingsError


class Ordered(Protocol):
    """Something that decides in which order questions are asked."""

    def order(self, questions: int) -> list[int]:
        """Return the positions of all questions in the order in which they are asked."""


@dataclass(frozen=True, slots=True)
class Plan:
    """An answer set to generate."""

    benchmark: Benchmark
    model: ResolvedModel
    specification: Specification
    samples: Sequence[Sample]
    earlier: tuple[Specification, ...] = ()
    """Specifications of such answers by the rules of earlier versions that have other ids; later rules first."""
    version_1: str = ""
    """Folder of the same answers in version 1 of the format, which are not continued."""
    prints_the_day: bool = False
    """The chat template can print today's date, which is that of the first session."""
    reasons: bool = False
    """The model is expected to reason before its answers."""

    @property
    def description(self) -> SetDescription:
        """Specification of the answer set, part of its manifest."""
        return SetDescription(
            specification=self.specification,
            n_samples=len(self.samples),
            scorers=self.benchmark.scorers,
            groups=dict(self.benchmark.groups),
            withheld=self.benchmark.withheld,
            images=self._images_kept,
        )

    @property
    def _images_kept(self) -> ImagesKept | None:
        if not any(sample.images for sample in self.samples):
            return None
        return "source" if self.benchmark.withheld or self.benchmark.images_stay else "stored"

    def images(self) -> Iterator[Image]:
        """Yield the images of all questions, each once; none if they must not be copied."""
        if self._images_kept == "stored":
            shown = {image.sha256: image for sample in self.samples for image in sample.images}
            yield from shown.values()

    @property
    def withheld(self) -> WithheldQuestions | None:
        """Local file of the questions, if they must not be published."""
        if not self.benchmark.withheld:
            return None
        return WithheldQuestions(self.specification.answer_set_id)

    @property
    def rows(self) -> int:
        """Number of rows of the complete answer set."""
        return len(self.samples) * self.specification.repeats

    def missing(
        self, done: set[RowKey], ordered: "Ordered | None" = None
    ) -> list[tuple[Sample, int]]:
        """Return the pairs of sample and repeat that are not in `done`, ordered by sample, or in an order of the samples."""
        repeats = range(self.specification.repeats)
        samples = self.samples
        if ordered is not None:
            questions = self._questions
            samples = [turn for place in ordered.order(len(questions)) for turn in questions[place]]
        return [
            (s.of_repeat(repeat), repeat)
            for s in samples
            for repeat in repeats
            if (s.id, repeat) not in done
        ]

    @property
    def converses(self) -> bool:
        """True if questions are conversations, whose turns are asked one after the other."""
        return any(sample.previous is not None for sample in self.samples)

    @property
    def _questions(self) -> list[list[Sample]]:
        """The samples of each question: the turns of a conversation, else one."""
        questions: list[list[Sample]] = []
        for sample in self.samples:
            if sample.previous is None:
                questions.append([])
            questions[-1].append(sample)
        return questions

    def requests(
        self,
        missing: Sequence[tuple[Sample, int]],
        sessions: Sequence[Session] = (),
        before: Mapping[RowKey, Before] | None = None,
    ) -> "PlannedRequests":
        """Return the requests of rows.

        Args:
            missing: Pairs of sample and repeat.
            sessions: Earlier sessions of the answer set, whose prompts print the same day.
            before: Stored answers before those turns whose turn before is not missing.
        """
        day = None
        if self.prints_the_day:
            days = [s.prompt_day or s.started_at.astimezone().date() for s in sessions]
            day = days[0] if days else datetime.now().astimezone().date()
        return PlannedRequests(self, missing, day, before or {})


@dataclass(slots=True, eq=False)
class PlannedRequests:
    """Requests of rows of an answer set, rendered while iterating; a request's key is the position of its row.

    Rows whose question cannot be asked have no request. Requests of the same rows are equal, whatever the model.
    Rows that another machine published meanwhile can be withdrawn; see `regrade.engines.base.Withdrawable`. The next turn of a
    conversation becomes ready with the answer before it; see `regrade.engines.base.Growing`.
    """

    plan: Plan
    rows: Sequence[tuple[Sample, int]]
    """Pairs of sample and repeat."""
    day: date | None = None
    """Day that the chat template prints as today; None if it prints none, or only a server knows it."""
    before: Mapping[RowKey, Before] = field(default_factory=dict)
    """Stored answers before those turns whose turn before is not among the rows."""
    withdrawn: frozenset[int] = frozenset()
    """Keys of requests that need no answer any more. It grows, and is replaced as a whole: engines read it in other threads."""
    stopped: bool = False
    """The rows without an answer are left out, although nobody has answered them."""
    later: int = 0
    """Missing rows that are not among these, and are asked after them."""
    _told: dict[int, Before] = field(default_factory=dict, init=False)
    """Earlier turns of each turn, by key, as far as they are known."""
    _next: dict[int, int] = field(default_factory=dict, init=False)
    """Key of the turn that follows another, by its key."""
    _ready: deque[int] = field(default_factory=deque, init=False)

    def __post_init__(self) -> None:
        turns = [(key, s, r) for key, (s, r) in enumerate(self.rows) if s.previous is not None]
        if not turns:
            return
        keys = {(sample.id, repeat): key for key, (sample, repeat) in enumerate(self.rows)}
        for key, sample, repeat in turns:
            if (known := self.before.get((sample.id, repeat))) is not None:
                self._told[key] = known
            elif sample.previous is not None:
                self._next[keys[sample.previous.id, repeat]] = key

    def answered(self, key: int, row: Mapping[str, Any]) -> Completion | None:
        """Go on with a conversation whose turn has a row: the next turn becomes ready.

        Returns:
            The result of the next turn if it cannot be asked; None if it can, or there is none.
        """
        following = self._next.get(key)
        if following is None:
            return None
        self._told[following] = before = self._told.get(key, Before()).after(row)
        if before.error is None:
            self._ready.append(following)
        return unasked(following, before)

    def unasked(self) -> Iterator[tuple[int, Completion]]:
        """Yield the results of rows that cannot be asked, except of turns whose turn before has no row yet."""
        for key, (sample, repeat) in enumerate(self.rows):
            if sample.error is not None:
                yield key, Completion(key, "", error=sample.error, error_permanent=True)
            elif (completion := unasked(key, self._before(sample, repeat))) is not None:
                yield key, completion

    def ready(self, count: int) -> list[Request]:
        """Return the next turns that became ready, at most `count`; see `Growing`."""
        found: list[Request] = []
        while self._ready and len(found) < count:
            key = self._ready.popleft()
            if key not in self.withdrawn:
                found.append(self._request(key, self._told[key].answers))
        return found

    def stop(self) -> None:
        """Withdraw all requests; those without an answer are left out."""
        self.stopped = True
        self.withdrawn = frozenset(range(len(self.rows)))

    def __eq__(self, other: object) -> bool:
        if self is other or not isinstance(other, PlannedRequests):
            return self is other
        return (
            self._asked == other._asked and self.rows == other.rows and self.before == other.before
        )

    def __hash__(self) -> int:
        return hash(len(self.rows))

    @property
    def _asked(self) -> tuple[object, ...]:
        """Everything that decides the requests of given rows."""
        plan, known = self.plan, self.plan.specification
        question = (known.benchmark, known.prompt, known.method, known.sampling)
        return *question, plan.reasons, self.day

    def asks_as(self, other: "PlannedRequests") -> bool:
        """Return True if the requests of a row would be equal."""
        return self._asked == other._asked

    def is_part_of(self, other: "PlannedRequests") -> bool:
        """Return True if the requests are among those of another."""
        if self.before or not self.asks_as(
            other
        ):  # answers of one model are no other model's prompt
            return False
        return {(sample.id, repeat) for sample, repeat in self.rows} <= {
            (sample.id, repeat) for sample, repeat in other.rows
        }

    @property
    def shows_images(self) -> bool:
        """True if a request may show an image; see `Illustrated`."""
        return any(sample.images for sample, _ in self.rows)

    def withdraw(self, published: Collection[RowKey]) -> None:
        """Withdraw the requests whose rows are published, and the other turns of their conversations: one machine asks them all."""
        keys = [(sample.id, repeat) for sample, repeat in self.rows]
        if not self._told and not self._next:
            self.withdrawn |= {key for key, row in enumerate(keys) if row in published}
            return
        begun = {row_question(row) for row in keys if row in published}
        self.withdrawn |= {key for key, row in enumerate(keys) if row_question(row) in begun}

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[Request]:
        rendered: tuple[Sample, Request] | None = None
        later = self._later()
        for key, (sample, repeat) in enumerate(self.rows):
            if key in self.withdrawn or sample.error is not None:
                continue
            before = self._before(sample, repeat)
            if before.error is not None or len(before.answers) < len(turns_until(sample)) - 1:
                continue
            if rendered is not None and sample is rendered[0] and not before.answers:
                params = self._sampling(sample, repeat)  # repeats have the same prompt
                request = replace(rendered[1], key=key, sampling=params)
            else:
                request = self._request(key, before.answers)
                if sample.id in later:
                    request = replace(request, later=later[sample.id])
            rendered = sample, request
            yield request

    def _before(self, sample: Sample, repeat: int) -> Before:
        return self.before.get((sample.id, repeat), _NOTHING)

    def _later(self) -> dict[str, tuple[str, ...]]:
        """Return the user's turns that follow each turn of the conversations, by its sample id."""
        later: dict[str, tuple[str, ...]] = {}
        for sample in reversed(self.plan.samples if self._told or self._next else ()):
            if sample.previous is not None:
                turn = self.plan.benchmark.prompt(sample)
                text = "\n\n".join(
                    part if isinstance(part, str) else part["content"] for part in turn
                )
                later[sample.previous.id] = (text, *later.get(sample.id, ()))
        return later

    def _sampling(self, sample: Sample, repeat: int) -> SamplingParams:
        specification = self.plan.specification
        sampling = specification.sampling
        if sampling is None:
            raise SettingsError(
                f"Answer set '{specification.answer_set_id}' was imported without sampling parameters, so no answers "
                "can be added. Generate a new answer set instead."
            )
        if sampling.temperature == 0:  # greedy decoding needs no seed
            return sampling
        seed = request_seed(sampling.seed, sample.id, repeat)
        return sampling.model_copy(update={"seed": seed})

    def _request(self, key: int, answers: Sequence[str] = ()) -> Request:
        """Return the request of a row; of a later turn with the answers before it."""
        specification, benchmark = self.plan.specification, self.plan.benchmark
        sample, repeat = self.rows[key]
        first, *turns = turns_until(sample)
        prompt = prompt_of(benchmark, first, specification.prompt.prefill)
        if turns and not isinstance(prompt, str):
            users = (
                turn for turn in map(benchmark.prompt, turns) if not isinstance(turn, str)
            )  # of a chat, always
            prompt = conversation(prompt, answers, users)
        labels = benchmark.labels(sample)
        return Request(
            key,
            prompt,
            self._sampling(sample, repeat),
            labels,
            benchmark.ranking(sample) if labels else "labels",
            benchmark.contexts(sample),
            specification.prompt.chat_template_args,
            self.day,
            sample.structure,
            self.plan.reasons,
            sample.stored,
            specification.prompt.cut == "middle",
            sample.images,
            sample.tools,
        )


_NOTHING = Before()


def unasked(key: int, before: Before) -> Completion | None:
    """Return the result of a turn that cannot be asked; None if it can."""
    if before.error is None:
        return None
    return Completion(key, "", error=before.error, error_permanent=before.permanent)


@dataclass(slots=True)
class PooledRequests:
    """Requests of several answer sets as one stream: all of one set, then all of the next, so that neighbours stay neighbours.

    A key is the position of the row among the rows of all sets. Pools of the same requests are equal.
    """

    parts: tuple[PlannedRequests, ...]
    _starts: list[int] = field(init=False, compare=False)
    _seen: tuple[frozenset[int], ...] = field(default=(), init=False, compare=False)
    _withdrawn: frozenset[int] = field(default=frozenset(), init=False, compare=False)

    def __post_init__(self) -> None:
        self._starts = [*accumulate(map(len, self.parts), initial=0)]

    def __len__(self) -> int:
        return self._starts[-1]

    def __iter__(self) -> Iterator[Request]:
        for start, part in zip(self._starts, self.parts, strict=False):
            for request in part:
                yield replace(request, key=start + request.key) if start else request

    @property
    def shows_images(self) -> bool:
        """True if a request may show an image; see `Illustrated`."""
        return any(part.shows_images for part in self.parts)

    def ready(self, count: int) -> list[Request]:
        """Return the next turns that became ready, at most `count`; see `Growing`."""
        found: list[Request] = []
        for start, part in zip(self._starts, self.parts, strict=False):
            grown = part.ready(count - len(found))
            found += [replace(request, key=start + request.key) for request in grown]
        return found

    def place(self, key: int) -> tuple[int, int] | None:
        """Return the number of the part to which a request belongs, and its key there; None if there is no such request."""
        if not 0 <= key < len(self):
            return None
        part = bisect_right(self._starts, key) - 1
        return part, key - self._starts[part]

    @property
    def withdrawn(self) -> frozenset[int]:
        """Keys of requests that need no answer any more; see `PlannedRequests.withdrawn`."""
        seen = tuple(part.withdrawn for part in self.parts)
        if any(now is not before for now, before in zip_longest(seen, self._seen)):
            keys = (
                start + key for start, part in zip(self._starts, seen, strict=False) for key in part
            )
            self._seen, self._withdrawn = seen, frozenset(keys)
        return self._withdrawn


def make_plan(
    benchmark: Benchmark,
    model: ResolvedModel,
    engine: BaseEngineSettings,
    *,
    sampling: SamplingSettings | None,
    prompt: PromptSettings,
    repeats: int | None,
    repeats_greedy: bool = False,
) -> Plan:
    """Return the plan for a model and a benchmark.

    Args:
        benchmark: The benchmark, opened with `prompt` and the limit.
        model: The model that answers.
        engine: Settings of the engine that runs it.
        sampling: Fields that are set replace the defaults; see `choose_sampling`. None: nothing is set.
        prompt: Settings that turn questions into prompts.
        repeats: Answers per question. None: the benchmark's number; 1 with greedy decoding.
        repeats_greedy: Several answers to a question make sense with greedy decoding, too.

    Raises:
        SettingsError: If `repeats` exceeds 1 with greedy decoding, a chat benchmark meets a model without chat template,
            or the model cannot be asked as the settings say.
        SourceError: If the benchmark's data cannot be read.
    """
    asked = question_settings(
        benchmark,
        model,
        sampling=sampling,
        prompt=prompt,
        repeats=repeats,
        repeats_greedy=repeats_greedy,
    )
    # A server's prompts cannot be cut: it rejects those that are too long.
    cut = None if model.identity.kind == "served" else benchmark.cut
    truncate = prompt.truncate or cut is not None
    prompt_identity = benchmark.prompt_identity.model_copy(
        update={"truncate": truncate, "cut": cut or "start"}
    )
    if prompt_identity.format == "chat":
        changes: dict[str, Any] = {"chat_template_args": dict(asked.reasoning.arguments)}
        if _begins_turn(benchmark, model):
            changes["labels"] = "turn"
        prompt_identity = prompt_identity.model_copy(update=changes)
    if prompt_identity.prompts != prompt.prompts:
        raise SettingsError(
            f"Benchmark '{benchmark.name}' has the prompts of its own task or template, not those of {prompt.prompts}. Leave out "
            "`prompt.prompts`."
        )
    samples = benchmark.samples()
    if prompt.prefill is not None:
        _check_prefill(benchmark, samples[0])
        prompt_identity = prompt_identity.model_copy(update={"prefill": prompt.prefill})
    if model.identity.kind == "served":
        _check_server(benchmark, samples[0], prompt.prefill)
    if any(sample.previous is not None for sample in samples):
        _check_turns(benchmark, prompt_identity)
    identity = benchmark.identity
    questions = sum(sample.previous is None for sample in samples)
    if identity.limit is not None and questions < identity.limit:
        identity = identity.model_copy(update={"limit": None})  # the limit has no effect
    specification = Specification(
        model=model.identity,
        benchmark=identity,
        prompt=prompt_identity,
        method=benchmark.method,
        sampling=effective_sampling(asked.sampling, benchmark.method),
        repeats=asked.repeats,
        engine=engine.identity(model, truncate=truncate),
    )

    def as_before(known: Specification) -> Specification:
        if model.earlier_revision is None:
            return known
        identity = known.model.model_copy(update={"revision": model.earlier_revision})
        return known.model_copy(update={"model": identity})

    sampled, repeated = asked.earlier
    changes = {"sampling": effective_sampling(sampled, benchmark.method), "repeats": repeated}
    by_rules = [specification, specification.model_copy(update=changes)]
    spelled = [engine.earlier(known, model, truncate=truncate) for known in by_rules]
    before = map(as_before, (specification, spelled[0], by_rules[1], spelled[1]))
    earlier = {known.answer_set_id: known for known in before}
    earlier.pop(specification.answer_set_id, None)
    if model.earlier_revision is not None and any(sample.images for sample in samples):
        earlier = {}  # they may be of another processor
    return Plan(
        benchmark,
        model,
        specification,
        samples,
        earlier=tuple(earlier.values()),
        version_1=version_1_folder(as_before(spelled[1]), sampled),
        prints_the_day=asked.reasoning.prints_the_day,
        reasons=bool(asked.reasoning.expected),
    )


def _check_turns(benchmark: Benchmark, prompt: PromptIdentity) -> None:
    """Refuse settings that the turns of a conversation cannot have.

    Raises:
        SettingsError: If prompts are no chats, or begin the model's answers.
    """
    wrong = {"format": prompt.format != "chat", "prefill": prompt.prefill}
    for name, is_wrong in wrong.items():
        if is_wrong:
            raise SettingsError(
                f"Benchmark '{benchmark.name}' asks conversations, turn after turn in a chat, which `prompt.{name}` does not allow. Leave it "
                "out."
            )


def prompt_of(
    benchmark: Benchmark, sample: Sample, prefill: str | None
) -> str | tuple[Message, ...]:
    """Return the prompt of a question, with the beginning of the model's turn if there is one."""
    prompt = benchmark.prompt(sample)
    if prefill is None or isinstance(prompt, str):
        return prompt
    return (*prompt, {"role": "assistant", "content": prefill})


def _check_prefill(benchmark: Benchmark, sample: Sample) -> None:
    """Refuse to begin answers that are no chats, are ranked, or are begun by the benchmark.

    Raises:
        SettingsError: If the benchmark is one of these.
    """
    prompt = benchmark.prompt(sample)
    if benchmark.method == "rank" or isinstance(prompt, str) or prompt[-1]["role"] == "assistant":
        raise SettingsError(
            f"Benchmark '{benchmark.name}' has no answers that `prompt.prefill` could begin: they should be generated in a chat "
            "(`prompt.format=chat`) that ends with the user's turn. Leave it out."
        )


def _check_server(benchmark: Benchmark, sample: Sample, prefill: str | None) -> None:
    """Refuse requests that servers do not accept.

    Raises:
        SettingsError: If continuations are ranked by another rule than labels, or prompts begin the model's answer.
    """
    if benchmark.method == "rank" and benchmark.ranking(sample) != "labels":
        raise SettingsError(
            f"Benchmark '{benchmark.name}' ranks continuations as lm-evaluation-harness does, which servers do not. Use vLLM on "
            "this machine (`engine=vllm`)."
        )
    prompt = prompt_of(benchmark, sample, prefill)
    if not isinstance(prompt, str) and prompt[-1]["role"] == "assistant":
        who = f"Benchmark '{benchmark.name}'" if prefill is None else "`prompt.prefill`"
        raise SettingsError(
            f"{who} begins the model's answers in chats, which servers do not continue. Use vLLM on this "
            "machine (`engine=vllm`), or `prompt.format=completion`."
        )


def _begins_turn(benchmark: Benchmark, model: ResolvedModel) -> bool:
    """Return True if labels stand where the model's turn begins, as its template writes it."""
    if benchmark.method != "rank" or model.identity.kind == "served":
        return False
    return benchmark.ranking(benchmark.samples()[0]) == "labels"


def prompt_rendering(prompt: PromptSettings) -> PromptRendering:
    """Return the chat template and its options for the engine.

    Raises:
        SettingsError: If the chat template cannot be read.
    """
    return PromptRendering(
        chat_template=read_chat_template(prompt.chat_template), truncate=prompt.truncate
    )


def request_seed(seed: int, sample_id: str, repeat: int) -> int:
    """Return the seed of a request, in [0, 2**31); it does not depend on the other requests of the run."""
    text = f"{seed}/{sample_id}/{repeat}".encode()
    return int.from_bytes(hashlib.blake2b(text, digest_size=4).digest()) >> 1

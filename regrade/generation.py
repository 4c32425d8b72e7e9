"""Plan answer sets, find their missing rows, and generate these into the spool."""

import hashlib
import logging
import secrets
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime
from itertools import chain
from time import monotonic
from typing import Any

from regrade import __version__
from regrade.answers.manifest import Session
from regrade.answers.origin import SetDescription
from regrade.answers.rows import RowKey
from regrade.answers.spool import Spool
from regrade.answers.withheld import WithheldQuestions
from regrade.asking import asked_as
from regrade.benchmarks.base import Benchmark
from regrade.benchmarks.questions.prompting import read_chat_template
from regrade.engines.base import BaseEngineSettings, Engine, LimitedEngine, PromptRendering
from regrade.errors import EngineError, SettingsError
from regrade.models import ResolvedModel
from regrade.records import Completion, Request, Sample, generation_row
from regrade.settings import PromptSettings, SamplingSettings
from regrade.shares import Share
from regrade.specification import Specification, effective_sampling, version_1
from regrade.stats.speed import GoodputCount

logger = logging.getLogger("regrade.generate")


@dataclass(frozen=True, slots=True)
class Plan:
    """An answer set to generate."""

    benchmark: Benchmark
    model: ResolvedModel
    specification: Specification
    samples: Sequence[Sample]
    version_1: Specification | None = None
    """Specification of the same answers in version 1 of the format; None if that had none."""
    prints_the_day: bool = False
    """The chat template can print today's date, which is that of the first session."""
    reasons: bool = False
    """The model is expected to reason before its answers."""

    @property
    def description(self) -> SetDescription:
        """The answer set as the manifest will describe it."""
        return SetDescription(
            specification=self.specification,
            n_samples=len(self.samples),
            scorers=self.benchmark.scorers,
            groups=dict(self.benchmark.groups),
            withheld=self.benchmark.withheld,
        )

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

    def missing(self, done: set[RowKey], share: Share | None = None) -> list[tuple[Sample, int]]:
        """Return the pairs of sample and repeat that are not in `done`, ordered by sample, or as a share begins."""
        repeats = range(self.specification.repeats)
        samples = self.samples
        if share is not None:
            samples = [self.samples[position] for position in share.order(len(self.samples))]
        return [
            (s.of_repeat(repeat), repeat)
            for s in samples
            for repeat in repeats
            if (s.id, repeat) not in done
        ]

    def requests(
        self, missing: Sequence[tuple[Sample, int]], sessions: Sequence[Session] = ()
    ) -> "PlannedRequests":
        """Return the requests of rows.

        Args:
            missing: Pairs of sample and repeat.
            sessions: Earlier sessions of the answer set, whose prompts print the same day.
        """
        day = None
        if self.prints_the_day:
            days = [s.prompt_day or s.started_at.astimezone().date() for s in sessions]
            day = days[0] if days else datetime.now().astimezone().date()
        return PlannedRequests(self, missing, day)


@dataclass(slots=True, eq=False)
class PlannedRequests:
    """Requests of rows of an answer set, rendered while iterating; a request's key is the position of its row.

    Rows whose question cannot be asked have no request.
    Rows that another machine published meanwhile can be withdrawn; see `regrade.engines.base.Withdrawable`.
    """

    plan: Plan
    rows: Sequence[tuple[Sample, int]]
    """Pairs of sample and repeat."""
    day: date | None = None
    """Day that the chat template prints as today; None if it prints none, or only a server knows."""
    withdrawn: frozenset[int] = frozenset()
    """Keys of requests that need no answer any more. It grows, and is replaced as a whole: engines read it in other threads."""

    def withdraw(self, published: Collection[RowKey]) -> None:
        """Withdraw the requests whose rows are published."""
        self.withdrawn |= {
            key
            for key, (sample, repeat) in enumerate(self.rows)
            if (sample.id, repeat) in published
        }

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[Request]:
        specification, benchmark = self.plan.specification, self.plan.benchmark
        sampling = specification.sampling
        if sampling is None:
            raise SettingsError(
                f"Answer set '{specification.answer_set_id}' was imported without sampling parameters, so no answers "
                "can be added. Generate a new answer set instead."
            )
        template_arguments = specification.prompt.chat_template_args
        rendered: tuple[Sample, Request] | None = None
        for key, (sample, repeat) in enumerate(self.rows):
            if key in self.withdrawn or sample.error is not None:
                continue
            params = sampling
            if sampling.temperature > 0:  # greedy decoding needs no seed
                seed = request_seed(sampling.seed, sample.id, repeat)
                params = sampling.model_copy(update={"seed": seed})
            if rendered is not None and sample is rendered[0]:  # repeats have the same prompt
                request = replace(rendered[1], key=key, sampling=params)
            else:
                prompt, labels = benchmark.prompt(sample), benchmark.labels(sample)
                request = Request(
                    key,
                    prompt,
                    params,
                    labels,
                    benchmark.ranking(sample) if labels else "labels",
                    benchmark.contexts(sample),
                    template_arguments,
                    self.day,
                    sample.structure,
                    self.plan.reasons,
                )
            rendered = sample, request
            yield request


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
    asked = asked_as(
        benchmark,
        model,
        sampling=sampling,
        prompt=prompt,
        repeats=repeats,
        repeats_greedy=repeats_greedy,
    )
    prompt_identity = benchmark.prompt_identity.model_copy(update={"truncate": prompt.truncate})
    if prompt_identity.format == "chat":
        changes: dict[str, Any] = {"chat_template_args": dict(asked.reasoning.arguments)}
        if _begins_turn(benchmark, model):
            changes["labels"] = "turn"
        prompt_identity = prompt_identity.model_copy(update=changes)
    samples = benchmark.samples()
    if model.identity.kind == "served":
        _check_server(benchmark, samples[0])
    identity = benchmark.identity
    if identity.limit is not None and len(samples) < identity.limit:
        identity = identity.model_copy(update={"limit": None})  # the limit leaves out nothing
    specification = Specification(
        model=model.identity,
        benchmark=identity,
        prompt=prompt_identity,
        method=benchmark.method,
        sampling=effective_sampling(asked.sampling, benchmark.method),
        repeats=asked.repeats,
        engine=engine.identity(model, truncate=prompt.truncate),
    )
    return Plan(
        benchmark,
        model,
        specification,
        samples,
        version_1(specification, asked.sampling),
        prints_the_day=asked.reasoning.prints_the_day,
        reasons=bool(asked.reasoning.expected),
    )


def _check_server(benchmark: Benchmark, sample: Sample) -> None:
    """Refuse requests that servers do not take.

    Raises:
        SettingsError: If continuations are ranked by another rule than labels, or prompts begin the model's answer.
    """
    if benchmark.method == "rank" and benchmark.ranking(sample) != "labels":
        raise SettingsError(
            f"Benchmark '{benchmark.name}' ranks continuations as lm-evaluation-harness does, which servers do not. Use vLLM on "
            "this machine (`--engine vllm`)."
        )
    prompt = benchmark.prompt(sample)
    if not isinstance(prompt, str) and prompt[-1]["role"] == "assistant":
        raise SettingsError(
            f"Benchmark '{benchmark.name}' begins the model's answers in chats, which servers do not continue. Use vLLM on this "
            "machine (`--engine vllm`), or `--format completion`."
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


@dataclass
class Progress:
    """Progress of generating an answer set; all counts are rows or tokens."""

    total: int
    done: int = 0
    resumed: int = 0
    """Rows from earlier sessions."""
    elsewhere: int = 0
    """Rows that other machines published meanwhile."""
    prompt_tokens: int = 0
    completion_tokens: int = 0
    failed: int = 0
    """Rows of this session whose request failed and may succeed if it is sent again."""
    refused: int = 0
    """Rows of this session whose request cannot succeed."""
    started: float = field(default_factory=monotonic)
    finished: float | None = None

    @property
    def seconds(self) -> float:
        """Seconds from the first request until the last row is on disk, or until now."""
        return (self.finished or monotonic()) - self.started

    @property
    def new(self) -> int:
        """Rows generated in this session."""
        return self.done - self.resumed - self.elsewhere

    @property
    def seconds_left(self) -> float | None:
        """Estimated seconds until the end, from the rate of all machines since the start; None before the first row."""
        since = self.done - self.resumed
        return (self.total - self.done) * self.seconds / since if since else None

    @property
    def tokens_per_second(self) -> float:
        """Completion tokens per second of this session."""
        return self.completion_tokens / self.seconds if self.seconds else 0.0


def generate(
    requests: PlannedRequests,
    engine: Engine,
    spool: Spool,
    on_progress: Callable[[Progress], None],
    goodput: GoodputCount | None = None,
) -> Progress:
    """Generate rows of an answer set into the spool. `on_progress` is called after rows are on disk.

    Requests that are withdrawn meanwhile may stay unanswered; a late answer to one is dropped.

    Args:
        requests: Requests of the missing rows.
        engine: The loaded engine.
        spool: Spool of the answer set, open.
        on_progress: Called with the counts so far.
        goodput: Counts the answers within limits.

    Raises:
        EngineError: If the engine ends early or answers an unknown request. Finished rows stay in the spool.
        SpoolError: If the spool cannot be written.
    """
    withheld = requests.plan.withheld
    stored = requests.plan.rows - len(requests)
    progress = Progress(requests.plan.rows, done=stored, resumed=stored)
    unanswered = set(range(len(requests)))
    varying = {sample.id for sample in requests.plan.samples if sample.by_repeat}
    impossible = [
        Completion(key, "", error=sample.error, error_permanent=True)
        for key, (sample, _) in enumerate(requests.rows)
        if sample.error is not None
    ]
    withdrawn: frozenset[int] = frozenset()

    def leave_out_withdrawn() -> None:
        nonlocal withdrawn
        if requests.withdrawn is not withdrawn:
            withdrawn = requests.withdrawn
            elsewhere = unanswered & withdrawn
            unanswered.difference_update(elsewhere)
            progress.done += len(elsewhere)
            progress.elsewhere += len(elsewhere)

    for batch in chain([impossible] if impossible else [], engine.generate(requests)):
        rows = []
        leave_out_withdrawn()
        finished_at = monotonic() - progress.started
        for completion in batch:
            if completion.key in withdrawn and completion.key not in unanswered:
                continue
            if completion.key not in unanswered:
                raise EngineError(
                    f"The engine answered request {completion.key}, which is unknown or already answered."
                )
            unanswered.remove(completion.key)
            sample, repeat = requests.rows[completion.key]
            if withheld is not None and sample.id in varying:
                completion = replace(completion, prompt="")  # noqa: PLW2901 - kept once for all repeats
            rows.append(generation_row(sample, repeat, completion, finished_at))
            progress.prompt_tokens += completion.prompt_tokens or 0
            progress.completion_tokens += completion.completion_tokens or 0
            if completion.error is not None and not (progress.failed or progress.refused):
                logger.warning("the first request that failed: %s", completion.error)
            if goodput is not None and completion.error is None:
                goodput.add(
                    completion.time_to_first_token, completion.latency, completion.completion_tokens
                )
            elif goodput is not None:
                goodput.add_failed()
            progress.failed += completion.error is not None and not completion.error_permanent
            progress.refused += completion.error is not None and completion.error_permanent
        if rows:
            spool.append(rows if withheld is None else withheld.take(rows))
        progress.done += len(rows)
        on_progress(progress)
    leave_out_withdrawn()
    if unanswered:
        raise EngineError(
            f"The engine ended with {len(unanswered)} of {len(requests)} requests unanswered."
        )
    progress.finished = monotonic()
    return progress


def session_of(engine: Engine, settings: BaseEngineSettings, *, day: date | None = None) -> Session:
    """Return the manifest's record of a generation session that begins now, without counts.

    Args:
        engine: The loaded engine.
        settings: Its settings.
        day: `PlannedRequests.day`.
    """
    info = engine.info
    return Session(
        id=secrets.token_hex(6),
        started_at=datetime.now(UTC),
        regrade_version=__version__,
        engine=info.engine,
        engine_version=info.version,
        device=info.device,
        dtype=info.dtype,
        max_model_len=info.max_model_len,
        chat_template_sha256=info.chat_template_sha256,
        prompt_day=day,
        reasoning_parser=info.reasoning_parser,
        structured_outputs=info.structured_outputs,
        in_flight=engine.in_flight if isinstance(engine, LimitedEngine) else None,
        memory=info.memory,
        # The adapter is part of the model's identity; a path of this machine would be published.
        engine_settings=settings.model_dump(mode="json", exclude={"lora"}),
        load_seconds=info.load_seconds,
    )

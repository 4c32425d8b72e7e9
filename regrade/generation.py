"""Plan answer sets, find their missing rows, and generate these into the spool."""

import hashlib
import logging
import secrets
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from time import monotonic

from regrade import __version__
from regrade.answers.manifest import Session
from regrade.answers.origin import SetDescription
from regrade.answers.rows import RowKey
from regrade.answers.spool import Spool
from regrade.benchmarks.base import Benchmark
from regrade.benchmarks.questions.prompting import chat_template_arguments, read_chat_template
from regrade.engines.base import BaseEngineSettings, Engine, PromptRendering
from regrade.errors import EngineError, SettingsError
from regrade.models import ResolvedModel
from regrade.records import Request, Sample, generation_row
from regrade.settings import PromptSettings, SamplingParams
from regrade.specification import Specification, effective_sampling, version_1

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

    @property
    def description(self) -> SetDescription:
        """The answer set as the manifest will describe it."""
        return SetDescription(
            specification=self.specification,
            n_samples=len(self.samples),
            scorers=self.benchmark.scorers,
            groups=dict(self.benchmark.groups),
        )

    @property
    def rows(self) -> int:
        """Number of rows of the complete answer set."""
        return len(self.samples) * self.specification.repeats

    def missing(self, done: set[RowKey]) -> list[tuple[Sample, int]]:
        """Return the pairs of sample and repeat that are not in `done`, ordered by sample."""
        repeats = range(self.specification.repeats)
        return [
            (s, repeat) for s in self.samples for repeat in repeats if (s.id, repeat) not in done
        ]

    def requests(self, missing: Sequence[tuple[Sample, int]]) -> "PlannedRequests":
        """Return the requests of rows, such as all that are missing."""
        return PlannedRequests(self, missing)


@dataclass(frozen=True, slots=True, eq=False)
class PlannedRequests:
    """Requests of rows of an answer set, rendered while iterating; a request's key is the position of its row."""

    plan: Plan
    rows: Sequence[tuple[Sample, int]]
    """Pairs of sample and repeat."""

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
        rendered: tuple[Sample, Request] | None = None
        for key, (sample, repeat) in enumerate(self.rows):
            params = sampling
            if sampling.temperature > 0:  # greedy decoding needs no seed
                seed = request_seed(sampling.seed, sample.id, repeat)
                params = sampling.model_copy(update={"seed": seed})
            if rendered is not None and sample is rendered[0]:  # repeats have the same prompt
                request = replace(rendered[1], key=key, sampling=params)
            else:
                prompt, labels = benchmark.prompt(sample), benchmark.labels(sample)
                request = Request(key, prompt, params, labels)
            rendered = sample, request
            yield request


def make_plan(
    benchmark: Benchmark,
    model: ResolvedModel,
    engine: BaseEngineSettings,
    *,
    sampling: SamplingParams | None,
    prompt: PromptSettings,
    repeats: int,
) -> Plan:
    """Return the plan for a model and a benchmark.

    Args:
        benchmark: The benchmark, opened with `prompt` and the limit.
        model: The model that answers.
        engine: Settings of the engine that runs it.
        sampling: Fields that are set replace the benchmark's sampling params. None: use the benchmark's.
        prompt: Settings that turn questions into prompts.
        repeats: Answers per question.

    Raises:
        SettingsError: If `repeats` exceeds 1 with greedy decoding, or a chat benchmark meets a model without chat
            template.
        SourceError: If the benchmark's data cannot be read.
    """
    chosen = benchmark.sampling
    if sampling is not None:
        chosen = SamplingParams.model_validate(
            {**chosen.model_dump(), **sampling.model_dump(exclude_unset=True)}
        )
    if repeats > 1 and chosen.temperature == 0:
        raise SettingsError(
            f"repeats is {repeats}, but with temperature 0 all repeats would be the same. "
            "Set a temperature above 0, or repeats to 1."
        )
    samples = benchmark.samples()
    identity = benchmark.identity
    if identity.limit is not None and len(samples) < identity.limit:
        identity = identity.model_copy(update={"limit": None})  # the limit leaves out nothing
    prompt_identity = benchmark.prompt_identity.model_copy(update={"truncate": prompt.truncate})
    if (
        prompt_identity.format == "chat"
        and model.has_chat_template is False
        and prompt.chat_template is None
    ):
        raise SettingsError(
            f"Benchmark '{benchmark.name}' uses chat prompts, but model '{model.identity.name}' has no chat template. "
            "Use format 'completion' (`--format completion`), or give a template (`--chat-template FILE`)."
        )
    specification = Specification(
        model=model.identity,
        benchmark=identity,
        prompt=prompt_identity,
        method=benchmark.method,
        sampling=effective_sampling(chosen, benchmark.method),
        repeats=repeats,
        engine=engine.identity(model, truncate=prompt.truncate),
    )
    return Plan(benchmark, model, specification, samples, version_1(specification, chosen))


def prompt_rendering(prompt: PromptSettings) -> PromptRendering:
    """Return the chat template and its options for the engine.

    Raises:
        SettingsError: If the chat template cannot be read, or an argument is not `name=value`.
    """
    return PromptRendering(
        chat_template=read_chat_template(prompt.chat_template),
        arguments=chat_template_arguments(prompt.chat_template_args),
        truncate=prompt.truncate,
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
        return self.done - self.resumed

    @property
    def seconds_left(self) -> float | None:
        """Estimated seconds until the end, from this session's rate; None before the first row."""
        return (self.total - self.done) * self.seconds / self.new if self.new else None

    @property
    def tokens_per_second(self) -> float:
        """Completion tokens per second of this session."""
        return self.completion_tokens / self.seconds if self.seconds else 0.0


def generate(
    requests: PlannedRequests,
    engine: Engine,
    spool: Spool,
    on_progress: Callable[[Progress], None],
) -> Progress:
    """Generate rows of an answer set into the spool. `on_progress` is called after rows are on disk.

    Raises:
        EngineError: If the engine ends early or answers an unknown request. Finished rows stay in the spool.
        SpoolError: If the spool cannot be written.
    """
    stored = requests.plan.rows - len(requests)
    progress = Progress(requests.plan.rows, done=stored, resumed=stored)
    unanswered = set(range(len(requests)))
    for batch in engine.generate(requests):
        rows = []
        finished_at = monotonic() - progress.started
        for completion in batch:
            if completion.key not in unanswered:
                raise EngineError(
                    f"The engine answered request {completion.key}, which is unknown or already answered."
                )
            unanswered.remove(completion.key)
            sample, repeat = requests.rows[completion.key]
            rows.append(generation_row(sample, repeat, completion, finished_at))
            progress.prompt_tokens += completion.prompt_tokens or 0
            progress.completion_tokens += completion.completion_tokens or 0
            if completion.error is not None and not (progress.failed or progress.refused):
                logger.warning("the first request that failed: %s", completion.error)
            progress.failed += completion.error is not None and not completion.error_permanent
            progress.refused += completion.error is not None and completion.error_permanent
        spool.append(rows)
        progress.done += len(rows)
        on_progress(progress)
    if unanswered:
        raise EngineError(
            f"The engine ended with {len(unanswered)} of {len(requests)} requests unanswered."
        )
    progress.finished = monotonic()
    return progress


def session_of(engine: Engine, settings: BaseEngineSettings) -> Session:
    """Return the manifest's record of a generation session that begins now, without counts."""
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
        # The adapter is part of the model's identity; a path of this machine would be published.
        engine_settings=settings.model_dump(mode="json", exclude={"lora"}),
        load_seconds=info.load_seconds,
    )

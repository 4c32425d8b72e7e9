"""Replays: a model reads stored answers again, in one pass each, for the log-probability of each of their tokens."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any

from pydantic import Field, ValidationError, model_validator

from regrade.answers.manifest import Manifest
from regrade.answers.sets import AnswerSet
from regrade.benchmarks.base import UsualBenchmark
from regrade.benchmarks.questions.samples import spread
from regrade.engines.vllm import VllmEngine
from regrade.engines.vllm_process.allowed import may_be_code
from regrade.engines.vllm_process.extra import parse_extra
from regrade.jobs.job import Answers, EngineJob, EngineSettings, default_answers
from regrade.records import Message, Sample, StoredAnswer
from regrade.records.specification import (
    BenchmarkIdentity,
    PromptIdentity,
    Specification,
    effective_sampling,
)
from regrade.settings import REPLAY_PREFIX, Method, Reuse, SamplingParams, Settings
from regrade.settings.errors import SettingsError
from regrade.settings.marks import DECIDES, FIRST, NAME, NO_OPTION, PATH, SAME_ANSWERS, marked
from regrade.settings.problems import one_line

VERSION = 1
"""Raised when what is read of an answer changes."""
OWN_READINGS = 2
"""Times that the model that answered reads each answer: the difference between them is its noise."""
_COLUMNS = (
    *("sample_id", "index", "repeat", "subset", "prompt", "prompt_kind", "prompt_truncated"),
    *("text", "reasoning", "prompt_tokens", "completion_tokens", "error", "token_ids", "images"),
)


class ReplayJob(Settings):
    """Stored answers to read again, by the model that gave them and by another one."""

    option_group = "What to read"

    answer_set: Annotated[str, PATH, NAME, FIRST, NO_OPTION] = Field(min_length=1)
    """Answer set: id (the first digits are enough), model or alias."""
    model: Annotated[str | None, PATH, NAME, FIRST] = None
    """Model to compare with the one that answered. Default: the same, with other settings of the engine."""
    own_model: Annotated[str | None, PATH, NAME] = None
    """The model that answered. Default: as stored, from the Hub; of a local folder its path is needed."""
    limit: int | None = Field(None, ge=1, title="Questions")
    """Number of questions whose answers are read, spread evenly. Default: all."""
    engine: EngineSettings = VllmEngine()
    """Engine of the other model. The model that answered keeps its precision and quantisation."""
    answers: Answers = Field(default_factory=default_answers)
    reuse: Annotated[Reuse, SAME_ANSWERS] = Reuse()
    """Use of stored replays; `fresh` reads again with the other model, such as in another version of vLLM."""

    @model_validator(mode="after")
    def _engine_reads(self) -> "ReplayJob":
        if self.engine.kind not in ("vllm", "openai"):
            raise ValueError(
                f"engine '{self.engine.kind}' cannot read stored answers: a replay gives the exact tokens to the engine, and needs "
                "the log-probability of each. Use vLLM on this machine (`engine=vllm`), or a server of vLLM (`engine=openai`)"
            )
        if self.engine.kind == "openai" and self.model is None:
            raise ValueError(
                "`engine=openai` needs `model` with the name under which the server serves the model"
            )
        return self

    def of(self, model: str, engine: EngineSettings, *, own: bool) -> EngineJob:
        """Return the job of one of the two models."""
        reuse = self.reuse.model_copy(update={"fresh": False}) if own else self.reuse
        return EngineJob(model=model, engine=engine, answers=self.answers, reuse=reuse)

    def own_engine(self, manifest: Manifest) -> VllmEngine:
        """Return the engine's settings that gave answers, with those for speed and memory of this job, if it has vLLM's.

        Raises:
            SettingsError: If the stored ones are none, or could run code that this job does not name: the answers may be a
                stranger's, and name the model, too.
        """
        decisive = {*marked(VllmEngine, DECIDES)}
        here = self.engine.kind == "vllm"
        given = (
            self.engine.model_dump(exclude_unset=True, exclude={"kind", *decisive}) if here else {}
        )
        stored = manifest.sessions[-1] if manifest.sessions else None
        if stored is not None and stored.engine == "vllm":
            settings = stored.engine_settings
            given |= {name: settings[name] for name in decisive & settings.keys()}
        if manifest.specification.model.adapter is None:
            given.pop("lora", None)
        name = f"Answer set '{manifest.answer_set_id}'"
        try:
            engine = VllmEngine.model_validate(given)
        except ValidationError as error:
            problem = f"{name} is stored with settings of its engine that cannot be used: {one_line(error)}"
            raise SettingsError(problem) from error
        by_hand = getattr(self.engine, "extra", ())
        if unknown := may_be_code(parse_extra([p for p in engine.extra if p not in by_hand])):
            told = next(pair for pair in engine.extra if unknown[0] in parse_extra([pair]))
            raise SettingsError(
                f"{name} was made with `engine.extra {told}`, by which a model can run code here. If you trust it, give this "
                "setting, too."
            )
        return engine


class ReplayQuestions(UsualBenchmark):
    """Benchmark `replay:<benchmark of the answers>`: the answers of a set, each of which a model reads.

    A question has an answer to read for each of its stored ones, and as many again for each further reading.
    """

    version = VERSION
    description = "Stored answers, read by a model."
    paper = ""
    method: Method = "rank"
    scorers: tuple[str, ...] = ()
    groups: Mapping[str, tuple[str, ...]] = {}
    sampling = SamplingParams()
    prompt_identity = PromptIdentity(format="completion", template="replay", n_shots=0)

    def __init__(self, answers: AnswerSet, *, readings: int, limit: int | None) -> None:
        """Read the answers.

        Args:
            answers: Their set.
            readings: Times that each is read.
            limit: Number of questions, spread evenly; None: all.

        Raises:
            SettingsError: If none of the answers can be read.
            DamagedAnswersError: If they do not match their manifest.
        """
        self._answers, self.readings, self._limit = answers, readings, limit
        self.name = f"{REPLAY_PREFIX}{self._specification.benchmark.name}"
        self._refuse()
        self._samples = self._read()

    @property
    def _specification(self) -> Specification:
        return self._answers.manifest.specification

    @property
    def readings_of_all(self) -> int:
        """Readings of each question."""
        return self._specification.repeats * self.readings

    @property
    def identity(self) -> BenchmarkIdentity:
        """Exact identity of the answers and their readings."""
        shards = sorted(shard.sha256 for shard in self._answers.manifest.shards)
        return BenchmarkIdentity(
            name=self.name,
            version=self.version,
            source=f"answers/{self._answers.manifest.answer_set_id}",
            source_revision=hashlib.sha256("\n".join(shards).encode()).hexdigest(),
            split="answers",
            limit=self._limit,
            parameters={"readings": self.readings},
        )

    @property
    def by_own_model(self) -> Specification:
        """Specification of the replay by the model that answered."""
        limit = self._limit if self._limit is None or self._limit <= len(self._samples) else None
        return Specification(
            model=self._specification.model,
            benchmark=self.identity.model_copy(update={"limit": limit}),
            prompt=self.prompt_identity,
            method=self.method,
            sampling=effective_sampling(self.sampling, self.method),
            repeats=self.readings_of_all,
            engine=self._specification.engine,
        )

    def samples(self) -> Sequence[Sample]:
        """Return the answers, with the limit applied."""
        return self._samples

    def prompt(self, sample: Sample) -> str | tuple[Message, ...]:
        """Return the stored prompt."""
        prompt: str = sample.fields["prompt"]
        return prompt

    def _refuse(self) -> None:
        specification, manifest = self._specification, self._answers.manifest
        name = f"Answer set '{manifest.answer_set_id}' ({specification.title})"
        if specification.method == "rank":
            raise SettingsError(
                f"{name} holds log-probabilities of choices, and no texts to read. `regrade compare` compares them."
            )
        if specification.prompt.format is None:
            raise SettingsError(
                f"{name} was imported without the format of its prompts, so that their tokens are not known. Name a set that "
                "regrade generated."
            )
        if manifest.withheld and (lacking := self._answers.questions.lacks(manifest.n_samples)):
            raise SettingsError(
                f"{name} is published without its prompts. {lacking:,} of {manifest.n_samples:,} are missing in "
                f"'{self._answers.questions.path}': copy that file from the machine that generated the answers."
            )

    def _read(self) -> list[Sample]:
        found: dict[str, dict[int, Sample]] = {}
        for batch in self._answers.batches(_COLUMNS):
            for row in batch.to_pylist():
                found.setdefault(row["sample_id"], {})[row["repeat"]] = self._sample(row)
        samples = []
        for known in found.values():
            first = known[min(known)]
            none = Sample(
                first.id, first.index, "", {}, first.subset, error="There is no answer to read."
            )
            repeats = range(self._specification.repeats)
            parts = [known.get(repeat, none) for repeat in repeats] * self.readings
            several = tuple(parts) if len(parts) > 1 else ()
            samples.append(replace(parts[0], by_repeat=several))
        chosen = spread(samples, self._limit)
        parts = [part for sample in chosen for part in sample.by_repeat or (sample,)]
        if all(part.error is not None for part in parts):
            reason = parts[0].error if parts else "it has no answers."
            raise SettingsError(
                f"Nothing of answer set '{self._answers.manifest.answer_set_id}' can be read: {reason}"
            )
        return chosen

    def _sample(self, row: Mapping[str, Any]) -> Sample:
        tokens, sampling = row["token_ids"], self._specification.sampling
        stored = StoredAnswer(
            text=row["text"] or "",
            tokens=None if tokens is None else tuple(tokens),
            rendered=self._specification.prompt.format == "chat",
            prompt_tokens=row["prompt_tokens"],
            completion_tokens=row["completion_tokens"],
            stops=sampling is None or bool(sampling.stop),
        )
        return Sample(
            row["sample_id"],
            row["index"],
            "",
            {"prompt": row["prompt"] or ""},
            row["subset"],
            stored=stored,
            error=_unreadable(row),
        )


def _unreadable(row: Mapping[str, Any]) -> str | None:
    """Return the reason why a stored answer cannot be read with the tokens that its model saw and gave; None if it can."""
    if row["error"] is not None:
        return f"There is no answer to read: {row['error']}"
    if row["prompt_kind"] == "messages" or not row["prompt"]:
        return "Only its server knows the text of the prompt."
    if row["images"]:
        return "Its prompt shows images, which are not read again."
    if row["prompt_truncated"]:
        return "Its prompt was cut to fit the context, so that its tokens are not known."
    if row["token_ids"] is None and row["reasoning"] is not None:
        return "Its tokens were not stored, and its reasoning was told apart."
    return None

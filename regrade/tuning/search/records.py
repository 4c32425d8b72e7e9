"""Tuned settings, kept with the answers as `measurements/tuned/<model>/<key>.json`, and used by `engine.tuned`."""

import hashlib
import logging
import math
from collections.abc import Mapping
from typing import Annotated, Any, Literal

import orjson
from pydantic import Field

from regrade.answers.base import Repository
from regrade.answers.documents import read_json
from regrade.engines.base import BaseEngineSettings, parallel_by_hand
from regrade.engines.vllm_process.hardware import Hardware, hardware, vllm_version
from regrade.engines.vllm_process.settings import PARALLEL
from regrade.jobs.plan import Plan
from regrade.records.specification import ModelIdentity
from regrade.settings import Method, Seconds, StrictModel, Timestamp
from regrade.settings.errors import DamagedAnswersError, SettingsError
from regrade.stats.speed import Speed

logger = logging.getLogger("regrade.tune")
FOLDER = "measurements/tuned"
_NO_VLLM = "a version of vLLM, and none is installed here. Install it"
_NO_HARDWARE = "one kind of hardware, and `nvidia-smi` names no GPU here, or several kinds. Set CUDA_VISIBLE_DEVICES to GPUs of one kind"
_LOOKED_AT = 200
"""Most questions whose prompts are read, evenly spaced."""


TunedSetting = Annotated[
    str, Field(pattern=rf"^({'|'.join(('max_num_seqs', 'max_num_batched_tokens', *PARALLEL))})$")
]
"""Engine settings that are tuned: a repository, which may be a stranger's, sets no others."""


class Workload(StrictModel):
    """Kind of a workload. Two with equal fields have the same fast settings, as far as is known."""

    method: Method
    """`generate` text, or `rank` labels."""
    prompt: int
    """90th percentile of the length of prompts in characters, as a power of two: 10 means up to 1,024."""
    answer: int
    """Limit on new tokens, as a power of two."""
    thinking: Literal["reasons", "answers"]
    """The model reasons before its answers, which are then much longer."""

    def __str__(self) -> str:
        is_ranked = self.method == "rank"
        done = "ranked labels" if is_ranked else f"answers of up to {2**self.answer:,} tokens"
        reasoned = " after reasoning" if self.thinking == "reasons" else ""
        return f"prompts of up to {2**self.prompt:,} characters, {done}{reasoned}"


class TuningKey(StrictModel):
    """Everything that a measurement belongs to; it is used for an equal key only."""

    model: ModelIdentity
    engine: dict[str, Any] = Field(default_factory=dict)
    """Settings of the engine that change what the model computes, such as `dtype`; see `Specification.engine`."""
    hardware: Hardware
    vllm: str = Field(pattern=r"^\d+\.\d+$")
    """Version of vLLM without its last part."""
    workload: Workload
    limits: dict[str, float] = Field(default_factory=dict)
    """Limits on latency that the settings keep, as 99th percentiles in seconds."""

    def __str__(self) -> str:
        limits = ", ".join(f"{name} {value:g} s" for name, value in self.limits.items())
        within = limits and f", within the limits {limits}"
        return (
            f"{self.model.name} on {self.hardware} with vLLM {self.vllm}: {self.workload}{within}"
        )

    @property
    def path(self) -> str:
        """Path of the measurement in a repository, named by a sha256 over the key."""
        canonical = orjson.dumps(self.model_dump(mode="json"), option=orjson.OPT_SORT_KEYS)
        return f"{FOLDER}/{self.model.slug}/{hashlib.sha256(canonical).hexdigest()[:16]}.json"


class TrialRecord(StrictModel):
    """A measurement of a search."""

    start: int = Field(ge=0)
    """Number of the engine start, from 0."""
    settings: dict[str, int]
    in_flight: int = Field(ge=1)
    rate: float = Field(ge=0)
    """Tokens of answers per second, or answers per second if labels are ranked."""
    requests: int = Field(ge=1)
    seconds: Seconds
    broken: str | None = None
    """Limit on latency that was exceeded."""
    speed: Speed | None = None

    @property
    def point(self) -> tuple[object, ...]:
        """Settings and requests in flight: measurements of equal ones are repetitions."""
        return (self.in_flight, *sorted(self.settings.items()))


class Tuning(StrictModel):
    """Settings that were chosen, and how that was measured."""

    schema_version: int = Field(1, ge=1, le=1)
    key: TuningKey
    benchmark: str
    """Benchmark whose questions were answered."""
    measured_at: Timestamp
    regrade_version: str
    settings: dict[TunedSetting, Annotated[int, Field(ge=1)]]
    """Engine settings to use: `max_num_seqs`, and others that were better than the default."""
    in_flight: int = Field(ge=1)
    """Requests in flight that were chosen, over all copies of the model; `max_num_seqs` is that of a copy."""
    rate: float = Field(ge=0)
    spread: float = Field(ge=0)
    """Noise: largest relative distance between two measurements of the same settings."""
    starts: int = Field(ge=1)
    """Engine starts that the search took."""
    trials: tuple[TrialRecord, ...]
    remarks: tuple[str, ...] = ()

    def is_for(self, key: TuningKey, split: Mapping[str, int]) -> bool:
        """Return True if it was measured for a key, whatever its limits on latency, and with a split set by hand."""
        used = {name: self.settings.get(name, 1) for name in split}
        return self.key.model_copy(update={"limits": {}}) == key and used == split


def kept(repository: Repository, model: ModelIdentity) -> list[Tuning]:
    """Return all measurements of a model, in any revision of it, at the newest revision of a repository.

    One that cannot be read, such as that of a newer version, is left out with a warning.
    """
    head = repository.head()
    files = {} if head is None else repository.files(head, f"{FOLDER}/{model.slug}")
    found = []
    for path in sorted(files):
        try:
            found.append(read_json(repository, path, str(head), Tuning, "tuned settings"))
        except DamagedAnswersError as error:
            logger.warning("tuned settings are left out: %s", error)
    return found


def key_of(plan: Plan, limits: Mapping[str, float]) -> TuningKey:
    """Return the key of an answer set's measurements on this machine.

    Raises:
        SettingsError: If the hardware or the version of vLLM is not known.
    """
    here, version = hardware(), vllm_version()
    if here is None or version is None:
        lacking = _NO_VLLM if version is None else _NO_HARDWARE
        raise SettingsError(f"Tuned settings belong to {lacking}, or leave out `engine.tuned`.")
    specification = plan.specification
    return TuningKey(
        model=specification.model,
        engine=dict(specification.engine),
        hardware=here,
        vllm=version,
        workload=workload_of(plan),
        limits=dict(limits),
    )


def workload_of(plan: Plan) -> Workload:
    """Return the kind of workload of an answer set."""
    step = max(1, len(plan.samples) // _LOOKED_AT)
    prompts = map(plan.benchmark.prompt, plan.samples[::step][:_LOOKED_AT])
    lengths = sorted(
        len(prompt) if isinstance(prompt, str) else sum(len(m["content"]) for m in prompt)
        for prompt in prompts
    )
    sampling = plan.specification.sampling
    return Workload(
        method=plan.specification.method,
        prompt=_power(lengths[math.ceil(0.9 * len(lengths)) - 1]),
        answer=_power(1 if sampling is None else sampling.max_tokens),
        thinking="reasons" if plan.reasons else "answers",
    )


def _power(number: int) -> int:
    """Return the smallest power of two that is not below a number, as its exponent."""
    return (max(number, 1) - 1).bit_length()


def with_tuned(
    engine: BaseEngineSettings, plan: Plan, repository: Repository
) -> BaseEngineSettings:
    """Return engine settings with those that `regrade tune` found; the log says which measurement was used, or why none was.

    Settings that were set by hand stay. A measurement of another split over GPUs than the one set by hand is not used. Of the
    others, one without limits on latency goes before those with limits, and of those the newest.

    Args:
        engine: Settings with `tuned`; others are returned as they are.
        plan: Answer set with the most work for this engine.
        repository: Repository that keeps the measurements.

    Raises:
        SettingsError: If the hardware or the version of vLLM is not known.
    """
    if not getattr(engine, "tuned", False):
        return engine
    key, split = key_of(plan, {}), parallel_by_hand(engine)
    known = kept(repository, key.model)
    alike = [tuning for tuning in known if tuning.is_for(key, split)]
    if not alike:
        logger.warning(
            "not tuned: %s has no measurement of %s (%s). It has: %s. vLLM's own settings are used; `regrade tune` with the same "
            "options measures.",
            *(repository.uri, key, settings_text(split, "no split set by hand")),
            "; ".join(f"{t.key} ({settings_text(t.settings)})" for t in known) or "none",
        )
        return engine
    tuning = max(alike, key=lambda t: (not t.key.limits, t.measured_at))
    by_hand = engine.model_dump(exclude_unset=True)
    used = {name: value for name, value in tuning.settings.items() if name not in by_hand}
    logger.info(
        "tuned: %s, as measured on %s with %s (%s)",
        *(settings_text(used), tuning.measured_at.date(), tuning.benchmark, tuning.key),
    )
    return type(engine).model_validate({**by_hand, **used})


def settings_text(settings: Mapping[str, int], nothing: str = "nothing to set") -> str:
    """Return settings as text, such as `max_num_seqs=96`; `nothing` if there are none."""
    return ", ".join(f"{name}={value:,}" for name, value in settings.items()) or nothing

"""Tuned settings as they are kept with the answers: `measurements/tuned/<model>/<key>.json`."""

import hashlib
from typing import Any

import orjson
from pydantic import Field, ValidationError

from regrade.answers.base import Repository
from regrade.answers.publishing import retry_on_conflict
from regrade.records.specification import ModelIdentity
from regrade.settings import Seconds, StrictModel, Timestamp
from regrade.settings.errors import DamagedAnswersError
from regrade.stats.speed import Speed
from regrade.tuning.search.hardware import Hardware
from regrade.tuning.search.workload import Workload

FOLDER = "measurements/tuned"


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

    @property
    def limits_text(self) -> str:
        """Limits in words; "" if there are none."""
        return ", ".join(f"{name} {value:g} s" for name, value in self.limits.items())

    @property
    def digest(self) -> str:
        """First 16 hex digits of a sha256 over the key."""
        canonical = orjson.dumps(self.model_dump(mode="json"), option=orjson.OPT_SORT_KEYS)
        return hashlib.sha256(canonical).hexdigest()[:16]

    @property
    def path(self) -> str:
        """Path of the measurement in a repository."""
        return f"{FOLDER}/{self.model.slug}/{self.digest}.json"


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


class Tuning(StrictModel):
    """Settings that were fastest, and how that was measured."""

    schema_version: int = Field(1, ge=1, le=1)
    key: TuningKey
    benchmark: str
    """Benchmark whose questions were answered."""
    measured_at: Timestamp
    regrade_version: str
    settings: dict[str, int]
    """Engine settings to use: `max_num_seqs`, and others that were better than the default."""
    in_flight: int = Field(ge=1)
    """Requests in flight that were fastest, over all copies of the model; `max_num_seqs` is that of a copy."""
    rate: float = Field(ge=0)
    spread: float = Field(ge=0)
    """Noise: largest relative distance between two measurements of the same settings."""
    starts: int = Field(ge=1)
    """Engine starts that the search took."""
    trials: tuple[TrialRecord, ...]
    remarks: tuple[str, ...] = ()


def keep(repository: Repository, tuning: Tuning) -> str:
    """Commit a measurement, which replaces an earlier one of the same key, and return the revision.

    Raises:
        HubError: If the store failed, or others commit all the time.
        RepositoryError: If writing is not allowed.
    """
    content = tuning.model_dump_json(indent=1).encode()
    message = f"Tuned {tuning.key.model.name} for {tuning.benchmark}"
    files = {tuning.key.path: content}
    return retry_on_conflict(lambda: repository.commit(files, message, parent=repository.head()))


def find(repository: Repository, key: TuningKey) -> Tuning | None:
    """Return the measurement of a key at the newest revision, or None.

    Raises:
        DamagedAnswersError: If it cannot be read.
    """
    revision = repository.head()
    if revision is None or key.path not in repository.files(revision, FOLDER):
        return None
    tuning = _read(repository, key.path, revision)
    if tuning.key != key:
        raise DamagedAnswersError(key.path, "it is the measurement of another model or machine.")
    return tuning


def kept(repository: Repository) -> list[Tuning]:
    """Return all measurements of a repository at its newest revision, sorted by path.

    Raises:
        DamagedAnswersError: If one cannot be read.
    """
    revision = repository.head()
    if revision is None:
        return []
    return [
        _read(repository, path, revision) for path in sorted(repository.files(revision, FOLDER))
    ]


def _read(repository: Repository, path: str, revision: str) -> Tuning:
    try:
        return Tuning.model_validate_json(repository.fetch(path, revision).read_bytes())
    except ValidationError as error:
        problem = f"it is no measurement that this regrade knows ({error.errors()[0]['msg']})."
        raise DamagedAnswersError(path, problem) from error

"""The manifest of an answer set: its specification, its files, and the sessions that generated them.

A manifest is untrusted input: it is validated on reading, and shard names are single path components.
"""

from typing import Any, Literal

from pydantic import Field

from regrade.records import SCHEMA_VERSION
from regrade.settings import Seconds, Settings, StoredName, Timestamp
from regrade.specification import Specification


class Shard(Settings):
    """A Parquet file of generations; its name includes the hash of its content."""

    name: str = Field(pattern=r"^part-[0-9]{5}-[0-9a-f]{8}\.parquet$")
    """`part-<number>-<first 8 digits of sha256>.parquet`, in the folder of the manifest."""
    rows: int = Field(ge=1)
    bytes: int = Field(ge=1)
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")


class Session(Settings):
    """A run of generation; an answer set that was continued has several."""

    started_at: Timestamp
    regrade_version: str
    engine: str
    engine_version: str | None
    device: str | None
    dtype: str | None
    max_model_len: int | None
    chat_template_sha256: str | None
    engine_settings: dict[str, Any]
    load_seconds: Seconds
    generate_seconds: Seconds
    rows: int = Field(ge=0)
    prompt_tokens: int = Field(ge=0)
    completion_tokens: int = Field(ge=0)
    label_methods: dict[str, int] = Field(default_factory=dict)
    """Rows per way of ranking labels: `single_token`, or the slower `per_choice` fallback."""


class Manifest(Settings):
    """Description and contents of an answer set."""

    schema_version: int = SCHEMA_VERSION
    answer_set_id: str = Field(pattern=r"^[0-9a-f]{16}$")
    specification: Specification
    state: Literal["incomplete", "complete"]
    n_samples: int = Field(ge=1)
    """Number of questions; `n_samples * specification.repeats` rows are expected."""
    rows: int = Field(ge=0)
    shards: tuple[Shard, ...]
    sessions: tuple[Session, ...]
    scorers: tuple[StoredName, ...]
    """Scorers of the benchmark; the first gives its headline number."""
    groups: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    """Subsets by category, such as MMLU's `STEM`."""
    created_at: Timestamp
    updated_at: Timestamp

"""The manifest of an answer set: what was asked, what is there, and how it came about.

A manifest may come from a stranger: it is validated on reading, and shard names are single path components.
"""

from datetime import datetime
from typing import Any, Literal

from pydantic import Field

from regrade.records import SCHEMA_VERSION
from regrade.settings import Settings, StoredName
from regrade.specification import Specification


class Shard(Settings):
    """One Parquet file of generations; its name never stands for other content."""

    name: str = Field(pattern=r"^part-[0-9]{5}-[0-9a-f]{8}\.parquet$")
    """`part-<number>-<first 8 digits of sha256>.parquet`, beside the manifest."""
    rows: int = Field(ge=1)
    bytes: int = Field(ge=1)
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")


class Session(Settings):
    """One stretch of generation: an answer set that was continued has several."""

    started_at: datetime
    regrade_version: str
    engine: str
    engine_version: str | None
    device: str | None
    dtype: str | None
    max_model_len: int | None
    chat_template_sha256: str | None
    engine_settings: dict[str, Any]
    load_seconds: float
    generate_seconds: float
    rows: int
    prompt_tokens: int
    completion_tokens: int
    label_methods: dict[str, int] = Field(default_factory=dict)
    """Rows per way of ranking labels: `single_token`, or the slower `per_choice` fallback."""


class Manifest(Settings):
    """What an answer set is."""

    schema_version: int = SCHEMA_VERSION
    answer_set_id: str = Field(pattern=r"^[0-9a-f]{16}$")
    specification: Specification
    state: Literal["incomplete", "complete"]
    n_samples: int = Field(ge=1)
    """Questions; rows expected are these times `specification.repeats`."""
    rows: int = Field(ge=0)
    shards: tuple[Shard, ...]
    sessions: tuple[Session, ...]
    scorers: tuple[StoredName, ...]
    """Scorers of the benchmark, the first of which gives its headline number."""
    groups: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    """Categories of subsets, such as MMLU's `STEM`: name to subsets."""
    created_at: datetime
    updated_at: datetime

"""What makes two answers comparable: the specification of an answer set, and the id that follows from it."""

import hashlib
import re
from typing import Any, Literal

import orjson
from pydantic import Field

from regrade.settings import Method, PromptFormat, SamplingParams, Settings

SPECIFICATION_VERSION = 1
CHECKPOINT = re.compile(r"/?checkpoint-(\d+)$")
"""End of the name of a checkpoint that a trainer saved, with its training step."""


def path_component(name: str) -> str:
    """Return a model's name as one component of a path, whatever is in it: `org/name` becomes `org--name`."""
    return re.sub(r"[^\w.+-]", "-", name.strip("/").replace("/", "--")).lstrip(".") or "model"


def training_step(name: str) -> int | None:
    """Return the training step that a checkpoint's name tells (`run/checkpoint-500`), if it does."""
    match = CHECKPOINT.search(name)
    return int(match[1]) if match else None


def model_family(name: str) -> str:
    """Return a model's name without the checkpoint: the same for all checkpoints of one training."""
    return CHECKPOINT.sub("", name) or name


class ModelIdentity(Settings):
    """Which model, exactly."""

    name: str
    """As a person would say it: the Hub id, or the last part of the folder's path (two for `run/checkpoint-500`)."""
    kind: Literal["hub", "local", "served", "imported"]
    """Where the weights come from. `served`: only the server knows. `imported`: another tool asked the model."""
    revision: str
    """Commit of the Hub repository, sha256 over the files of a local folder, or address of the server; of
    imported answers what their tool recorded, else `unknown`."""
    quantization: str | None = None
    """Quantization asked for on top of the checkpoint."""

    @property
    def slug(self) -> str:
        """Name as one path component: `org/name` becomes `org--name`."""
        return path_component(self.name)


class BenchmarkIdentity(Settings):
    """Which questions, exactly."""

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9_-]{0,62}$")
    version: int
    """Of our code: raised when prompts, targets or ids change. 0: not ours, the answers were imported."""
    source: str
    """Hub dataset id, or `local`."""
    source_revision: str
    """Commit of the Hub dataset, or sha256 over the local files that were read."""
    config: str | None = None
    split: str
    limit: int | None = None
    """Number of questions, spread evenly over the split. None: all."""
    parameters: dict[str, Any] = Field(default_factory=dict)
    """What else decides the questions and targets (columns of a dataset benchmark and so on)."""


class PromptIdentity(Settings):
    """How a question becomes a prompt, exactly."""

    format: PromptFormat | None
    """None: not known, as of imported answers."""
    template: str
    """The template, or a text that names the benchmark's own way."""
    n_shots: int | None
    """None: not known, as of imported answers."""
    system: str | None = None
    chat_template: str | None = None
    """sha256 of a chat template used instead of the model's own."""
    chat_template_args: dict[str, Any] = Field(default_factory=dict)
    truncate: bool = False


class Specification(Settings):
    """All that decides what is asked of which model, and nothing else (no path, no host, no batch size)."""

    specification_version: int = SPECIFICATION_VERSION
    model: ModelIdentity
    benchmark: BenchmarkIdentity
    prompt: PromptIdentity
    method: Method
    """`generate` text, or `rank` the labels of the choices."""
    sampling: SamplingParams | None
    """None: not known in full, as of imported answers."""
    repeats: int = 1

    @property
    def answer_set_id(self) -> str:
        """First 16 hex digits of the sha256 of the specification as canonical JSON."""
        canonical = orjson.dumps(self.model_dump(mode="json"), option=orjson.OPT_SORT_KEYS)
        return hashlib.sha256(canonical).hexdigest()[:16]

    @property
    def title(self) -> str:
        """Benchmark and model, for people."""
        return f"{self.benchmark.name} · {self.model.name}"

    @property
    def folder(self) -> str:
        """Where the answers lie in a repository: `<benchmark>/<model>/<answer_set_id>`."""
        return f"{self.benchmark.name}/{self.model.slug}/{self.answer_set_id}"

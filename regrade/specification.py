"""Specification of an answer set, and the id derived from it. Answers with equal ids are comparable."""

import hashlib
import re
from typing import Any, Literal

import orjson
from pydantic import Field

from regrade.settings import Method, PromptFormat, SamplingParams, Settings

SPECIFICATION_VERSION = 1
CHECKPOINT = re.compile(r"/?checkpoint-(\d+)$")
"""End of the name of a trainer's checkpoint; the group is the training step."""


def path_component(name: str) -> str:
    """Turn any model name into a single path component: `org/name` becomes `org--name`."""
    return re.sub(r"[^\w.+-]", "-", name.strip("/").replace("/", "--")).lstrip(".") or "model"


def training_step(name: str) -> int | None:
    """Return the training step in a checkpoint's name (`run/checkpoint-500`), or None."""
    match = CHECKPOINT.search(name)
    return int(match[1]) if match else None


def model_family(name: str) -> str:
    """Return a model's name without its checkpoint, which all checkpoints of a training run share."""
    return CHECKPOINT.sub("", name) or name


class ModelIdentity(Settings):
    """Exact identity of a model."""

    name: str
    """Name for people: the Hub id, or the last part of the folder's path (two parts for `run/checkpoint-500`)."""
    kind: Literal["hub", "local", "served", "imported"]
    """Source of the weights. `served`: known only to the server. `imported`: another tool ran the model."""
    revision: str
    """Commit of the Hub repository, sha256 over the files of a local folder, or address of the server; for
    imported answers the revision that their tool recorded, else `unknown`."""
    quantization: str | None = None
    """Quantization requested in addition to the checkpoint's."""

    @property
    def slug(self) -> str:
        """Name as a single path component: `org/name` becomes `org--name`."""
        return path_component(self.name)


class BenchmarkIdentity(Settings):
    """Exact identity of a benchmark's questions."""

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9_-]{0,62}$")
    version: int
    """Version of the benchmark's code: raised when prompts, targets or ids change. 0: the answers were imported."""
    source: str
    """Hub dataset id, or `local`."""
    source_revision: str
    """Commit of the Hub dataset, or sha256 over the local files that were read."""
    config: str | None = None
    split: str
    limit: int | None = None
    """Number of questions, spread evenly over the split. None: all."""
    parameters: dict[str, Any] = Field(default_factory=dict)
    """Other settings that decide the questions and targets, such as the columns of a dataset benchmark."""


class PromptIdentity(Settings):
    """Exact identity of the prompts made from questions."""

    format: PromptFormat | None
    """None: not known (imported answers)."""
    template: str
    """Template of the prompt, or a text that names the method of the benchmark."""
    n_shots: int | None
    """None: not known (imported answers)."""
    system: str | None = None
    chat_template: str | None = None
    """sha256 of the chat template used instead of the model's."""
    chat_template_args: dict[str, Any] = Field(default_factory=dict)
    truncate: bool = False


class Specification(Settings):
    """Everything that decides the answers, and nothing else: no path, no host, no batch size."""

    specification_version: int = SPECIFICATION_VERSION
    model: ModelIdentity
    benchmark: BenchmarkIdentity
    prompt: PromptIdentity
    method: Method
    """`generate` text, or `rank` the labels of the choices."""
    sampling: SamplingParams | None
    """None: not fully known (imported answers)."""
    repeats: int = 1

    @property
    def answer_set_id(self) -> str:
        """First 16 hex digits of the sha256 of the specification as canonical JSON."""
        canonical = orjson.dumps(self.model_dump(mode="json"), option=orjson.OPT_SORT_KEYS)
        return hashlib.sha256(canonical).hexdigest()[:16]

    @property
    def title(self) -> str:
        """Title for people: benchmark and model."""
        return f"{self.benchmark.name} · {self.model.name}"

    @property
    def folder(self) -> str:
        """Folder of the answers in a repository: `<benchmark>/<model>/<answer_set_id>`."""
        return f"{self.benchmark.name}/{self.model.slug}/{self.answer_set_id}"

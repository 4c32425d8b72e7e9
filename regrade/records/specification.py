"""Specification of an answer set, and the id derived from it. Answers with equal ids are comparable.

The id is a hash of what differs from `LEFT_OUT`, so that a new optional field changes no id.
"""

import hashlib
import re
from collections.abc import Collection, Mapping
from copy import deepcopy
from typing import Annotated, Any, Literal

import orjson
from pydantic import Field, SerializerFunctionWrapHandler, model_serializer, model_validator

from regrade.settings import (
    HARNESS_NAME,
    JUDGE_NAME,
    REPLAY_NAME,
    REPLAY_PREFIX,
    Cut,
    Method,
    PromptFormat,
    PromptsOf,
    SamplingParams,
    StrictModel,
)

SPECIFICATION_VERSION = 2
LONGEST_NAME = 255
"""Bytes of a file's name, at most, on a file system."""
UNKNOWN = "unknown"
"""Revision of a model of which nothing but the name is known; of a served one, a random text follows."""
SERVER_START = "server started at"
"""Beginning of the revision of a model whose server tells only when it started."""
LEFT_OUT: dict[str, Any] = {
    "asked_again": None,
    "engine": {},
    "repeats": 1,
    "model": {"adapter": None, "quantization": None},
    "benchmark": {"config": None, "limit": None, "parameters": {}},
    "prompt": {
        "chat_template": None,
        "chat_template_args": {},
        "cut": "start",
        "labels": "appended",
        "prefill": None,
        "prompts": None,
        "system": None,
        "truncate": False,
    },
    "sampling": {
        "frequency_penalty": 0.0,
        "max_tokens": 512,
        "min_p": 0.0,
        "presence_penalty": 0.0,
        "repetition_penalty": 1.0,
        "seed": 0,
        "stop": [],
        "temperature": 0.0,
        "thinking_token_budget": None,
        "top_k": 0,
        "top_p": 1.0,
    },
}
"""Values that the ids of specification version 2 leave out, as stored in JSON; docs/answer-format.md repeats them.

They are part of the format: no value here ever changes, even if the default of a setting does. A stored specification
without a field has the value here. A new optional field is added, with the value that earlier answers had.
"""
_PARTS = ("model", "benchmark", "prompt", "sampling")
RESULTS = "answers"
"""Top folder of answers that are results."""
REPETITIONS = "asked_again"
"""Top folder of answers that were asked again (`regrade noise`)."""
REPLAYS = "replays"
"""Top folder of stored answers that a model read again (`regrade replay`)."""
IMAGES = "images"
"""Top folder of the images that questions show, by benchmark."""
TOPS = (RESULTS, REPETITIONS, REPLAYS)
"""Top folders of all answer sets."""
CHECKPOINT = re.compile(r"/?checkpoint-(\d+)$")
"""End of the name of a trainer's checkpoint; the group is the training step."""


def path_component(name: str) -> str:
    """Turn any model name into a single path component: `org/name` becomes `org--name`. What is too long ends in a hash."""
    slug = re.sub(r"[^\w.+-]", "-", name.strip("/").replace("/", "--")).lstrip(".") or "model"
    if len(slug.encode()) <= LONGEST_NAME:
        return slug
    digest = hashlib.sha256(slug.encode()).hexdigest()[:16]
    return f"{slug.encode()[: LONGEST_NAME - 17].decode(errors='ignore')}-{digest}"


def training_step(name: str) -> int | None:
    """Return the training step in a checkpoint's name (`run/checkpoint-500`), or None."""
    match = CHECKPOINT.search(name)
    return int(match[1]) if match else None


def model_family(name: str) -> str:
    """Return a model's name without its checkpoint, which all checkpoints of a training run share."""
    return CHECKPOINT.sub("", name) or name


def named_apart(name: str, revision: str | None, revisions: Collection[str | None]) -> str:
    """Return a model's name, with the beginning of its revision if other models have the same name.

    Args:
        name: Name of the model.
        revision: Its revision.
        revisions: Revisions of all models with this name.
    """
    return f"{name}@{revision[:8]}" if revision and len(revisions) > 1 else name


class AdapterIdentity(StrictModel):
    """Exact identity of a LoRA adapter."""

    name: str
    """Name for people, like a model's."""
    revision: str
    """Commit of the Hub repository, or sha256 over the configuration and weights in a local folder."""


class ModelIdentity(StrictModel):
    """Exact identity of a model."""

    name: str
    """Name for people: the Hub id, or the last part of the folder's path (two parts for `run/checkpoint-500`). With an
    adapter `<model>+<adapter>`."""
    kind: Literal["hub", "local", "served", "imported"]
    """Source of the weights. `served`: known only to the server. `imported`: another tool ran the model."""
    revision: str
    """Commit of the Hub repository, or sha256 over the files of a local folder. Of a served model what identifies its
    weights (see `regrade/models/served.py`; in version 1 the server's address). For imported answers the revision that
    their tool recorded, else `unknown`."""
    quantization: str | None = None
    """Quantization requested in addition to the checkpoint's."""
    adapter: AdapterIdentity | None = None
    """LoRA adapter applied to the model, not merged."""

    @property
    def told_revision(self) -> str:
        """Revision; `unknown` if it only tells the runs of a server apart, which does not say what it serves."""
        untold = self.kind == "served" and self.revision.startswith((f"{UNKNOWN} ", SERVER_START))
        return UNKNOWN if untold else self.revision

    @property
    def slug(self) -> str:
        """Name as a single path component: `org/name` becomes `org--name`."""
        return path_component(self.name)

    @model_serializer(mode="wrap")
    def _without_no_adapter(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Leave out the adapter if there is none: ids of version 1 and of MLflow runs hash all fields."""
        dumped: dict[str, Any] = dump(self)
        if self.adapter is None:
            dumped.pop("adapter", None)
        return dumped


TURNS = "turns"
"""Parameter of a benchmark whose questions are conversations: how many turns they have at most, or the column of them."""


BenchmarkName = Annotated[
    str, Field(pattern=rf"^[a-z0-9][a-z0-9_-]{{0,62}}$|{HARNESS_NAME}|{JUDGE_NAME}|{REPLAY_NAME}")
]
"""Name of a benchmark in stored data."""


class BenchmarkIdentity(StrictModel):
    """Exact identity of a benchmark's questions."""

    name: BenchmarkName
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

    @property
    def converses(self) -> bool:
        """True if questions are conversations, whose later turns hold the answers to the earlier ones."""
        return TURNS in self.parameters


class PromptIdentity(StrictModel):
    """Exact identity of the prompts made from questions."""

    format: PromptFormat | None
    """None: not known (imported answers)."""
    template: str
    """Template of the prompt, or a text that names the method of the benchmark."""
    n_shots: int | None
    """None: not known (imported answers)."""
    system: str | None = None
    prefill: str | None = Field(None, exclude_if=lambda text: text is None)
    """Beginning of the model's turn; None: the model begins it."""
    prompts: PromptsOf | None = Field(None, exclude_if=lambda name: name is None)
    """Package from which template and `prefill` were read; None: they are the benchmark's own."""
    chat_template: str | None = None
    """sha256 of the chat template used instead of the model's."""
    chat_template_args: dict[str, Any] = Field(default_factory=dict)
    truncate: bool = False
    cut: Cut = Field("start", exclude_if=lambda cut: cut == "start")
    """Part that `truncate` takes away."""
    labels: Literal["appended", "turn"] = "appended"
    """Labels to rank in a chat: `appended` to the prompt as text, or as the template begins the model's `turn`."""


class AskedAgain(StrictModel):
    """Order, number in flight and machine with which the questions of an answer set were asked once more (`regrade noise`)."""

    seed: int | None
    """Seed of the random order of the questions; None: that of the benchmark."""
    in_flight: int | None
    """Most requests at a time; None: as many as the engine takes by itself."""
    place: str
    """Engine and hardware, such as `vllm 0.32.0 on cpu with 2 cores`: another machine asks once more."""
    batch_invariant: bool = False
    """vLLM was told to compute each answer independently of the others."""

    def order(self, questions: int) -> list[int]:
        """Return the positions of the questions in the order in which they are asked; it never changes, on any machine."""
        positions = range(questions)
        if self.seed is None:
            return [*positions]
        return sorted(
            positions,
            key=lambda position: hashlib.blake2b(f"{self.seed}/{position}".encode()).digest(),
        )


class Specification(StrictModel):
    """Everything that decides the answers, and nothing else: no path, no host, no batch size.

    Answers that were asked again are the exception: they are there to compare such things, and are no result.
    """

    specification_version: int = SPECIFICATION_VERSION
    model: ModelIdentity
    benchmark: BenchmarkIdentity
    prompt: PromptIdentity
    method: Method
    """`generate` text, or `rank` the labels of the choices."""
    sampling: SamplingParams | None
    """None: not fully known (imported answers)."""
    repeats: int = 1
    engine: dict[str, Any] = Field(default_factory=dict)
    """Settings of the engine that change what the model computes, such as `dtype`. Version 1 has none."""
    asked_again: AskedAgain | None = Field(None, exclude_if=lambda again: again is None)
    """None: the answers are a result. Else they repeat those of the specification without it (`regrade noise`)."""

    @property
    def top(self) -> str:
        """Top folder of the answers in a repository. What is no result is not in `answers`, where results are looked for."""
        if self.benchmark.name.startswith(REPLAY_PREFIX):
            return REPLAYS
        return RESULTS if self.asked_again is None else REPETITIONS

    @property
    def asked_first(self) -> "Specification":
        """The specification that these answers repeat; the same one if they repeat none."""
        return self.model_copy(update={"asked_again": None})

    @property
    def answer_set_id(self) -> str:
        """Id of the answer set; see `specification_id`."""
        return specification_id(self.model_dump(mode="json"))

    @property
    def as_told(self) -> "Specification":
        """The same with the model's `told_revision`: as a judge is known, which is one although its server does not tell its weights."""
        model = self.model.model_copy(update={"revision": self.model.told_revision})
        return self.model_copy(update={"model": model})

    @property
    def title(self) -> str:
        """Title for people: benchmark and model."""
        again = "" if self.asked_again is None else " · asked again"
        return f"{self.benchmark.name} · {self.model.name}{again}"

    @property
    def folder(self) -> str:
        """Folder of the answer set below `top`, `scores` and others: `<benchmark>/<model>/<answer_set_id>`."""
        return f"{path_component(self.benchmark.name)}/{self.model.slug}/{self.answer_set_id}"

    @property
    def answers_folder(self) -> str:
        """Folder of manifest and shards in a repository."""
        return f"{self.top}/{self.folder}"

    @model_validator(mode="before")
    @classmethod
    def _as_stored(cls, values: object) -> object:
        """Give fields that a stored specification lacks the values of the format, not today's defaults."""
        return _filled(values, LEFT_OUT)

    @model_serializer(mode="wrap")
    def _by_version(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Leave out what version 1 did not have: its id is a hash of all its fields."""
        dumped: dict[str, Any] = dump(self)
        if self.specification_version == 1:
            del dumped["engine"]
            del dumped["prompt"]["labels"]
            if dumped["sampling"] is not None:
                del dumped["sampling"]["thinking_token_budget"]
        return dumped


def version_1_folder(specification: Specification, sampling: SamplingParams) -> str:
    """Return the folder that answers of the same command have in version 1: no engine settings, all sampling params.

    Args:
        specification: Specification of version 2.
        sampling: Sampling params as chosen, before `effective_sampling`.
    """
    changes = {"specification_version": 1, "engine": {}, "sampling": sampling}
    return specification.model_copy(update=changes).folder


UNUSED_IF_GREEDY = ("seed", "top_p", "top_k", "min_p")
"""Sampling params without effect at temperature 0."""


def effective_sampling(sampling: SamplingParams, method: Method) -> SamplingParams:
    """Return equal sampling params for settings that give the same answers.

    Ranking does not sample. Greedy decoding takes the most likely token, whatever the seed and the share of tokens to
    sample from. `stop` is a set.
    """
    if method == "rank":
        return SamplingParams(max_tokens=1)
    changes: dict[str, Any] = {"stop": tuple(sorted(set(sampling.stop)))}
    if sampling.temperature == 0:
        unused = SamplingParams()
        changes |= {name: getattr(unused, name) for name in UNUSED_IF_GREEDY}
    return sampling.model_copy(update=changes)


def specification_id(stored: Mapping[str, Any]) -> str:
    """Return the id of a specification as stored in JSON: the first 16 hex digits of a sha256 over canonical JSON.

    Version 1 hashes all fields, later versions those that differ from `LEFT_OUT`.
    """
    version = stored.get("specification_version")
    content = stored
    if version != 1:
        content = _differing(stored, LEFT_OUT) | {"specification_version": version}
    canonical = orjson.dumps(content, option=orjson.OPT_SORT_KEYS)
    return hashlib.sha256(canonical).hexdigest()[:16]


def _differing(stored: Mapping[str, Any], left_out: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a stored object that differ from the values left out, and those that are not known."""
    kept = {}
    for name, value in stored.items():
        if (
            name in _PARTS
            and isinstance(value, Mapping)
            and isinstance(left_out.get(name), Mapping)
        ):
            kept[name] = _differing(value, left_out[name])
        elif name not in left_out or value != left_out[name]:
            kept[name] = value
    return kept


def _filled(values: object, left_out: Mapping[str, Any]) -> object:
    if not isinstance(values, Mapping):
        return values
    missing = {name: value for name, value in left_out.items() if name not in _PARTS}
    parts = {
        name: _filled(values[name], left_out[name])
        for name in _PARTS
        if name in values and name in left_out
    }
    return {**deepcopy(missing), **values, **parts}

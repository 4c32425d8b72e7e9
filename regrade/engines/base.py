"""Interface of engines: settings, `open`, and `generate`, which turns requests into completions."""

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol, Self, runtime_checkable

from pydantic import model_validator

from regrade.settings import Settings, registry
from regrade.settings.errors import SettingsError
from regrade.settings.marks import DIVIDES, INDECISIVE, marked

if TYPE_CHECKING:  # the command line reads settings without Arrow and a Hub client
    from regrade.models.base import ResolvedModel
    from regrade.records import Completion, Request
    from regrade.records.computed import BatchCheck, Computed, LoadedWeights
    from regrade.records.specification import Specification
    from regrade.stats.occupancy import Occupancy
    from regrade.stats.speed import EngineMemory, Speed

WAITING = "waiting for"
"""Beginning of the name of a loading stage in which an engine waits for another run."""


@dataclass(frozen=True, slots=True)
class EngineInfo:
    """Properties of a loaded engine; stored in the manifest."""

    engine: str
    """Name of the engine, such as `vllm`."""
    version: str | None
    """Version of the engine's software; None if a server does not report it."""
    device: str | None
    """`cpu`, the name of the GPU, or similar; None if a server does not report it."""
    dtype: str | None
    max_model_len: int | None
    chat_template_sha256: str | None
    """Hash of the chat template in use; None if it has none or only the server knows it."""
    load_seconds: float
    """Time from the start of the engine until it was ready."""
    compile_seconds: float = 0.0
    """Part of it in which the model was compiled; 0 if only the server or other machines know."""
    reasoning_parser: str | None = None
    """vLLM's parser that separated reasoning and answer; None if there was none."""
    structured_outputs: str | None = None
    """Software that keeps answers to a form, with its version, or the request field by which a server does; None if no
    planned answer has a form."""
    max_num_batched_tokens: int | None = None
    """Most tokens in a step; None if only the server knows it."""
    max_num_seqs: int | None = None
    """Most sequences decoded at the same time, over all copies of the model; None if only the server knows it."""
    computed: "Computed | None" = None
    """The computation: precisions, kernels and more; None if only the server knows it."""
    memory: "EngineMemory | None" = None
    """Memory and KV cache at the start; None if the engine does not know."""
    weights: "LoadedWeights | None" = None
    """Weights in memory; None if only the server knows them."""


@dataclass(frozen=True, slots=True)
class PromptRendering:
    """Rules by which an engine turns all its requests into the text that it sends."""

    chat_template: str | None = None
    """Text of a Jinja chat template to use instead of the model's own."""
    truncate: bool = False
    """Cut prompts that exceed the context from the left. Otherwise their rows fail."""


class Engine(Protocol):
    """Turns prompts into completions. A context manager: it loads on entry and stops on exit.

    Enter it on the main thread, because Prefect cancels a flow by a signal to the main thread.
    """

    @property
    def info(self) -> EngineInfo:
        """Properties of the loaded engine; available inside the `with` block."""

    def generate(self, requests: "Iterable[Request]") -> "Iterator[list[Completion]]":
        """Yield completions as they finish, in any order, exactly one for each request.

        `requests` is consumed lazily, with a bounded number in flight, unless it is one of those that were given to
        `open`: the engine may have read these while it loaded. A failed request (too long for the context, rejected by
        the server) yields a completion with `error`. Requests that are withdrawn (`Withdrawable`) need no completion.

        Raises:
            EngineError: If the engine ends before it has answered all requests.
        """

    def __enter__(self) -> Self: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None: ...


@runtime_checkable
class Withdrawable(Protocol):
    """Requests that can be withdrawn while the engine answers others, because another machine has answered them."""

    @property
    def withdrawn(self) -> frozenset[int]:
        """Keys of the requests that need no answer any more. When it grows, it is replaced by a new object."""


@runtime_checkable
class Growing(Protocol):
    """Requests of which some are ready only when others are answered, such as the next turn of a conversation.

    An engine that knows this asks for them while it answers; to others they are given in a further call of `generate`.
    """

    def ready(self, count: int) -> "Sequence[Request]":
        """Return the next requests that became ready, at most `count`, each once.

        Call it on the thread that reads the completions.
        """


@runtime_checkable
class Pooled(Protocol):
    """Requests of several answer sets in one stream, whose kinds may differ."""

    @property
    def parts(self) -> "Sequence[Iterable[Request]]":
        """The requests of each answer set; they can be read again."""


@runtime_checkable
class Illustrated(Protocol):
    """Requests that can tell without being read whether they show images."""

    @property
    def shows_images(self) -> bool:
        """True if a request may show an image."""


def before_stop(text: str, stop: "Sequence[str]", *, after_reasoning: bool) -> str:
    """Return the text before the first of the stop texts; white space between reasoning and answer is no stop text."""
    begin = len(text) - len(text.lstrip()) if after_reasoning else 0
    return text[
        : min((at for end in stop if end and (at := text.find(end, begin)) >= 0), default=None)
    ]


def shows_images(requests: "Iterable[Request]") -> bool:
    """Return True if a request may show an image; the requests can be read again."""
    if isinstance(requests, Illustrated):
        return requests.shows_images
    return any(request.images for request in requests)


def first_requests(planned: "Sequence[Iterable[Request]]") -> "Iterator[Request]":
    """Yield the first request of each answer set in planned streams that can be read again."""
    for requests in planned:
        for part in requests.parts if isinstance(requests, Pooled) else (requests,):
            yield from islice(part, 1)


@runtime_checkable
class MeasuredEngine(Protocol):
    """An engine that measures its speed while it answers."""

    def measure(self) -> "Speed | None":
        """Return measurements of the running call of `generate` so far, else of the last one; None without an answer.

        Call it on the thread that reads the completions.
        """

    @property
    def occupancy(self) -> "Occupancy | None":
        """Seconds of the last call of `generate` in which the engine filled, was full and drained; None without a request."""

    @property
    def unanswered(self) -> int:
        """Requests that `generate` has taken and not answered yet; 0 outside of it."""


@runtime_checkable
class LimitedEngine(Protocol):
    """Engine whose number of requests in flight can be changed while it is loaded."""

    @property
    def in_flight(self) -> int | None:
        """Most requests in flight; None: the engine's own limit."""

    def limit(self, in_flight: int | None) -> None:
        """Set `in_flight` for the following calls of `generate`, and forget the prompts of earlier ones (prefix cache).

        No call of `generate` may be running.
        """


@runtime_checkable
class CheckedEngine(Protocol):
    """Engine that can tell whether an answer depends on the others that it computes at the same time."""

    @property
    def batches(self) -> "BatchCheck | None":
        """Result of the last `check_batches` of this engine; None before it, and if the engine refused."""

    def check_batches(self) -> None:
        """Answer fixed prompts each alone and all together, and keep how far the answers differ.

        No call of `generate` may be running. Prompts are forgotten afterwards (prefix cache).

        Raises:
            EngineError: If the engine ends.
        """


@runtime_checkable
class SwitchingEngine(Protocol):
    """Engine that can go on with another model."""

    def read_ahead(self, model: "ResolvedModel") -> None:
        """Begin to read (or download) the weights of a model that comes later, while the present one answers."""

    def switch(self, model: "ResolvedModel", requests: "Sequence[Iterable[Request]]") -> None:
        """Go on with another model: with its weights in the running engine if that is proven to work, else with a new start.

        No call of `generate` may be running.

        Args:
            model: Result of `resolve`, by the same settings.
            requests: The requests of each call of `generate` that is planned from now on, as for `open`.

        Raises:
            SettingsError: As `open`.
            EngineError: As on entry.
        """


@runtime_checkable
class SleepingEngine(SwitchingEngine, Protocol):
    """Engine that can leave its device to others. It wakes up at the next `switch`, `generate` or check."""

    def sleep(self, *, deep: bool) -> None:
        """Give back the device's memory. No call of `generate` may be running.

        Args:
            deep: Drop the weights instead of keeping them in the machine's memory: the next model's are read.
        """


class BaseEngineSettings(Settings):
    """Base class of an engine's settings; it also resolves the model and opens the engine.

    A subclass states its name as `kind: Literal["name"] = "name"`. Everything that reads settings imports it, so put
    slow imports into its methods.
    """

    option_prefix = "engine."
    option_group = "Engine"
    kind: str

    def identity(self, model: "ResolvedModel", *, truncate: bool) -> dict[str, Any]:  # noqa: ARG002
        """Return the settings that decide what the model computes; they are part of the answer set's id.

        Default: all settings that differ from their default and are not marked as `INDECISIVE`.

        Args:
            model: Result of `resolve`.
            truncate: Prompts are cut to fit the context, so that its length decides the answers.
        """
        return self.model_dump(
            mode="json", exclude_defaults=True, exclude={"kind", *marked(type(self), INDECISIVE)}
        )

    def earlier(
        self,
        specification: "Specification",
        model: "ResolvedModel",  # noqa: ARG002
        *,
        truncate: bool,  # noqa: ARG002
    ) -> "Specification":
        """Return the specification by which earlier versions stored the same answers. Default: the same one."""
        return specification

    def on_any_machine(self, specification: "Specification") -> "tuple[Specification, ...]":
        """Return the specifications that machines of different kinds give the same answers. Default: one for all."""
        return (specification,)

    def able_to_sleep(self) -> Self:
        """Return settings with which the engine is a `SleepingEngine`.

        Raises:
            SettingsError: If it cannot be one here.
        """
        raise SettingsError(
            f"Engine '{self.kind}' cannot sleep: use `between=stay` or `between=end`."
        )

    def check_here(self) -> None:
        """Refuse settings, or variables of the environment, with which the engine cannot run on this machine. Default: none.

        Raises:
            SettingsError: If there are any.
        """

    @abstractmethod
    def resolve(self, model_name: str) -> "ResolvedModel":
        """Return the model to which this engine resolves a name.

        Raises:
            ModelError: If the model does not exist or is incomplete.
            SettingsError: If a server cannot be reached or rejects the API key.
            OperationError: If the Hub cannot be reached.
        """

    @abstractmethod
    def open(
        self,
        model: "ResolvedModel",
        *,
        requests: "Sequence[Iterable[Request]]",
        rendering: PromptRendering,
        log: Path,
        on_progress: Callable[[str], None] | None = None,
    ) -> Engine:
        """Return the engine, not loaded yet; it loads on entry.

        Args:
            model: Result of `resolve`.
            requests: The requests of each call of `generate` that is planned. An engine may read them while it loads,
                once, and choose its context length by them.
            rendering: Rules for turning chat prompts into text.
            log: File for the engine's output.
            on_progress: Called with the name of each loading stage; it begins with `WAITING` if the engine waits for
                another run.

        Raises:
            SettingsError: Here or on entry, if the engine cannot fulfil the settings.
            NotInstalledError: On entry, if the engine's software is not installed.
            EngineError: On entry, if the engine does not start.
        """

    @model_validator(mode="before")
    @classmethod
    def _kind_can_be_used(cls, values: object) -> object:
        """Raise `PluginError` if `kind` names an installed engine that cannot be used."""
        kind = values.get("kind") if isinstance(values, Mapping) else None
        if kind in registry.names("engine"):
            registry.load("engine", kind)
        return values


def parallel_by_hand(engine: BaseEngineSettings) -> dict[str, int]:
    """Return the given settings that divide a model among GPUs."""
    return engine.model_dump(include={*marked(type(engine), DIVIDES)}, exclude_unset=True)

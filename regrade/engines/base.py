"""The interface of an engine: its settings, and requests in, completions out, as they finish."""

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol, Self

from pydantic import model_validator

from regrade import registry
from regrade.settings import Settings

if TYPE_CHECKING:  # the command line reads settings without Arrow and a Hub client
    from regrade.models import ResolvedModel
    from regrade.records import Completion, Request


@dataclass(frozen=True, slots=True)
class EngineInfo:
    """What the engine turned out to be; goes into the manifest's provenance."""

    engine: str
    """Name of the engine, such as `vllm`."""
    version: str | None
    """Version of the engine's software; None where a server does not say."""
    device: str | None
    """Such as `cpu` or the name of the GPU; None where a server does not say."""
    dtype: str | None
    max_model_len: int | None
    chat_template_sha256: str | None
    """Of the chat template in use; None where there is none or only the server knows."""
    load_seconds: float


@dataclass(frozen=True, slots=True)
class PromptRendering:
    """How an engine turns requests into the text that is sent; the same for all requests of one engine."""

    chat_template: str | None = None
    """Text of a Jinja chat template to use instead of the model's own."""
    arguments: Mapping[str, Any] = field(default_factory=dict)
    """Arguments of the chat template, such as `enable_thinking`."""
    truncate: bool = False
    """Cut prompts that are too long for the context from the left, instead of failing their rows."""


class Engine(Protocol):
    """Turns prompts into completions. A context manager: loads on entry, is gone on exit.

    Entered on the main thread by the flow that owns it (Prefect cancels by a signal to the main thread).
    """

    @property
    def info(self) -> EngineInfo:
        """What was loaded; available once entered."""

    def generate(self, requests: "Iterable[Request]") -> "Iterator[list[Completion]]":
        """Yield completions as they finish, in any order, exactly one per request.

        `requests` is consumed lazily, with a bounded number in flight. A request that cannot be served (too long
        for the context, refused by the server) comes back as a completion with `error`.

        Raises:
            EngineError: If the engine ends before its work is done.
        """

    def __enter__(self) -> Self: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None: ...


class BaseEngineSettings(Settings):
    """Base of the settings of an engine: what a person sets, and how it becomes a model and an engine.

    A subclass says its name as `kind: Literal["name"] = "name"`. It is imported wherever settings are read, so slow
    imports belong into its methods.
    """

    kind: str

    @abstractmethod
    def resolve(self, model_name: str) -> "ResolvedModel":
        """Return the model that a name means for this engine.

        Raises:
            ModelError: If there is no such model, or it is not whole.
            SettingsError: If a server cannot be reached or refuses our key.
            OperationError: If the Hub cannot be reached.
        """

    @abstractmethod
    def open(
        self,
        model: "ResolvedModel",
        *,
        longest: "Sequence[Request]",
        rendering: PromptRendering,
        log: Path,
        on_progress: Callable[[str], None] | None = None,
    ) -> Engine:
        """Return the engine, which loads when it is entered and is gone when it is left.

        Args:
            model: Result of `resolve`.
            longest: The longest requests, a few hundred by rough length; they decide `max_model_len` if it is not set.
            rendering: How chat prompts become text.
            log: File that takes the engine's own output.
            on_progress: Called with a few words while the engine loads.

        Raises:
            SettingsError: Here or on entry, if the engine cannot be as asked.
            NotInstalledError: On entry, if the engine's software is not installed.
            EngineError: On entry, if the engine does not start.
        """

    @model_validator(mode="before")
    @classmethod
    def _kind_can_be_used(cls, given: object) -> object:
        """Raise `PluginError` if `kind` names an installed engine that cannot be used."""
        kind = given.get("kind") if isinstance(given, Mapping) else None
        if kind in registry.names("engine"):
            registry.load("engine", kind)
        return given

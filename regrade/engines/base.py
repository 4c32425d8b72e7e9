"""What every engine offers: requests in, completions out, as they finish."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Protocol, Self

from regrade.records import Completion, Request


@dataclass(frozen=True, slots=True)
class EngineInfo:
    """What the engine turned out to be; goes into the manifest's provenance."""

    engine: str
    """`vllm` or `openai`."""
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

    def generate(self, requests: Iterable[Request]) -> Iterator[list[Completion]]:
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

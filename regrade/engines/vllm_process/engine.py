"""Owner side of the engine `vllm`: send requests to a worker process and receive completions."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from regrade.engines.base import EngineInfo, PromptRendering
from regrade.engines.vllm_process.channel import Message
from regrade.engines.vllm_process.environment import engine_python, install_vllm_command
from regrade.engines.vllm_process.extra import parse_extra, refuse_code
from regrade.engines.vllm_process.logs import last_error, status_in_words
from regrade.engines.vllm_process.process import EngineProcess
from regrade.engines.vllm_process.settings import VllmSettings
from regrade.errors import EngineError, NotInstalledError, SettingsError
from regrade.models import ResolvedModel
from regrade.records import Completion, Request

_CHUNK = 64
"""Requests per message; small, so that the worker starts early and completions are read in between."""


class VllmProcess:
    """vLLM in a worker process; implements `Engine`."""

    def __init__(
        self,
        settings: VllmSettings,
        model: ResolvedModel,
        *,
        longest: Sequence[Request],
        rendering: PromptRendering,
        log: Path,
        on_progress: Callable[[str], None] | None = None,
    ) -> None:
        extra = parse_extra(settings.extra)
        refuse_code(extra)
        self._log = log
        self._on_progress = on_progress
        # Other arguments may name a tokenizer or a draft model on the Hub.
        self._from_hub = model.identity.kind == "hub" or bool(settings.extra)
        self._open_message = {
            "type": "open",
            "model": model.path,
            "revision": model.revision,
            "settings": settings.model_dump(exclude={"kind", "extra"}),
            "extra": extra,
            "rendering": {
                "chat_template": rendering.chat_template,
                "arguments": dict(rendering.arguments),
                "truncate": rendering.truncate,
            },
            "longest": [_to_wire(request) for request in longest],
        }
        self._process: EngineProcess | None = None
        self._info: EngineInfo | None = None
        self._log_start = 0
        self._window = 0
        self._round = 0
        self._busy = False
        self._answered = False

    @property
    def info(self) -> EngineInfo:
        """Properties of the loaded engine."""
        if self._info is None:
            raise RuntimeError("the engine is not loaded: use it as a context manager")
        return self._info

    @property
    def pid(self) -> int | None:
        """Process id of the supervisor, the root of the engine's process tree; None if it is not started."""
        return None if self._process is None else self._process.pid

    def __enter__(self) -> Self:
        self._log.parent.mkdir(parents=True, exist_ok=True)
        self._log_start = self._log.stat().st_size if self._log.exists() else 0
        command = [engine_python(), "-m", "regrade.engines.vllm_process.worker"]
        self._process = EngineProcess(command, self._log, hub_token=self._from_hub)
        try:
            self._load(self._process)
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._end()

    def generate(self, requests: Iterable[Request]) -> Iterator[list[Completion]]:
        """Yield completions as they finish; see `Engine.generate`."""
        process = self._process
        if process is None or self._info is None:
            raise RuntimeError("the engine is not loaded: use it as a context manager")
        if self._busy:
            raise RuntimeError(
                "the engine still serves another stream of requests: exhaust or close it first"
            )
        self._busy = True
        self._round += 1
        waiting, unanswered = iter(requests), 0
        try:
            while True:
                while chunk := list(islice(waiting, min(_CHUNK, self._window - unanswered))):
                    self._send(process, chunk)
                    unanswered += len(chunk)
                    if process.channel.has_message():
                        break
                if not unanswered:
                    return
                message = self._receive(process)
                if message["type"] == "completions" and message["round"] == self._round:
                    completions = [_from_wire(fields) for fields in message["completions"]]
                    unanswered -= len(completions)
                    self._answered = self._answered or bool(completions)
                    yield completions
        finally:
            self._busy = False
            if unanswered and self._process is process:
                self._cancel(process)

    def _load(self, process: EngineProcess) -> None:
        try:
            process.channel.send(self._open_message)
        except (BrokenPipeError, ConnectionResetError) as error:
            raise self._failure(process, "did not start") from error
        while (message := self._receive(process, "did not start"))["type"] != "loaded":
            if message["type"] == "progress" and self._on_progress is not None:
                self._on_progress(message["stage"])
        self._info = EngineInfo(**message["info"])
        self._window = message["window"]

    def _send(self, process: EngineProcess, chunk: list[Request]) -> None:
        wire = [_to_wire(request) for request in chunk]
        try:
            process.channel.send({"type": "requests", "round": self._round, "requests": wire})
        except (BrokenPipeError, ConnectionResetError) as error:
            raise self._failure(process, "ended before its work was done") from error

    def _cancel(self, process: EngineProcess) -> None:
        try:
            process.channel.send({"type": "cancel", "round": self._round})
        except OSError:
            self._end()  # the worker has ended

    def _receive(
        self, process: EngineProcess, when: str = "ended before its work was done"
    ) -> Message:
        message = process.channel.receive()
        if message is None:
            raise self._failure(process, when)
        if message["type"] == "error":
            if message["kind"] == "not_installed":
                raise NotInstalledError(
                    f"vLLM (for '{message['message']}')", install_vllm_command()
                )
            raise SettingsError(message["message"])
        return message

    def _failure(self, process: EngineProcess, when: str) -> EngineError:
        status = process.end()
        reason = last_error(self._log, self._log_start) or status_in_words(status)
        problem = f"The engine {when}: {reason.rstrip('.')}."
        return EngineError(problem, str(self._log), self._answered)

    def _end(self) -> None:
        if self._process is not None:
            self._process.end()
            self._process = None


def _to_wire(request: Request) -> dict[str, Any]:
    return {
        "key": request.key,
        "prompt": request.prompt
        if isinstance(request.prompt, str)
        else [dict(m) for m in request.prompt],
        "sampling": dict(request.sampling),
        "labels": request.labels,
    }


def _from_wire(fields: Mapping[str, Any]) -> Completion:
    logprobs = fields.get("label_logprobs")
    if logprobs is None:
        return Completion(**fields)
    # JSON has no infinity: orjson writes null.
    finite = tuple(-math.inf if logprob is None else logprob for logprob in logprobs)
    return Completion(**{**fields, "label_logprobs": finite})

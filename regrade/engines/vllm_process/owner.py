"""Owner side of a worker process that runs vLLM: it lives as long as a `with` block, and its errors are raised here."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import Self

from regrade.engines.vllm_process.channel import Message
from regrade.engines.vllm_process.environment import install_vllm_command
from regrade.engines.vllm_process.process import EngineProcess
from regrade.settings.errors import NotInstalledError, SettingsError, UserError


class WorkerOwner(ABC):
    """Starts a worker process, exchanges messages with it, and ends it. Use as a context manager."""

    def __init__(self, log: Path, on_progress: Callable[[str], None] | None) -> None:
        """Prepare the process, which starts with the block.

        Args:
            log: File for the output of vLLM.
            on_progress: Called with the name of each stage.
        """
        self._log = log
        self._progress: Callable[[str], None] = on_progress or (lambda _: None)
        self._process: EngineProcess | None = None

    def __enter__(self) -> Self:
        self._process = self._start()
        try:
            self._open()
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    @abstractmethod
    def _start(self) -> EngineProcess:
        """Start the process."""

    @abstractmethod
    def _open(self) -> None:
        """Exchange the first messages of a block."""

    @abstractmethod
    def _failure(self, reason: str) -> Exception:
        """Return the error to raise if the worker has ended."""

    def _running(self) -> EngineProcess:
        if self._process is None:
            raise RuntimeError("use it as a context manager")
        return self._process

    def _send(self, message: Message) -> None:
        try:
            self._running().channel.send(message)
        except (BrokenPipeError, ConnectionResetError):
            while True:  # raises the worker's last error, or that the worker has ended
                self._receive()

    def _receive(self) -> Message:
        """Return the next message; show stages, and raise errors."""
        process = self._running()
        message = process.channel.receive()
        if message is None:
            raise self._failure(process.end_with_reason())
        if message["type"] == "error":
            raise _refusal(message["kind"], message["message"])
        if message["type"] == "progress":
            self._progress(message["stage"])
        return message

    def _end(self) -> None:
        if self._process is not None:
            self._process.end()
            self._process = None


def _refusal(kind: str, message: str) -> UserError:
    """Return the error to raise for an error that the worker sent."""
    if kind == "not_installed":
        return NotInstalledError(f"vLLM (for '{message}')", install_vllm_command())
    return SettingsError(message)

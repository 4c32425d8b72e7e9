"""Owner side: compute the memory of the splits of a model with vLLM, in a separate process."""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from regrade.engines.base import PromptRendering, shows_images
from regrade.engines.vllm_process.engine import ahead_messages, needs_hub_token, open_message
from regrade.engines.vllm_process.environment import engine_python
from regrade.engines.vllm_process.owner import WorkerOwner
from regrade.engines.vllm_process.process import EngineProcess
from regrade.engines.vllm_process.settings import VllmSettings
from regrade.models.base import ResolvedModel
from regrade.processes.slots import machine_folder
from regrade.records import Request
from regrade.settings.errors import EngineError, NotInstalledError, SettingsError


@dataclass(frozen=True, slots=True)
class Machine:
    """The machine on which vLLM plans."""

    is_cpu: bool
    device: str
    count: int
    """Number of GPUs; 1 without one."""
    memory: int | None
    """Memory of a GPU in bytes; None without one."""
    version: str
    """Version of vLLM."""


@dataclass(frozen=True, slots=True)
class Length:
    """The context length, and the sizes of the model on which splits depend."""

    max_model_len: int
    """Tokens of prompt and answer together for which the KV cache is planned."""
    model_limit: int
    """Context length in tokens that the model allows."""
    requests: int
    """Number of requests that decided the length."""
    longest_prompt: int | None
    longest_answer: int | None
    """Tokens of the longest request; None without requests."""
    dtype: str
    heads: int
    kv_heads: int
    vocabulary: int
    layers: int


@dataclass(frozen=True, slots=True)
class SplitMemory:
    """Memory of a split, in bytes, on a GPU of each pipeline stage."""

    weights: tuple[int, ...]
    parameters: int
    """Elements on the GPUs of a tensor parallel rank."""
    usable: int | None
    """Bytes of a GPU that vLLM may use; None on a CPU."""
    kv_cache: tuple[int, ...]
    """Bytes left for the KV cache; negative if the weights exceed the memory."""
    needed: tuple[int, ...]
    """KV cache for one request of the greatest length."""
    tokens: int | None
    """Capacity of one copy of the model; None without a KV cache."""
    concurrency: float | None
    """Requests of the greatest length that one copy holds at the same time."""


class VllmPlanner(WorkerOwner):
    """vLLM in a process that loads no weights. Use as a context manager."""

    machine: Machine
    """The machine; known inside the block."""
    length: Length
    """The context length; known inside the block."""

    def __init__(
        self,
        settings: VllmSettings,
        model: ResolvedModel,
        *,
        target: Mapping[str, str | int | None] | None,
        requests: Sequence[Iterable[Request]],
        rendering: PromptRendering,
        log: Path,
        on_progress: Callable[[str], None] | None = None,
    ) -> None:
        """Prepare the process, which starts with the block.

        Args:
            settings: Settings of the engine.
            model: The model; it needs no weights, and no tokenizer without requests.
            target: `name` of the GPUs to plan for, and their `memory` in bytes. None: this machine.
            requests: Requests whose length decides the context, of each benchmark; empty: the settings, or the model's limit.
            rendering: Rules for turning chat prompts into text.
            log: File for the output of vLLM.
            on_progress: Called with the name of each stage.

        Raises:
            SettingsError: If an extra argument of the engine is not allowed.
        """
        super().__init__(log, on_progress)
        self._opening = {
            **open_message(settings, model, rendering),
            "target": target,
            "shows_images": any(map(shows_images, requests)),
        }
        self._hub_token = needs_hub_token(settings, model)
        self._requests = requests

    def split(self, tensor: int, pipeline: int, data: int, *, reserved: int) -> SplitMemory | str:
        """Return the memory of a split, or vLLM's message if it refuses it.

        Args:
            tensor: GPUs that share each layer.
            pipeline: Groups of layers.
            data: Copies of the model.
            reserved: Bytes of a GPU that are neither weights nor KV cache.
        """
        self._progress(f"TP {tensor} x PP {pipeline} x DP {data}")
        sizes = {"tensor": tensor, "pipeline": pipeline, "data": data, "reserved": reserved}
        self._send({"type": "split", **sizes})
        answer = self._answer("split")
        if (refused := answer.pop("refused")) is not None:
            return str(refused)
        lists = {name: tuple(answer[name]) for name in ("weights", "kv_cache", "needed")}
        return SplitMemory(**(answer | lists))

    def _start(self) -> EngineProcess:
        command = [engine_python(), "-m", "regrade.engines.vllm_process.plan_worker"]
        return EngineProcess(command, self._log, hub_token=self._hub_token)

    def _open(self) -> None:
        self._send(self._opening)
        self.machine = Machine(**self._answer("machine"))
        for message in ahead_messages(0, chain.from_iterable(self._requests), set()):
            self._send(message)
        self._send({"type": "load"})
        self.length = Length(**self._answer("length"))

    def _answer(self, kind: str) -> dict[str, Any]:
        """Return the fields of the next message of a kind."""
        while (message := self._receive())["type"] != kind:
            pass
        return {name: value for name, value in message.items() if name != "type"}

    def _failure(self, reason: str) -> EngineError:
        return EngineError(f"vLLM's process for planning ended: {reason}.", str(self._log))


def found_anyway(settings: VllmSettings, model: ResolvedModel) -> frozenset[str]:
    """Return which of `quantization` and `reasoning_parser` name what vLLM finds without them.

    Nothing, where vLLM is not installed or refuses the settings: its start says so.
    """
    log = machine_folder("logs") / f"settings-{os.getpid()}.log"
    try:
        rendering = PromptRendering()
        with _Finder(
            settings, model, target=None, requests=(), rendering=rendering, log=log
        ) as finder:
            found = finder.found
    except (NotInstalledError, SettingsError):
        found = frozenset()
    log.unlink(missing_ok=True)
    return found


class _Finder(VllmPlanner):
    """vLLM in a process that reads the model's configuration and tokenizer."""

    found: frozenset[str] = frozenset()

    def _open(self) -> None:
        self._send({**self._opening, "type": "find"})
        self.found = frozenset(self._answer("found")["names"])

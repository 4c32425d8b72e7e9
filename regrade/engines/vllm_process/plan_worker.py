"""The process that plans memory: `python -m regrade.engines.vllm_process.plan_worker`, started by the supervisor.

It imports vLLM like an engine's worker, but loads no weights and computes on no GPU. Each split is built in a fork, because
vLLM's classes keep state of the process.

Messages of the owner: `open`, `ahead` (requests, if their length decides), `load`; then `split`, one at a time.
Messages to the owner: `progress`, `machine`, `length`, `split`, `error`.
"""

import dataclasses
import sys
from collections.abc import Iterator
from itertools import chain
from typing import TYPE_CHECKING, Any

from regrade.engines.vllm_process.arguments import engine_arguments, engine_config, model_config
from regrade.engines.vllm_process.channel import Channel, Message
from regrade.engines.vllm_process.context import choose_max_model_len
from regrade.engines.vllm_process.forked import ForkFailedError, in_fork, message_of
from regrade.engines.vllm_process.loading import INSTALL_SUPPORTED, import_vllm, open_prompts
from regrade.engines.vllm_process.meta_model import build_stages, lay_out
from regrade.engines.vllm_process.serve import serve_owner
from regrade.engines.vllm_process.tokenising import RequestsSummary, tokenised
from regrade.records.computed import NONE
from regrade.settings.errors import SettingsError

if TYPE_CHECKING:
    from regrade.engines.vllm_process.internals import EngineArgs, VllmConfig

_GIB = 1 << 30
_GPU_BLOCK = 16
"""vLLM's default block of the KV cache on GPUs, in tokens; on a CPU it is larger."""
_CLASSES = ((70, 16384, 1024), (0, 8192, 256))
"""vLLM's defaults for offline use by the least memory of a GPU in GiB: tokens in a step, sequences (`get_batch_defaults`)."""

_ON_A_GPU = "vLLM for GPUs may allow it: plan on a machine with one."


def serve(channel: Channel) -> int:
    """Answer the owner's messages until the channel closes."""
    open_message = channel.receive()
    if open_message is None:
        return 0
    channel.send({"type": "progress", "stage": "importing vLLM"})
    if open_message["type"] == "find":
        channel.send({"type": "found", "names": found_anyway(open_message)})
        return 0
    planner = Planner(open_message)
    channel.send({"type": "machine", **planner.machine})
    channel.send({"type": "progress", "stage": "reading the model's configuration"})
    channel.send({"type": "length", **planner.length(iter(channel.receive, None))})
    while (message := channel.receive()) is not None:
        channel.send({"type": "split", **planner.split(message)})
    return 0


def found_anyway(open_message: Message) -> list[str]:
    """Return the settings that name what vLLM finds without them.

    Raises:
        SettingsError: If vLLM does not allow the settings.
    """
    settings = open_message["settings"]
    is_cpu = import_vllm().current_platform.is_cpu()
    given = engine_arguments(open_message, is_cpu=is_cpu)
    without = model_config(dataclasses.replace(given, quantization=None))
    names = []
    if settings["quantization"] and model_config(given).quantization == without.quantization:
        names.append("quantization")
    if settings["reasoning_parser"] != "auto":
        automatic = {**open_message, "settings": {**settings, "reasoning_parser": "auto"}}
        _, reader, _ = open_prompts(automatic, without)
        if settings["reasoning_parser"] == (NONE if reader is None else reader.name):
            names.append("reasoning_parser")
    return names


class Planner:
    """Memory of the splits of one model."""

    def __init__(self, open_message: Message) -> None:
        """Import vLLM.

        Args:
            open_message: As for an engine, and `target`: `name` and `memory` (bytes) of the GPUs to plan for, or None for
                this machine.

        Raises:
            SettingsError: If vLLM lacks a name.
        """
        vllm = import_vllm()
        self._version: str = vllm.__version__
        self._planning_names = vllm.planning_names
        self._open = open_message
        self._target: dict[str, Any] | None = open_message["target"]
        platform = vllm.current_platform
        self._here_is_cpu: bool = platform.is_cpu()
        self._is_cpu = self._here_is_cpu and self._target is None
        self.built_here = False
        self._max_model_len = 0
        self._unchunked = False
        self._limits: dict[str, int] = {}
        """vLLM's `limit_mm_per_prompt`; empty without images."""
        count, memory = 1, None
        if not self._here_is_cpu:  # neither call initialises the GPU, which would break the forks
            count, memory = platform.device_count(), platform.get_device_total_memory()
        self.machine = {
            "is_cpu": self._here_is_cpu,
            "device": platform.get_device_name(),
            "count": count,
            "memory": memory,
            "version": self._version,
        }

    def length(self, messages: Iterator[Message]) -> dict[str, Any]:
        """Choose the context length by the requests; without any, it is that of the settings, or the model's.

        Raises:
            SettingsError: If vLLM or the model does not allow the settings, or a request cannot be answered.
        """
        arguments = self._arguments(1, 1, 1)
        try:
            model = model_config(arguments)
        except SettingsError as error:
            if not self._here_is_cpu or self._is_cpu:
                raise
            raise SettingsError(f"{error} {_ON_A_GPU}") from error
        summary = RequestsSummary()
        first = next(messages)
        if first["type"] != "load":
            arguments.skip_tokenizer_init = False
            prompts, _, _ = open_prompts(self._open, model_config(arguments))
            ahead = tokenised(chain([first], messages), prompts, self._open["model"])
            summary = ahead.summary
            ahead.close()
            if not summary.needs:
                raise SettingsError(str(summary.first_error))
            if prompts.pictures is not None:
                self._limits = prompts.pictures.limits(summary.most_images)
                prompts.pictures.close()
        self._max_model_len = choose_max_model_len(
            summary.within(model.max_model_len),
            limit=model.max_model_len,
            explicit=self._open["settings"]["max_model_len"],
            truncate=self._open["rendering"]["truncate"],
        )
        self._unchunked = self._is_cpu and summary.sampled  # as the engine: see `loading.load`
        longest, sizes = summary.longest, model.model_arch_config
        return {
            "max_model_len": self._max_model_len,
            "model_limit": model.max_model_len,
            "requests": summary.requests,
            "longest_prompt": None if longest is None else longest.prompt,
            "longest_answer": None if longest is None else longest.new,
            "dtype": str(model.dtype).removeprefix("torch."),
            # The sizes that decide in how many parts the model can be split:
            "heads": sizes.total_num_attention_heads,
            "kv_heads": model.get_total_num_kv_heads(),
            "vocabulary": sizes.vocab_size,
            "layers": sizes.total_num_hidden_layers,
        }

    def split(self, message: Message) -> dict[str, Any]:
        """Return the memory of a split, or why vLLM refuses it (`refused`).

        Args:
            message: `tensor`, `pipeline`, `data`, and `reserved`: bytes of a GPU that are neither weights nor KV cache.

        Raises:
            SettingsError: If vLLM lacks a name.
        """
        try:
            self._planning_names()
        except ImportError as error:
            raise SettingsError(
                f"vLLM {self._version} cannot plan memory for regrade: {error.msg}. {INSTALL_SUPPORTED}"
            ) from error
        if self._here_is_cpu and not self.built_here:
            # In this process, so that the forks that follow have the modules that vLLM imports now. On a GPU it
            # would also create a GPU context, which would break the forks.
            self.built_here = True
            try:
                return self._split(message)
            except Exception as error:  # noqa: BLE001 - vLLM raises any kind
                return {"refused": message_of(error)}
        try:
            result: dict[str, Any] = in_fork(lambda: self._split(message))
        except ForkFailedError as error:
            return {"refused": str(error)}
        return result

    def _split(self, message: Message) -> dict[str, Any]:
        arguments = self._arguments(message["tensor"], message["pipeline"], message["data"])
        config = engine_config(
            arguments, self._max_model_len, chunked_prefill=False if self._unchunked else None
        )
        stages = build_stages(config, for_gpu=self._here_is_cpu and not self._is_cpu)
        weights = [stage.weights for stage in stages]
        usable, memory = self._memory(config, weights, message["reserved"])
        layout = lay_out(config, stages, memory)
        return {
            "refused": None,
            "weights": weights,
            "parameters": sum(stage.parameters for stage in stages),
            "usable": usable,
            "kv_cache": memory,
            "needed": [0] * len(stages) if layout is None else list(layout.needed),
            "tokens": None if layout is None else layout.tokens,
            "concurrency": None if layout is None else layout.concurrency,
        }

    def _memory(
        self, config: "VllmConfig", weights: list[int], reserved: int
    ) -> tuple[int | None, list[int]]:
        """Return the bytes of a GPU that vLLM may use (None on a CPU), and those for the KV cache by stage."""
        cache = config.cache_config
        memory = self._target["memory"] if self._target else self.machine["memory"]
        usable = None if memory is None else int(memory * cache.gpu_memory_utilization)
        if cache.kv_cache_memory_bytes is not None:
            return usable, [cache.kv_cache_memory_bytes] * len(weights)
        if usable is None:
            raise SettingsError("The memory for the KV cache is not set.")
        return usable, [usable - size - reserved for size in weights]

    def _arguments(self, tensor: int, pipeline: int, data: int) -> "EngineArgs":
        parallel = {
            "tensor_parallel_size": tensor,
            "pipeline_parallel_size": pipeline,
            "data_parallel_size": data,
        }
        message = {**self._open, "settings": {**self._open["settings"], **parallel}}
        arguments = engine_arguments(message, is_cpu=self._is_cpu)
        arguments = dataclasses.replace(
            arguments,
            skip_tokenizer_init=not self._open.get("shows_images", False),
            load_format="dummy",
            enforce_eager=True,  # compiling takes time and changes neither weights nor KV cache
        )
        if self._limits and "limit_mm_per_prompt" not in self._open["extra"]:
            arguments.limit_mm_per_prompt = {**self._limits}
        if self._here_is_cpu and self._target is not None:
            _as_on_a_gpu(arguments, self._target)
        if tensor * pipeline * data > 1:
            arguments.distributed_executor_backend = "mp"  # else vLLM looks for the GPUs
        return arguments


def _as_on_a_gpu(arguments: "EngineArgs", target: dict[str, Any]) -> None:
    """Set vLLM's defaults for a GPU, which on a machine without one would be those of a CPU."""
    if arguments.block_size is None:
        arguments.block_size = _GPU_BLOCK
    gib = target["memory"] / _GIB
    if "a100" in target["name"].lower():
        gib = 0  # as in vLLM, where larger steps are slower
    tokens, sequences = next((t, s) for least, t, s in _CLASSES if gib >= least)
    if arguments.max_num_batched_tokens is None:
        arguments.max_num_batched_tokens = tokens
    if arguments.max_num_seqs is None:
        arguments.max_num_seqs = sequences


if __name__ == "__main__":
    sys.exit(serve_owner(serve))

"""Worker side: refuse a model that cannot fit, before its weights are read, and record the memory that it took."""

import logging
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import psutil

from regrade.engines.vllm_process.environment import CHECK_FIT, checks_fit
from regrade.engines.vllm_process.forked import ForkFailedError, in_fork
from regrade.engines.vllm_process.meta_model import build_stages, lay_out
from regrade.settings.errors import SettingsError
from regrade.stats.scale import percent
from regrade.stats.speed import EngineMemory, gib

if TYPE_CHECKING:
    from regrade.engines.vllm_process.internals import VllmConfig

logger = logging.getLogger(__name__)
SECONDS = 60.0
"""Time limit of the check; without a result the model is loaded unchecked."""


@dataclass(frozen=True, slots=True)
class MemoryNeed:
    """Memory that a model needs, in bytes, on a GPU of each pipeline stage."""

    weights: tuple[int, ...]
    kv_cache: tuple[int, ...]
    """KV cache for one request of the greatest length."""
    bytes_per_block: tuple[int, ...]
    layers: tuple[str, ...]
    kernels: tuple[str, ...]
    attention: tuple[str, ...]
    """Names that vLLM chose for the model; see `Stage`."""


def check_fit(config: "VllmConfig", *, by_memory: bool) -> MemoryNeed | None:
    """Return the memory that the model needs; None if vLLM's classes cannot compute it.

    Activations and CUDA graphs count as 0, because only a start can measure them: no model that fits is refused.

    Args:
        config: Configuration of the engine, which stays as it is.
        by_memory: vLLM chooses the length by the remaining memory.

    Raises:
        SettingsError: If the weights alone, or with the KV cache of one request, exceed the memory.
    """
    from regrade.engines.vllm_process.internals import planning_names

    try:
        platform = planning_names().current_platform
        need = in_fork(lambda: _needed(config), seconds=SECONDS)
    except (ForkFailedError, ImportError) as error:
        logger.warning("memory not checked before loading: %s", error)
        return None
    cache = config.cache_config
    is_cpu = platform.is_cpu()
    memory = psutil.virtual_memory().total if is_cpu else platform.get_device_total_memory()
    share = 1.0 if is_cpu else cache.gpu_memory_utilization
    usable = int(memory * share)
    device = (
        "this machine has" if is_cpu else f"vLLM may use ({percent(share, 0)} of {gib(memory)})"
    )
    largest = max(need.weights)
    unchecked = not checks_fit()
    if largest > usable and not unchecked:
        raise SettingsError(
            f"The model does not fit: its weights take {gib(largest)}{'' if is_cpu else ' of each GPU'}, {gib(largest - usable)} "
            f"more than {device}. {_ADVICE}"
        )
    if by_memory or unchecked:
        return need
    fixed = cache.kv_cache_memory_bytes
    rooms = (
        [usable - weights for weights in need.weights]
        if fixed is None
        else [fixed] * len(need.weights)
    )
    lacking, room, needed = max((n - r, r, n) for n, r in zip(need.kv_cache, rooms, strict=True))
    if lacking > 0:
        left = (
            "is set to"
            if fixed is not None
            else f"gets at most the {gib(usable)} that {device}, less the weights:"
        )
        raise SettingsError(
            f"One request of {config.model_config.max_model_len:,} tokens does not fit: it takes {gib(needed)} of KV cache, which "
            f"{left} {gib(room)}, {gib(lacking)} too little. Lower `sampling.max_tokens` or `engine.max_model_len`, or "
            f"{_ADVICE[0].lower()}{_ADVICE[1:]}"
        )
    return need


_ADVICE = (
    "Share the model between more GPUs (`engine.tensor_parallel_size`), or quantise it: `regrade plan MODEL --gpus N` shows what "
    "fits. Counted are the weights as vLLM keeps them, quantised online if so set, and the KV cache, not activations and CUDA graphs; "
    f"with {CHECK_FIT}=off, the model is loaded all the same."
)


def memory_at_start(config: "VllmConfig", need: MemoryNeed | None) -> EngineMemory:
    """Return the memory of a loaded engine.

    Args:
        config: Its configuration, in which vLLM records the size of the KV cache.
        need: Memory that the model needs; None if it is not known.
    """
    from regrade.engines.vllm_process.internals import current_platform

    cache, scheduler = config.cache_config, config.scheduler_config
    weights = kv_cache = usable = None
    # A draft model and an adapter take memory beside the model's.
    if need is not None and config.speculative_config is None and config.lora_config is None:
        copies = config.parallel_config.data_parallel_size
        blocks = (cache.num_gpu_blocks or 0) // copies  # of all copies
        sizes = zip(need.weights, need.bytes_per_block, strict=True)
        total = {w + blocks * block: (w, blocks * block) for w, block in sizes}
        weights, kv_cache = total[max(total)]
        if not current_platform.is_cpu() and cache.kv_cache_memory_bytes is None:
            usable = int(current_platform.get_device_total_memory() * cache.gpu_memory_utilization)
    return EngineMemory(
        kv_cache_tokens=cache.kv_cache_size_tokens,
        kv_cache_concurrency=cache.kv_cache_max_concurrency,
        weights=weights,
        kv_cache=kv_cache,
        usable=usable,
        max_num_batched_tokens=scheduler.max_num_batched_tokens,
        max_num_seqs=scheduler.max_num_seqs,
    )


def _needed(config: "VllmConfig") -> MemoryNeed:
    stages = build_stages(config)
    layout = lay_out(config, stages, None)
    none = (0,) * len(stages)
    return MemoryNeed(
        weights=tuple(stage.weights for stage in stages),
        kv_cache=none if layout is None else layout.needed,
        bytes_per_block=none if layout is None else layout.bytes_per_block,
        layers=_chosen(stage.layers for stage in stages),
        kernels=_chosen(stage.kernels for stage in stages),
        attention=_chosen(stage.attention for stage in stages),
    )


def _chosen(names: Iterable[frozenset[str]]) -> tuple[str, ...]:
    return tuple(sorted(frozenset().union(*names)))

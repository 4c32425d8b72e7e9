"""Worker side: memory of a model by vLLM's own classes, built on torch's meta device, which has shapes but no weights.

The model class gives the weights of each pipeline stage, its attention layers their KV cache specifications, and vLLM lays the
KV cache out for a given memory. Everything except that memory is what the engine itself does at its start, so that the
tokens are exactly those of the engine.
"""

import contextlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from regrade.engines.vllm_process.internals import VllmConfig

_WEIGHTS_ONLY = re.compile(r"marlin|humming|A16|BF16|machete|exllama|conch|gptq|awq", re.IGNORECASE)
"""Names of vLLM's classes that do not quantise activations."""
_PLENTY = 1 << 50
"""Memory in which any request fits, in bytes; its layout shows the need of one request."""


@dataclass(frozen=True, slots=True)
class Stage:
    """The part of a model that a GPU of a pipeline stage holds."""

    weights: int
    """Bytes of parameters and buffers."""
    parameters: int
    """Elements of the parameters; a packed element of a quantised weight counts once."""
    kv_cache_specs: dict[str, Any]
    """vLLM's specification of the KV cache of each layer."""
    layers: frozenset[str]
    """Classes of the quantised layers, with the precision of their activations."""
    kernels: frozenset[str]
    """Names of the kernels that vLLM chose."""
    attention: frozenset[str]
    """Names of the attention backends."""


@dataclass(frozen=True, slots=True)
class Layout:
    """A KV cache as vLLM lays it out."""

    needed: tuple[int, ...]
    """Bytes for one request of the greatest length and vLLM's reserved block, on a GPU of each stage."""
    bytes_per_block: tuple[int, ...]
    tokens: int | None
    """Capacity of an engine; None if no memory was given."""
    concurrency: float | None
    """Requests of the greatest length at the same time."""


def build_stages(config: "VllmConfig", *, for_gpu: bool = False) -> list[Stage]:
    """Return the model's pipeline stages for a GPU of each, without reading weights.

    Changes the configuration as an engine does (sizes of blocks), and refers to the built layers afterwards.

    Args:
        config: The configuration.
        for_gpu: On a machine without a GPU, build layers of quantised weights even if only a GPU, or another CPU, can
            compute them.

    Raises:
        Exception: Any error of vLLM, which refuses splits in many places.
    """
    import torch
    from torch.fx.experimental import _config as symbolic

    from regrade.engines.vllm_process.internals import planning_names

    vllm = planning_names()
    stages = []
    for number in range(config.parallel_config.pipeline_parallel_size):
        config.compilation_config.static_forward_context.clear()
        dtype = config.model_config.dtype
        with (
            _stand_ins(vllm, config, number),
            _all_kernels() if for_gpu else contextlib.nullcontext(),
            # Some classes index by `nonzero`, whose size is not known without data.
            symbolic.patch(meta_nonzero_assume_all_nonzero=True),  # type: ignore[attr-defined]
            vllm.set_current_vllm_config(config),
            vllm.set_default_torch_dtype(dtype),
        ):
            with torch.device("meta"):
                model = vllm.initialize_model(config)
            vllm.current_platform.update_block_size_for_backend(config)
            specs = vllm.get_kv_cache_spec(config)
            attention = vllm.get_current_attn_backends(config) if specs else []
        layers, kernels = _chosen(model)
        parameters = {id(tensor): tensor for tensor in model.parameters()}
        buffers = {id(tensor): tensor for tensor in model.buffers()}
        stages.append(
            Stage(
                weights=sum(t.numel() * t.element_size() for t in (parameters | buffers).values())
                - _saved_online(model),
                parameters=sum(tensor.numel() for tensor in parameters.values()),
                kv_cache_specs=specs,
                layers=layers,
                kernels=kernels,
                attention=frozenset(backend.get_name() for backend in attention),
            )
        )
    return stages


_ONLINE_BYTES = {"Mxfp4": 17 / 32, "Nvfp4": 9 / 16, "Mxfp8": 33 / 32}
"""Bytes per weight with its scale, by the beginning of the name of vLLM's class; other classes take a byte."""


def _saved_online(model: Any) -> int:  # noqa: ANN401 - a module of torch
    """Return the bytes that online quantisation saves: vLLM quantises layer by layer while it loads."""
    saved = 0.0
    for module in model.modules():
        method = getattr(module, "quant_method", None)
        if not getattr(method, "uses_meta_device", False):
            continue
        kinds = (
            size for kind, size in _ONLINE_BYTES.items() if type(method).__name__.startswith(kind)
        )
        size = next(kinds, 1.0)
        saved += sum(
            weight.numel() * (weight.element_size() - size)
            for weight in module.parameters(recurse=False)
            if weight.dim() > 1 and weight.element_size() > 1
        )
    return int(saved)


def _chosen(model: Any) -> tuple[frozenset[str], frozenset[str]]:  # noqa: ANN401 - a module of torch
    """Return the classes of the quantised layers of a model, and the kernels that vLLM chose for its layers."""
    layers, kernels = set(), set()
    for module in model.modules():
        method = getattr(module, "quant_method", None)
        if method is None:
            continue
        scheme = getattr(module, "scheme", None) or method
        parts = [*vars(method).values(), *(vars(scheme).values() if scheme is not method else ())]
        found = {
            part.name if isinstance(part, Enum) else type(part).__name__
            for part in parts
            if type(part).__name__.endswith(("Backend", "Kernel"))
        }
        kernels |= found
        name = type(scheme).__name__
        if not name.startswith("Unquantized"):
            weights_only = any(_WEIGHTS_ONLY.search(text) for text in (name, *found)) or (
                "mxfp4" in name.lower() and any(text.startswith("TRITON") for text in found)
            )
            layers.add(f"{name}, 16-bit activations" if weights_only else name)
    return frozenset(layers), frozenset(kernels)


def lay_out(
    config: "VllmConfig", stages: Sequence[Stage], memory: Sequence[int] | None
) -> Layout | None:
    """Return the layout of the KV cache; None for a model without one.

    Args:
        config: The configuration with which the stages were built.
        stages: Result of `build_stages`.
        memory: Bytes for the KV cache on a GPU of each stage; None: only what one request needs.
    """
    from regrade.engines.vllm_process.internals import planning_names

    vllm = planning_names()
    specs = [stage.kv_cache_specs for stage in stages]
    if not any(specs):
        return None
    vllm.register_all_kvcache_specs(config)
    backends = vllm.get_current_attn_backends(config)
    names = [layout.name for layout in vllm.get_supported_kv_cache_layouts(backends)]
    vllm.resolve_kv_cache_layout(
        config, [names] * len(specs), [spec for stage in specs for spec in stage.values()]
    )
    plenty = _configs(vllm, config, specs, [_PLENTY] * len(specs))
    bytes_per_block = tuple(
        vllm._pool_bytes_per_block(config, stage.kv_cache_groups) if stage.kv_cache_groups else 0
        for stage in plenty
    )
    scheduled = vllm.generate_scheduler_kv_cache_config(plenty)
    _, concurrency = vllm.get_kv_cache_capacity(config, scheduled)
    blocks = round(scheduled.num_blocks / concurrency)
    needed = tuple((blocks + 1) * size for size in bytes_per_block)
    if memory is None:
        return Layout(needed, bytes_per_block, None, None)
    if all(size >= need for size, need in zip(memory, needed, strict=True)):
        configs = _configs(vllm, config, specs, memory)
        tokens, concurrency = vllm.get_kv_cache_capacity(
            config, vllm.generate_scheduler_kv_cache_config(configs)
        )
    else:  # vLLM refuses to lay it out
        pairs = zip(memory, bytes_per_block, strict=True)
        fitting = min(max(size, 0) // block for size, block in pairs if block)
        concurrency = fitting / blocks
        tokens = int(concurrency * config.model_config.max_model_len)
    return Layout(needed, bytes_per_block, tokens, concurrency)


def _configs(
    vllm: SimpleNamespace,
    config: "VllmConfig",
    specs: Sequence[dict[str, Any]],
    memory: Sequence[int],
) -> list[Any]:
    copies = [dict(stage) for stage in specs]  # vLLM may replace entries
    return list(vllm.get_kv_cache_configs(config, copies, list(memory)))


class _Group:
    """Stands in for a group of processes that was never started; only its size and positions are used."""

    def __init__(self, size: int, position: int, device: object) -> None:
        self.world_size, self.rank_in_group = size, position
        self.rank = self.local_rank = position
        self.ranks = list(range(size))
        self.first_rank, self.last_rank = 0, size - 1
        self.next_rank, self.prev_rank = (position + 1) % size, (position - 1) % size
        self.is_first_rank, self.is_last_rank = position == 0, position == size - 1
        self.device_group = self.cpu_group = SimpleNamespace(
            size=lambda: size, rank=lambda: position
        )
        self.device = device
        self.device_communicator = self.mq_broadcaster = None
        self.unique_name = "plan:0"


@contextlib.contextmanager
def _all_kernels() -> Iterator[None]:
    """Report a CPU with AMX to vLLM's layers for FP8 and MXFP4, which its CPU build refuses otherwise.

    Only shapes are built; nothing is computed.
    """
    import torch

    known = torch.cpu._is_amx_tile_supported
    torch.cpu._is_amx_tile_supported = lambda: True
    try:
        yield
    finally:
        torch.cpu._is_amx_tile_supported = known


@contextlib.contextmanager
def _stand_ins(vllm: SimpleNamespace, config: "VllmConfig", stage: int) -> Iterator[None]:
    """Make vLLM's models build the part of the first process of a pipeline stage."""
    import torch

    from regrade.engines.vllm_process.internals import PARALLEL_GROUPS

    parallel = config.parallel_config
    tensor, pipeline = parallel.tensor_parallel_size, parallel.pipeline_parallel_size
    data = parallel.data_parallel_size
    sizes = {
        "_WORLD": (tensor * pipeline, stage * tensor),
        "_TP": (tensor, 0),
        "_PP": (pipeline, stage),
        "_DP": (data, 0),
        "_EP": (tensor * data, 0),  # experts are shared by all copies of the model
    }
    before = {name: getattr(vllm.parallel_state, name) for name in PARALLEL_GROUPS}
    try:
        for name in PARALLEL_GROUPS:
            group = _Group(*sizes.get(name, (1, 0)), torch.device("cpu"))
            setattr(vllm.parallel_state, name, group)
        yield
    finally:
        for name, value in before.items():
            setattr(vllm.parallel_state, name, value)

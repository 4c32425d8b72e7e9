"""Worker side: what vLLM computes for the settings, as fields of `regrade.records.computed.Computed`."""

import os
import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from regrade.engines.vllm_process.environment import DEFAULTS

if TYPE_CHECKING:
    from regrade.engines.vllm_process.fit import MemoryNeed
    from regrade.engines.vllm_process.internals import ModelConfig, VllmConfig

_LLAMA_4_LENGTH = 32_768
"""Context length above which Llama 4 scales attention by position (`vllm/model_executor/models/llama4.py`)."""
_PLACES = re.compile(r"[/\\]|_(IP|IPS|HOST|URL|PORT)$")
"""Values and names of variables that tell of a machine, which is not published."""
_OURS = {**DEFAULTS, "VLLM_RPC_BASE_PATH": None}
"""Variables that regrade sets; the scratch folder has any value."""


def computed(
    config: "VllmConfig", need: "MemoryNeed | None", parser: str | None, given: Mapping[str, str]
) -> dict[str, Any]:
    """Return what an engine with this configuration computes.

    Args:
        config: Configuration of the engine.
        need: The model as vLLM builds it; None if that is not known.
        parser: The reasoning parser, if any.
        given: Environment variables at the start; vLLM sets some itself.
    """
    from regrade.engines.vllm_process.internals import envs, kv_cache_dtype

    model = config.model_config
    return {
        "dtype": str(model.dtype).removeprefix("torch."),
        "kv_cache_dtype": kv_cache_dtype(config),
        "quantization": model.quantization or "none",
        "layers": None if need is None else need.layers,
        "rope": _rope(model.hf_text_config, model.max_model_len),
        "attention_temperature": _temperature(model),
        "reasoning_parser": parser or "none",
        "variables": variables(given),
        "attention": None if need is None else need.attention,
        "kernels": None if need is None else need.kernels,
        "runner": "V2" if config.use_v2_model_runner else "V1",
        "batch_invariant": bool(envs.VLLM_BATCH_INVARIANT),
    }


def variables(current: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of vLLM that differ from its defaults, without those that regrade sets.

    A variable that vLLM does not know, such as a plugin's, differs.

    Args:
        current: Variables that are also in `os.environ`, which vLLM reads.
    """
    from regrade.engines.vllm_process.internals import envs

    found = {}
    for name in sorted(name for name in current if name.startswith("VLLM_")):
        value = current[name]
        read = envs.environment_variables.get(name)
        if name in _OURS and _OURS[name] in (value, None):
            continue
        if read is not None and _is_default(name, read):
            continue
        found[name] = "set" if _PLACES.search(value) or _PLACES.search(name) else value
    return found


def _is_default(name: str, read: Callable[[], object]) -> bool:
    """Return True if vLLM reads the same if a variable is not set; a value that it refuses differs."""
    try:
        current = read()
    except ValueError:
        return False
    value = os.environ.pop(name)
    try:
        return current == read()
    finally:
        os.environ[name] = value


def _rope(config: Any, max_model_len: int) -> str:  # noqa: ANN401 - a configuration of transformers
    """Return the factors of LongRoPE, as `Phi3LongRoPEScaledRotaryEmbedding` chooses them."""
    parameters = getattr(config, "rope_parameters", None) or {}
    original = getattr(config, "original_max_position_embeddings", None) or parameters.get(
        "original_max_position_embeddings"
    )
    if parameters.get("rope_type") != "longrope" or original is None:
        return "none"
    return "long factors" if max_model_len > original else "short factors"


def _temperature(model: "ModelConfig") -> str:
    """Return how Llama 4 scales attention, as `Llama4ForCausalLM` decides it."""
    if model.hf_text_config.model_type != "llama4_text":
        return "none"
    stated = {**model.try_get_generation_config(), **model.override_generation_config}
    tuned = stated.get("attn_temperature_tuning", model.max_model_len > _LLAMA_4_LENGTH)
    return "by position" if tuned else "none"

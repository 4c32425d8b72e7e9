"""Engine arguments (`engine.extra`) that a run may set on a worker: those that are known to run no code."""

import re
from collections.abc import Callable, Mapping
from typing import Any

from regrade.engines.vllm_process.extra import NEUTRAL
from regrade.settings.worker_limits import (
    REMOTE_CODE,
    RefusedParameterError,
    check_path,
    may_run_code,
)

_WORD = re.compile(r"[A-Za-z0-9_-]{1,40}")
"""Matches a choice of vLLM's. It names no module and no class, which have dots, and no file that anyone would place."""


def _is_number(value: object) -> bool:
    """Return True for a number, true or false, or a list of them."""
    return isinstance(value, int | float) or _all(value, _is_number)


def _is_word(value: object) -> bool:
    """Return True for a number or a word, or lists and groups of them."""
    is_word = isinstance(value, str) and _WORD.fullmatch(value) is not None
    return is_word or _is_number(value) or _all(value, _is_word)


def _is_repository(value: object) -> bool:
    """Return True for `org/name`, or a path in a folder of the worker. A name without `/` may be that of a class."""
    if not isinstance(value, str) or "/" not in value:
        return False
    check_path("`engine.extra`", value, may_be_name=True)
    return True


def _all(value: object, check: Callable[[object], bool]) -> bool:
    items = (
        value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else None
    )
    return items is not None and all(check(item) for item in items)


def _each(check: Callable[[object], bool], names: str) -> dict[str, Callable[[object], bool]]:
    return dict.fromkeys(names.split(), check)


_ON_WORKERS: Mapping[str, Callable[[object], bool]] = {
    **dict.fromkeys(NEUTRAL, _is_number),
    **_each(
        _is_number,
        "disable_sliding_window enable_lora fully_sharded_loras language_model_only limit_mm_per_prompt max_cpu_loras "
        "max_lora_rank max_loras max_model_len mm_processor_cache_gb override_generation_config seed use_fp64_gumbel "
        "watermark",
    ),
    **_each(
        _is_word,
        "all2all_backend attention_backend config_format data_parallel_backend dcp_comm_backend "
        "distributed_executor_backend dtype expert_placement_strategy kv_cache_dtype kv_offloading_backend "
        "linear_backend load_format log_level logprobs_mode lora_dtype mamba_cache_dtype mamba_cache_mode "
        "mamba_ssm_cache_dtype model_impl moe_backend offload_backend optimization_level performance_mode "
        "prefix_caching_hash_algo quantization reasoning_parser safetensors_load_strategy scheduling_policy "
        "served_model_name tokenizer_mode tokenizer_revision",
    ),
    "generation_config": lambda value: value in ("auto", "vllm"),
    "tokenizer": _is_repository,
}
"""Arguments that a run may set on a worker, each with the check of its value."""
_GROUPS: Mapping[str, Mapping[str, Callable[[object], bool]]] = {
    "hf_overrides": _each(
        _is_word, "max_position_embeddings rope_parameters rope_scaling rope_theta"
    ),
    "speculative_config": {
        **_each(
            _is_word,
            "draft_sample_method draft_tensor_parallel_size max_model_len num_speculative_tokens prompt_lookup_max "
            "prompt_lookup_min quantization rejection_sample_method revision suffix_decoding_max_spec_factor "
            "suffix_decoding_max_tree_depth suffix_decoding_min_token_prob",
        ),
        "method": lambda value: _is_word(value) and value != "custom_class",
        "model": _is_repository,
    },
}
"""Arguments with values of their own, each with its check."""


def _is_allowed(name: str, value: object) -> bool:
    if value is None or value is False:
        return True
    if name not in _GROUPS:
        return name in _ON_WORKERS and _ON_WORKERS[name](value)
    known = _GROUPS[name]
    return isinstance(value, Mapping) and all(
        key in known and known[key](value[key]) for key in value
    )


def may_be_code(extra: Mapping[str, Any]) -> list[str]:
    """Return the names of the arguments that are not known to run no code."""
    return [name for name in sorted(extra) if not _is_allowed(name, extra[name])]


def refuse_code(extra: Mapping[str, Any]) -> None:
    """Refuse all arguments but those that are known to run no code, if this machine does not allow code of models.

    Raises:
        SettingsError: If `REGRADE_REMOTE_CODE` does not allow it, and an argument or its value is not known.
    """
    if (refused := may_be_code(extra)) and not may_run_code():
        raise RefusedParameterError(
            f"`engine.extra`: this worker does not accept {refused[0]}={extra[refused[0]]!r} from a run: it accepts numbers and "
            "choices of arguments that are known to run no code. Start the worker with "
            f"{REMOTE_CODE}=1 if models may bring code: then everyone who can start a run can run programs on its machine."
        )

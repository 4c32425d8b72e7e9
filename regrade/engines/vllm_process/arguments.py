"""Worker side: vLLM's engine arguments and configuration for the owner's settings."""

import dataclasses
import math
import os
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, TypeVar

import psutil

from regrade.engines.vllm_process.adapter import adapter_arguments
from regrade.engines.vllm_process.settings import PARALLEL
from regrade.engines.vllm_process.structures import OURS
from regrade.settings.errors import SettingsError

if TYPE_CHECKING:
    from regrade.engines.vllm_process.internals import EngineArgs, ModelConfig, VllmConfig

_GIB = 1 << 30
_SMALL_BLOCK = 32
"""Smallest block of vLLM's prefix cache on a CPU without a slower kernel, in tokens; the default is 128."""
_IMAGE_CACHE = 1
"""GiB of processed images that vLLM keeps on a CPU, beside the KV cache; its default is 4."""
_T = TypeVar("_T")


def model_config(arguments: "EngineArgs") -> "ModelConfig":
    """Return the model's configuration with the longest context that the model allows.

    Of models with LongRoPE, vLLM's default is the length below which they use their short factors.

    Raises:
        SettingsError: If vLLM rejects the arguments.
    """

    def of_length(length: int | None) -> "ModelConfig":
        changes: dict[str, Any] = {"max_model_len": length}
        return _accepted(dataclasses.replace(arguments, **changes).create_model_config)

    model = of_length(None)
    rope = getattr(model.hf_text_config, "rope_parameters", None) or {}
    longest, _ = model.model_arch_config.derived_max_model_len_and_key
    is_longer = rope.get("rope_type") == "longrope" and model.max_model_len < longest < math.inf
    return of_length(int(longest)) if is_longer else model


def engine_config(
    arguments: "EngineArgs", max_model_len: int, *, chunked_prefill: bool | None = None
) -> "VllmConfig":
    """Return the configuration of vLLM's `LLM` for these arguments; the usage decides the sizes of batches.

    Args:
        arguments: Arguments of the engine; they are not changed.
        max_model_len: Context length in tokens.
        chunked_prefill: Value of `enable_chunked_prefill` if it is not set. None: vLLM's default.

    Raises:
        SettingsError: If vLLM rejects the arguments.
    """
    from regrade.engines.vllm_process.internals import UsageContext

    # A copy, because vLLM fills in its defaults in place.
    filled = dataclasses.replace(arguments, max_model_len=max_model_len)
    if filled.enable_chunked_prefill is None:
        filled.enable_chunked_prefill = chunked_prefill
    return _accepted(lambda: filled.create_engine_config(UsageContext.LLM_CLASS))


def engine_arguments(open_message: Mapping[str, Any], *, is_cpu: bool) -> "EngineArgs":
    """Return vLLM's engine arguments for the settings and `engine.extra`.

    Raises:
        SettingsError: If vLLM does not know an extra argument, if a setting exists for it, or if vLLM rejects a value
            or the adapter.
    """
    from regrade.engines.vllm_process.internals import EngineArgs

    settings: dict[str, Any] = dict(open_message["settings"])
    for name in ("reasoning_parser", "tool_parser"):
        del settings[name]  # applied to answers, not by the engine
    extra: dict[str, Any] = dict(open_message["extra"])
    adapter: dict[str, Any] = {}
    if open_message["adapter"]:
        adapter = adapter_arguments(open_message["adapter"], is_cpu=is_cpu)
    known = [field.name for field in dataclasses.fields(EngineArgs)]
    for name in extra:
        if name in settings or name in ("model", "revision", *adapter):
            raise SettingsError(
                f"`engine.extra` cannot set '{name}', because another setting does."
            )
        if name not in known:
            close = get_close_matches(name, known, n=1)
            hint = f" Did you mean '{close[0]}'?" if close else ""
            raise SettingsError(f"`engine.extra`: vLLM has no engine argument '{name}'.{hint}")
    if is_cpu and settings["dtype"] == "auto":
        # bfloat16 needs instructions that many (virtual) CPUs lack, and vLLM does not check all of them.
        settings["dtype"] = "float32"
    if is_cpu and not os.environ.get("VLLM_CPU_KVCACHE_SPACE"):
        # On a CPU, gpu_memory_utilization is a share of all memory; vLLM fails if other programs use a part of it.
        workers = math.prod(settings[name] for name in PARALLEL)
        extra.setdefault("kv_cache_memory_bytes", cpu_cache_bytes(workers))
    values = {name: value for name, value in settings.items() if value is not None}
    values |= {"model": open_message["model"], "revision": open_message["revision"]}
    if open_message["revision"] is not None:
        values["tokenizer_revision"] = open_message["revision"]
    # If all prompts are text, neither is the tower of a model that also sees loaded, nor are its images profiled.
    shows_images = open_message.get("shows_images", False)
    ours = {"disable_log_stats": False, "language_model_only": not shows_images}
    if shows_images:
        # Else vLLM normalises pixels as the processor's file says, and not at all if it says nothing, whatever the processor's defaults.
        ours["mm_device_do_normalize"] = False
        if is_cpu:
            extra.setdefault("mm_processor_cache_gb", _IMAGE_CACHE)
    return _accepted(lambda: EngineArgs(**(values | ours | adapter | extra)))


def keep_to_forms(arguments: "EngineArgs") -> None:
    """Set the options of structured outputs that the user has not set.

    Raises:
        SettingsError: If vLLM rejects the user's options.
    """
    from regrade.engines.vllm_process.internals import StructuredOutputsConfig

    given: object = arguments.structured_outputs_config
    fields = {**OURS, **(given if isinstance(given, Mapping) else {})}
    arguments.structured_outputs_config = _accepted(lambda: StructuredOutputsConfig(**fields))


def share_short_contexts(arguments: "EngineArgs", model: "ModelConfig") -> None:
    """On a CPU, let passes over the same short context share it through the prefix cache.

    vLLM's default block of 128 tokens is longer than many contexts. A value of the user is kept, and so is the default of models whose attention has its own block size.
    """
    if arguments.block_size is None and not model.use_mla and not model.is_hybrid:
        arguments.block_size = _SMALL_BLOCK


def cpu_cache_bytes(workers: int) -> int:
    """Return the cache size per worker: its share of a quarter of the free memory, between 1 and 4 GiB."""
    return min(max(psutil.virtual_memory().available // 4 // workers, _GIB), 4 * _GIB)


def _accepted(create: Callable[[], _T]) -> _T:
    """Return the result of `create`; raise `SettingsError` if vLLM rejects the settings."""
    from regrade.engines.vllm_process.internals import VLLMValidationError

    try:
        return create()
    except (TypeError, ValueError, VLLMValidationError) as error:
        raise SettingsError(_rejection(error)) from error


def _rejection(error: Exception) -> str:
    """Return a message in one line; pydantic's have several."""
    errors = getattr(error, "errors", None)
    problems = [str(e["msg"]) for e in errors()] if callable(errors) else [str(error)]
    message = "; ".join(problem.removeprefix("Value error, ") for problem in problems)
    return f"vLLM rejects the engine settings: {' '.join(message.split())}"

"""Other engine arguments of vLLM (`engine.extra`): parsing, and which of them do not change the answers."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from regrade.engines.vllm_process.structures import OURS
from regrade.models.fingerprints import path_sha256
from regrade.settings.errors import SettingsError

_NEUTRAL = {
    "memory and cache": (
        "block_size cpu_offload_gb cpu_offload_params enable_prefix_caching enable_sleep_mode "
        "gpu_memory_utilization kv_cache_memory_bytes kv_cache_metrics kv_cache_metrics_sample "
        "kv_offloading_backend kv_offloading_size num_gpu_blocks_override offload_backend "
        "offload_group_size offload_num_in_group offload_params offload_prefetch_step "
        "prefix_cache_retention_interval prefix_caching_hash_algo"
    ),
    "batches and their order": (
        "async_scheduling enable_chunked_prefill long_prefill_token_threshold "
        "max_num_batched_tokens max_num_scheduled_tokens max_num_seqs "
        "scheduler_reserve_full_isl scheduling_policy stream_interval"
    ),
    "processes and devices": (
        "all2all_backend data_parallel_address data_parallel_backend data_parallel_rpc_port "
        "data_parallel_size data_parallel_size_local dcp_comm_backend "
        "decode_context_parallel_size device_ids disable_custom_all_reduce "
        "distributed_executor_backend distributed_timeout_seconds enable_eplb "
        "enable_expert_parallel eplb_config expert_placement_strategy master_addr master_port "
        "max_parallel_loading_workers nnodes node_rank numa_bind numa_bind_cpus numa_bind_nodes "
        "pipeline_parallel_size prefill_context_parallel_size ray_workers_use_nsight "
        "tensor_parallel_size"
    ),
    "loading": (
        "download_dir model_loader_extra_config pt_load_map_location safetensors_load_strategy "
        "safetensors_prefetch_block_size safetensors_prefetch_num_threads use_tqdm_on_load"
    ),
    "kernels (the same model up to rounding)": (
        "attention_backend cudagraph_capture_sizes cudagraph_metrics disable_cascade_attn "
        "enforce_eager max_cudagraph_capture_size moe_backend optimization_level "
        "performance_mode"
    ),
    "logs and metrics": (
        "aggregate_engine_logging collect_detailed_traces custom_histogram_buckets "
        "disable_log_stats enable_logging_iteration_details enable_mfu_metrics jit_monitor_mode "
        "jit_monitor_verbose log_config_file log_level logging_config max_logprobs "
        "otlp_traces_endpoint per_request_spec_decode_metrics profiler_config served_model_name "
        "show_hidden_metrics_for_version shutdown_timeout"
    ),
}
"""Arguments that change speed, memory or logs, but not the answers, by purpose. Ids of `earlier` versions knew only these: new
ones go below."""
NEUTRAL = frozenset(name for names in _NEUTRAL.values() for name in names.split())

_DEFAULTS: Mapping[str, object] = {
    name: value
    for value, names in (
        (
            "auto",
            "config_format convert generation_config linear_backend load_format lora_dtype "
            "mamba_cache_dtype mamba_ssm_cache_dtype model_impl runner structured_outputs_config.backend tokenizer_mode "
            "worker_cls",
        ),
        (
            None,
            "code_revision diffusion_config engram_config gdn_prefill_backend "
            "hf_config_path io_processor_plugin kda_decode_backend kda_prefill_backend logits_processors "
            "lora_target_modules mamba_block_size mamba_ssu_algorithm max_cpu_loras mm_processor_kwargs pooler_config "
            "quantization_config reasoning_config reasoning_parser_plugin scheduler_cls speculative_config tokenizer "
            "watermark_config",
        ),
        (
            False,
            "allow_deprecated_quantization attention_config.disable_flashinfer_q_quantization "
            "attention_config.use_non_causal attention_config.use_prefill_query_quantization disable_sliding_window "
            "enable_lora enable_mamba_cache_stochastic_rounding enable_prompt_embeds kv_sharing_fast_prefill "
            "skip_tokenizer_init structured_outputs_config.disable_additional_properties "
            "trust_remote_code use_fp64_gumbel use_replayssm",
        ),
        (True, "swa_bounded_replay"),
        (0, "mamba_cache_philox_rounds seed"),
        ("raw_logprobs", "logprobs_mode"),
        ("", "model_weights worker_extension_cls"),
    )
    for name in names.split()
}
"""vLLM's defaults of other arguments. A value never changes, nor does the id without it."""
_EMPTY = frozenset(
    [
        "additional_config",
        "hf_overrides",
        "kv_cache_dtype_skip_layers",
        "model_class_overrides",
        "override_generation_config",
    ]
)
"""Arguments for which an empty mapping or list is vLLM's default."""
_SET_HERE = {f"structured_outputs_config.{name}": value for name, value in OURS.items()}
"""Values that regrade sets in place of vLLM's defaults."""

_CONFIGS = frozenset(
    [
        "attention_config",
        "compilation_config",
        "kernel_config",
        "speculative_config",
        "structured_outputs_config",
    ]
)
"""Arguments whose keys are arguments of their own, here written `config.key`."""
_ALIASES = {
    "attention_config.backend": "attention_backend",
    "compilation_config.cudagraph_capture_sizes": "cudagraph_capture_sizes",
    "compilation_config.max_cudagraph_capture_size": "max_cudagraph_capture_size",
    "kernel_config.enable_flashinfer_autotune": "enable_flashinfer_autotune",
    "kernel_config.linear_backend": "linear_backend",
    "kernel_config.moe_backend": "moe_backend",
    "kernel_config.sparse_indexer_topk_backend": "sparse_indexer_topk_backend",
    "spec_method": "speculative_config.method",
    "spec_model": "speculative_config.model",
    "spec_tokens": "speculative_config.num_speculative_tokens",
}
"""Names of one argument, by those that are replaced."""

_ONLY_SPEED = frozenset(
    name
    for names in (
        # As `attention_backend` and `enforce_eager`: the same model up to rounding.
        "attention_config.backend_per_kind attention_config.flash_attn_version attention_config.mla_prefill_backend "
        "attention_config.flash_attn_max_num_splits_for_cuda_graph attention_config.flex_attn_block_m "
        "attention_config.flex_attn_block_n attention_config.flex_attn_kv_block_size "
        "attention_config.flex_attn_q_block_size attention_config.sparse_mla_force_mqa "
        "attention_config.sparse_mla_prefill_workspace_factor attention_config.tokenspeed_mla_min_split_kv "
        "attention_config.tq_max_kv_splits_for_cuda_graph enable_flashinfer_autotune "
        "kernel_config.enable_cutedsl_warmup kernel_config.enable_jit_warmup "
        "kernel_config.enable_rocm_segmented_attn_autotune sparse_indexer_topk_backend",
        "compilation_config.cache_dir compilation_config.compile_cache_save_format compilation_config.compile_sizes "
        "compilation_config.cudagraph_copy_inputs compilation_config.cudagraph_mode "
        "compilation_config.cudagraph_num_of_warmups compilation_config.cudagraph_specialize_lora "
        "compilation_config.debug_dump_path compilation_config.mode",
        # Memory and order of requests.
        "disable_hybrid_kv_cache_manager kv_events_config kv_transfer_config long_prefill_token_threshold_adaptive "
        "mamba_cache_mode max_num_active_seqs max_num_queued_reqs max_num_queued_tokens prefill_schedule_interval "
        "prefix_match_unit watermark",
        # Processes and devices.
        "cpu_distributed_timeout_seconds data_parallel_external_lb data_parallel_hybrid_lb data_parallel_rank "
        "data_parallel_start_rank dbo_decode_token_threshold dbo_prefill_token_threshold "
        "disable_nccl_for_dp_synchronization dp_sync_interval enable_batch_sharded_sampling enable_cumem_allocator "
        "enable_dbo enable_ep_weight_filter enable_fault_tolerance enable_nccl_comm_suspend enable_shm_tensor_arena "
        "fail_on_environ_validation fault_tolerance_config renderer_num_workers ubatch_size",
        # Images, audio and videos: of no effect on texts, and `pictures` refuses beside images what changes what is seen.
        "allowed_local_media_path allowed_media_domains disable_chunked_mm_input enable_mm_embeds "
        "enable_mm_processor_stats interleave_mm_strings language_model_only limit_mm_per_prompt media_io_kwargs "
        "mm_device_do_normalize mm_encoder_attn_backend mm_encoder_attn_dtype mm_encoder_tp_mode mm_hasher_algorithm "
        "mm_ipc_gpu_memory_gb mm_processor_cache_gb mm_processor_cache_type mm_processor_device "
        "mm_shm_cache_max_object_size_mb mm_tensor_ipc skip_mm_profiling video_pruning_method video_pruning_rate",
        "enable_layerwise_nvtx_tracing",
    )
    for name in names.split()
)
"""Further arguments like those in `NEUTRAL`."""
_SAME_WEIGHTS = frozenset({"safetensors", "runai_streamer", "fastsafetensors", "ipc_cache"})
"""Values of `load_format` that read the same bytes as `auto`."""
_OTHER_PRECISION = frozenset(
    {"aiter_triton_mxfp4_bf16", "flashinfer_moe_ep_cutedsl", "humming", "marlin", "rdna3"}
)
"""Values of `moe_backend` with which a quantised model computes something else: activations stay in 16 bits where others quantise them, or weights
in MXFP4 are quantised again in NVFP4 (`flashinfer_moe_ep_cutedsl`)."""


def parse_extra(pairs: Sequence[str]) -> dict[str, Any]:
    """Parse `name=value` pairs; values are YAML.

    Raises:
        SettingsError: If a pair has another form, or a name has two values.
    """
    extra: dict[str, Any] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        name = name.strip().lstrip("-").replace("-", "_")
        if not equals or not name.isidentifier():
            raise SettingsError(f"`engine.extra`: '{pair}' should have the form `name=value`.")
        try:
            given = yaml.safe_load(value)
        except yaml.YAMLError as error:
            raise SettingsError(
                f"`engine.extra`: the value of '{pair}' is not valid YAML."
            ) from error
        if extra.setdefault(name, given) != given:
            raise SettingsError(
                f"`engine.extra`: '{name}' is {extra[name]!r}, and then {given!r}. Give it once."
            )
    return extra


def reads_files(extra: Mapping[str, Any]) -> bool:
    """Return True if vLLM reads the weights in a model's files; with `load_format=dummy`, for example, it reads none."""
    formats = ("auto", "hf", "safetensors", "fastsafetensors", "pt")
    return extra.get("load_format", "auto") in formats


def deciding(extra: Mapping[str, Any], *, quantised: bool = False) -> dict[str, Any]:
    """Return the arguments that can change the answers, whatever their spelling.

    A file or folder is replaced by the hash of its content, also one inside of another value.

    Args:
        extra: Arguments.
        quantised: The model's weights are quantised.
    """
    decided: dict[str, Any] = {}
    for name, value in _with_one_name(extra):
        if _is_innocent(name, value, quantised=quantised):
            continue
        config, _, key = name.partition(".")
        if key:
            decided.setdefault(config, {})[key] = value
        else:
            decided[name] = value
    if _is_exact(decided.get("speculative_config")):
        del decided["speculative_config"]
    return {name: _contents(value) for name, value in sorted(decided.items())}


def deciding_earlier(extra: Mapping[str, Any]) -> dict[str, Any]:
    """Return what `deciding` returned before it knew defaults, values and aliases: ids of stored answers hold it."""
    return {
        name: _content(value)
        for name, value in sorted(extra.items())
        if name not in NEUTRAL and not (name == "speculative_config" and _is_exact(value))
    }


def _with_one_name(extra: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for name, value in extra.items():
        if name in _CONFIGS and isinstance(value, Mapping):
            for key, part in value.items():
                yield _ALIASES.get(f"{name}.{key}", f"{name}.{key}"), part
        else:
            yield _ALIASES.get(name, name), value


def _is_innocent(name: str, value: object, *, quantised: bool) -> bool:
    """Return True if an argument is vLLM's default, or changes only speed."""
    if name == "moe_backend" and quantised:
        return value not in _OTHER_PRECISION
    if name in NEUTRAL or name in _ONLY_SPEED:
        return True
    if name == "load_format" and value in _SAME_WEIGHTS:
        return True
    if name in _EMPTY and value in ({}, []):
        return True
    return any(
        name in known and value == known[name] and type(value) is type(known[name])
        for known in (_DEFAULTS, _SET_HERE)
    )


def _is_exact(speculative: object) -> bool:
    """Return True if drafted tokens are accepted only as the model itself would sample them."""
    return isinstance(speculative, Mapping) and (
        speculative.get("rejection_sample_method", "standard") in ("standard", "block")
    )


def _contents(value: object) -> object:
    if isinstance(value, Mapping):
        return {name: _contents(part) for name, part in value.items()}
    return [*map(_contents, value)] if isinstance(value, list) else _content(value)


def _content(value: object) -> object:
    if isinstance(value, str) and ("/" in value or "." in value):
        path = Path(value).expanduser()
        if path.exists():
            return f"sha256:{path_sha256(path)}"
    return value

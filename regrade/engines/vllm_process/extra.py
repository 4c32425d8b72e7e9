"""Other engine arguments of vLLM (`engine.extra`): parsing, and which of them do not change the answers."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

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
"""Arguments that change speed, memory or logs, but not the answers, by purpose."""
NEUTRAL = frozenset(name for names in _NEUTRAL.values() for name in names.split())

REMOTE_CODE = "REGRADE_REMOTE_CODE"
"""Environment variable: `0` refuses the arguments in `RUNS_CODE`. `regrade worker` sets it to 0 unless it is set."""
RUNS_CODE = frozenset(
    [
        "additional_config",
        "compilation_config",
        "data_parallel_address",
        "distributed_executor_backend",
        "ec_manager_config",
        "ec_transfer_config",
        "fault_tolerance_config",
        "io_processor_plugin",
        "kv_events_config",
        "kv_transfer_config",
        "log_config_file",
        "logging_config",
        "logits_processors",
        "master_addr",
        "model_class_overrides",
        "profiler_config",
        "reasoning_config",
        "reasoning_parser_plugin",
        "scheduler_cls",
        "structured_outputs_config",
        "trust_remote_code",
        "weight_transfer_config",
        "worker_cls",
        "worker_extension_cls",
    ]
)
"""Arguments that run code of the model or code named by their value, or that trust another machine."""


def refuse_code(extra: Mapping[str, Any]) -> None:
    """Refuse arguments that run code, if this machine does not allow them.

    Raises:
        SettingsError: If `REGRADE_REMOTE_CODE` is 0 and an argument in `RUNS_CODE` is set.
    """
    names = sorted(
        RUNS_CODE & {name for name, value in extra.items() if value not in (None, False)}
    )
    if names and os.environ.get(REMOTE_CODE) == "0":
        raise SettingsError(
            f"engine.extra: '{names[0]}' can run code that comes with a model or is named in the run, and this worker "
            f"does not allow it. Start the worker with {REMOTE_CODE}=1 if it may: then everyone who can start a run can "
            "run programs on its machine."
        )


def parse_extra(pairs: Sequence[str]) -> dict[str, Any]:
    """Parse `name=value` pairs; values are YAML.

    Raises:
        SettingsError: If a pair has another form.
    """
    extra: dict[str, Any] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        name = name.strip().lstrip("-").replace("-", "_")
        if not equals or not name.isidentifier():
            raise SettingsError(f"engine.extra: '{pair}' should have the form `name=value`.")
        try:
            extra[name] = yaml.safe_load(value)
        except yaml.YAMLError as error:
            raise SettingsError(
                f"engine.extra: the value of '{pair}' is not valid YAML."
            ) from error
    return extra


def deciding(extra: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments that can change the answers; a file or folder is replaced by the hash of its content."""
    return {
        name: _content(value)
        for name, value in sorted(extra.items())
        if name not in NEUTRAL and not (name == "speculative_config" and _is_exact(value))
    }


def _is_exact(speculative: object) -> bool:
    """Return True if drafted tokens are accepted only as the model itself would sample them."""
    return isinstance(speculative, Mapping) and (
        speculative.get("rejection_sample_method", "standard") in ("standard", "block")
    )


def _content(value: object) -> object:
    if isinstance(value, str) and ("/" in value or "." in value):
        path = Path(value).expanduser()
        if path.exists():
            return f"sha256:{path_sha256(path)}"
    return value

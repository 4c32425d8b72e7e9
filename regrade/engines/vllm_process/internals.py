"""Worker side: all names of vLLM that regrade uses; no other module imports vLLM.

Most of them are not part of vLLM's documented interface, so that a new version may rename them. pyproject.toml therefore
bounds the version, `unknown` finds what a version lacks, and the tests run it against the installed one.
"""

# What is imported here is for the other modules.
# mypy: implicit-reexport
# ruff: noqa: F401

import inspect
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

from regrade.processes.importing import quick_imports

with quick_imports():
    from vllm import PoolingRequestOutput, RequestOutput, SamplingParams, __version__, envs
    from vllm.config import (
        LoRAConfig,
        ModelConfig,
        SchedulerConfig,
        StructuredOutputsConfig,
        VllmConfig,
    )
    from vllm.config.lora import MaxLoRARanks
    from vllm.engine.arg_utils import EngineArgs
    from vllm.entrypoints.openai.chat_completion.protocol import ChatCompletionRequest
    from vllm.exceptions import VLLMValidationError
    from vllm.inputs import tokens_input
    from vllm.lora.peft_helper import PEFTHelper
    from vllm.lora.request import LoRARequest
    from vllm.outputs import CompletionOutput
    from vllm.parser.parser_manager import ParserManager
    from vllm.platforms import current_platform
    from vllm.reasoning import ReasoningParser, ReasoningParserManager
    from vllm.renderers.base import BaseRenderer
    from vllm.renderers.hf import resolve_chat_template, resolve_chat_template_content_format
    from vllm.renderers.params import ChatParams
    from vllm.renderers.registry import renderer_from_config
    from vllm.sampling_params import RequestOutputKind, StructuredOutputsParams
    from vllm.tokenizers import TokenizerLike, cached_tokenizer_from_config
    from vllm.tokenizers.registry import tokenizer_args_from_config
    from vllm.tool_parsers import ToolParser, ToolParserManager
    from vllm.usage.usage_lib import UsageContext
    from vllm.v1.engine.async_llm import AsyncLLM
    from vllm.v1.engine.exceptions import EngineDeadError
    from vllm.v1.engine.llm_engine import LLMEngine
    from vllm.v1.metrics.stats import (
        FinishedRequestStats,
        IterationStats,
        PrefixCacheStats,
        RequestStateStats,
        SchedulerStats,
    )

MEMBERS: Mapping[type, str] = {
    AsyncLLM: "add_lora from_vllm_config generate",
    BaseRenderer: "render_messages",
    ChatParams: "chat_template_kwargs",
    CompletionOutput: "finish_reason logprobs text token_ids",
    EngineArgs: (
        "create_engine_config create_model_config kv_cache_memory_bytes disable_log_stats enable_lora "
        "language_model_only limit_mm_per_prompt max_lora_rank max_loras mm_device_do_normalize reasoning_parser"
    ),
    FinishedRequestStats: "e2e_latency mean_time_per_output_token num_generation_tokens queued_time",
    LLMEngine: (
        "abort_request add_lora add_request collective_rpc from_vllm_config reset_encoder_cache reset_mm_cache "
        "reset_prefix_cache sleep step wake_up"
    ),
    LoRAConfig: "max_lora_rank",
    LoRARequest: "lora_int_id lora_name lora_path",
    ModelConfig: "dtype hf_config hf_text_config is_mm_prefix_lm max_model_len supports_multimodal_inputs use_mla",
    PrefixCacheStats: "hits queries",
    PEFTHelper: "from_local_dir r rank_pattern validate_legal",
    ParserManager: "get_parser",
    ReasoningParser: "extract_reasoning reasoning_end_str reasoning_start_str",
    ReasoningParserManager: "get_reasoning_parser list_registered",
    ToolParser: "extract_tool_calls",
    ToolParserManager: "get_tool_parser list_registered",
    RequestOutput: "finished metrics num_cached_tokens outputs prompt_logprobs request_id",
    RequestOutputKind: "FINAL_ONLY",
    RequestStateStats: "first_token_latency first_token_ts last_token_ts",
    SamplingParams: (
        "detokenize logprob_token_ids output_kind prompt_logprobs skip_reading_prefix_cache skip_special_tokens "
        "structured_outputs thinking_token_budget"
    ),
    SchedulerConfig: "max_num_seqs",
    SchedulerStats: (
        "kv_cache_usage num_running_reqs num_skipped_waiting_reqs num_waiting_reqs prefix_cache_stats"
    ),
    StructuredOutputsConfig: "backend disable_any_whitespace",
    StructuredOutputsParams: "choice json regex",
    UsageContext: "LLM_CLASS",
    VllmConfig: (
        "model_config reasoning_config scheduler_config structured_outputs_config use_v2_model_runner"
    ),
}
"""Methods, fields and constructor arguments that are used, by class."""


def planning_names() -> SimpleNamespace:
    """Return the names with which a model is built on torch's meta device and its KV cache is laid out.

    They are listed separately, because an engine works without them.

    Raises:
        ImportError: If vLLM lacks one of them.
    """
    from vllm.config import set_current_vllm_config
    from vllm.distributed import parallel_state
    from vllm.distributed.kv_transfer.kv_connector.utils import get_current_attn_backends
    from vllm.model_executor.model_loader.utils import initialize_model
    from vllm.platforms import current_platform
    from vllm.utils.torch_utils import set_default_torch_dtype
    from vllm.v1.attention.backends.utils import (
        get_supported_kv_cache_layouts,
        resolve_kv_cache_layout,
    )
    from vllm.v1.core.kv_cache_utils import (
        _pool_bytes_per_block,
        generate_scheduler_kv_cache_config,
        get_kv_cache_capacity,
        get_kv_cache_configs,
    )
    from vllm.v1.core.single_type_kv_cache_manager import register_all_kvcache_specs
    from vllm.v1.worker.gpu.attn_utils import get_kv_cache_spec

    if lacking := [name for name in PARALLEL_GROUPS if not hasattr(parallel_state, name)]:
        raise ImportError(f"vllm.distributed.parallel_state has no {lacking}", name="vllm")
    return SimpleNamespace(**locals())


def seeing_names() -> SimpleNamespace:
    """Return the names with which images are read; most requests show none.

    Raises:
        ImportError: If vLLM lacks one of them.
    """
    from vllm.model_executor.model_loader import get_model_cls
    from vllm.multimodal import MULTIMODAL_REGISTRY
    from vllm.multimodal.media import ImageMediaIO
    from vllm.multimodal.processing import ProcessorInputs, TimingContext
    from vllm.renderers.chat_utils import parse_chat_messages
    from vllm.utils.torch_utils import set_default_torch_num_threads

    return SimpleNamespace(**locals())


def cpus() -> tuple[int, list[Any]]:
    """Return the number of NUMA nodes and the logical CPUs (`id`, `physical_core`) that this process may use.

    Only for an engine on a CPU.
    """
    from vllm.utils.cpu_resource_utils import get_allowed_cpu_list, get_visible_memory_node

    return len(get_visible_memory_node()), get_allowed_cpu_list()


def kv_cache_dtype(config: VllmConfig) -> str:
    """Return the precision of the KV cache in which a configuration results."""
    from vllm.utils.torch_utils import resolve_kv_cache_dtype_string

    model = config.model_config
    found = resolve_kv_cache_dtype_string(config.cache_config.cache_dtype, model)
    return str(model.dtype).removeprefix("torch.") if found == "auto" else found


def start_cores_in(context: object) -> None:
    """Let vLLM start its engine cores in a context of `multiprocessing`."""
    from vllm.v1.engine import utils

    utils.get_mp_context = lambda: context  # type: ignore[attr-defined]


PARALLEL_GROUPS = ("_WORLD", "_TP", "_PP", "_DP", "_EP", "_DCP", "_PCP", "_EPLB")
"""Groups of processes in `vllm.distributed.parallel_state`, from which a model gets its share of the work."""


def unknown() -> list[str]:
    """Return the members that the installed vLLM does not have, as `Class.member`."""
    return [
        f"{cls.__name__}.{name}"
        for cls, names in MEMBERS.items()
        for name in names.split()
        if not hasattr(cls, name)
        and name not in inspect.signature(cls).parameters
        and name not in getattr(cls, "__dataclass_fields__", ())  # of fields without a default
    ]

"""Worker side: all names of vLLM that regrade uses; no other module imports vLLM.

Most of them are not part of vLLM's documented interface, so that a new version may rename them. pyproject.toml therefore
bounds the version, `unknown` finds what a version lacks, and the tests run it against the installed one.
"""

import inspect
from collections.abc import Mapping

from vllm import PoolingRequestOutput, RequestOutput, SamplingParams, __version__
from vllm.config import LoRAConfig, ModelConfig, SchedulerConfig, VllmConfig
from vllm.config.lora import MaxLoRARanks
from vllm.engine.arg_utils import EngineArgs
from vllm.exceptions import VLLMValidationError
from vllm.inputs import tokens_input
from vllm.lora.peft_helper import PEFTHelper
from vllm.lora.request import LoRARequest
from vllm.outputs import CompletionOutput
from vllm.platforms import current_platform
from vllm.sampling_params import RequestOutputKind
from vllm.tokenizers import cached_tokenizer_from_config
from vllm.usage.usage_lib import UsageContext
from vllm.v1.engine.async_llm import AsyncLLM
from vllm.v1.engine.exceptions import EngineDeadError
from vllm.v1.engine.llm_engine import LLMEngine
from vllm.v1.metrics.stats import RequestStateStats

__all__ = [
    "AsyncLLM",
    "EngineArgs",
    "EngineDeadError",
    "LLMEngine",
    "LoRAConfig",
    "LoRARequest",
    "MaxLoRARanks",
    "ModelConfig",
    "PEFTHelper",
    "PoolingRequestOutput",
    "RequestOutput",
    "RequestOutputKind",
    "SamplingParams",
    "UsageContext",
    "VLLMValidationError",
    "VllmConfig",
    "__version__",
    "cached_tokenizer_from_config",
    "current_platform",
    "tokens_input",
]

MEMBERS: Mapping[type, str] = {
    AsyncLLM: "add_lora from_vllm_config generate",
    CompletionOutput: "finish_reason logprobs text token_ids",
    EngineArgs: (
        "create_engine_config create_model_config kv_cache_memory_bytes disable_log_stats enable_lora "
        "max_lora_rank max_loras"
    ),
    LLMEngine: "abort_request add_lora add_request from_vllm_config step",
    LoRAConfig: "max_lora_rank",
    LoRARequest: "lora_int_id lora_name lora_path",
    ModelConfig: "dtype max_model_len",
    PEFTHelper: "from_local_dir r rank_pattern validate_legal",
    RequestOutput: "finished metrics num_cached_tokens outputs prompt_logprobs request_id",
    RequestOutputKind: "FINAL_ONLY",
    RequestStateStats: "first_token_latency first_token_ts last_token_ts",
    SamplingParams: "detokenize logprob_token_ids output_kind prompt_logprobs skip_reading_prefix_cache",
    SchedulerConfig: "max_num_seqs",
    UsageContext: "LLM_CLASS",
    VllmConfig: "model_config scheduler_config",
}
"""Methods, fields and constructor arguments that are used, by class."""


def unknown(members: Mapping[type, str] = MEMBERS) -> list[str]:
    """Return the members that the installed vLLM does not have, as `Class.member`."""
    return [
        f"{cls.__name__}.{name}"
        for cls, names in members.items()
        for name in names.split()
        if not hasattr(cls, name) and name not in inspect.signature(cls).parameters
    ]

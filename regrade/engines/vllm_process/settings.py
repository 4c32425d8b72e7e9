"""Settings of the engine `vllm`."""

import re
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field

from regrade.engines.vllm_process.allowed import refuse_code
from regrade.engines.vllm_process.extra import parse_extra
from regrade.settings import Settings
from regrade.settings.errors import SettingsError
from regrade.settings.marks import (
    DECIDES,
    DIVIDES,
    FIXED,
    NAME,
    NO_ARGUMENT,
    PATH,
    OnWorker,
    Option,
    marked,
)

_SECRET = re.compile(
    r"(?:(?:^|[^a-z])token|key|(?<!\w)(?:(?!secret)\w)*+secret\w*+|passw(?:or)?d|credentials?)[^\w=:]*+[=:]",
    re.IGNORECASE,
)
"""Names of secrets before `=`, or before `:` in a value; `max_num_batched_tokens` and `tokenizer` are none."""


def _without_secrets(extra: tuple[str, ...]) -> tuple[str, ...]:
    for pair in extra:
        if found := _SECRET.search(pair):
            name = pair[: found.end()].rstrip("=: \"'")
            # Not a ValueError, whose message would repeat the value.
            raise SettingsError(
                f"`engine.extra`: '{name}' has the name of a secret, but engine settings are stored with the answers, "
                "where others read them. Set an environment variable instead, such as `HF_TOKEN`."
            )
    return extra


def _refuse_code(extra: tuple[str, ...]) -> None:
    refuse_code(parse_extra(extra))


class VllmSettings(Settings):
    """Engine arguments, with the names that vLLM uses."""

    dtype: Annotated[Literal["auto", "float32", "bfloat16", "float16"], DECIDES] = "auto"
    """Precision of weights and activations. `auto`: float32 on a CPU, otherwise the checkpoint's."""
    max_model_len: int | None = Field(None, ge=1)
    """Context length in tokens. Default: enough for the longest prompt plus `max_tokens`."""
    tensor_parallel_size: Annotated[int, DIVIDES] = Field(1, ge=1)
    """GPUs that share each layer."""
    pipeline_parallel_size: Annotated[int, DIVIDES] = Field(1, ge=1)
    """Groups of GPUs that each hold a part of the layers."""
    data_parallel_size: Annotated[int, DIVIDES] = Field(1, ge=1)
    """Copies of the model that share the questions."""
    gpu_memory_utilization: float | None = Field(None, gt=0, le=1)
    """Share of the GPU's memory that vLLM may use. Default: chosen by vLLM."""
    max_num_seqs: int | None = Field(None, ge=1)
    """Sequences decoded at the same time. Default: chosen by vLLM."""
    max_num_batched_tokens: int | None = Field(None, ge=1)
    """Most tokens processed in a step. Default: chosen by vLLM."""
    quantization: Annotated[str | None, DECIDES] = None
    """Quantization method, such as `fp8`. Default: the checkpoint's."""
    lora: Annotated[str | None, PATH, NAME, NO_ARGUMENT, Option(("--lora", "--engine.lora"))] = None
    """LoRA adapter (PEFT) for the model: a folder, or a name on the Hub (`org/name`, or `org/name@revision`)."""
    kv_cache_dtype: Annotated[str, DECIDES] = "auto"
    """Precision of the KV cache."""
    enable_prefix_caching: bool | None = None
    """Process the common beginning of prompts only once. Default: yes, if vLLM supports it for the model."""
    reasoning_parser: Annotated[str, DECIDES] = Field("auto", min_length=1)
    """vLLM's parser that separates the reasoning of a chat answer from the rest. `auto`: the model's; `none`: no parser."""
    tool_parser: str = Field("none", min_length=1)
    """vLLM's parser of the calls of tools in an answer, such as `hermes`. Benchmarks with tools need the model's."""
    tuned: Annotated[bool, FIXED, NO_ARGUMENT] = False
    """Use the settings that `regrade tune` found best for this model, hardware and kind of workload. Others that are set by
    hand stay."""
    enforce_eager: bool = False
    """Skip compilation and CUDA graphs: a faster start, but slower generation."""
    extra: Annotated[
        tuple[str, ...],
        AfterValidator(_without_secrets),
        OnWorker(_refuse_code),
        DECIDES,
        NO_ARGUMENT,
    ] = ()
    """Other engine arguments of vLLM as `name=value`, such as `attention_backend=TRITON_ATTN`; no secrets."""

    @property
    def arguments(self) -> dict[str, Any]:
        """Engine arguments, without those in `extra`."""
        others = marked(VllmSettings, NO_ARGUMENT)
        return {
            name: getattr(self, name) for name in VllmSettings.model_fields if name not in others
        }


PARALLEL = marked(VllmSettings, DIVIDES)
"""Settings that divide a model among GPUs: tensor, pipeline and data parallel."""

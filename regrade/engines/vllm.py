"""The engine `vllm`: vLLM on this machine, in a process of its own (`regrade/engines/vllm_process`)."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from pydantic import ConfigDict, Field

from regrade.engines.base import BaseEngineSettings, Engine, PromptRendering

if TYPE_CHECKING:
    from regrade.models import ResolvedModel
    from regrade.records import Request


class VllmEngine(BaseEngineSettings):
    """vLLM on this machine, under vLLM's own names."""

    model_config = ConfigDict(title="vLLM here")

    kind: Literal["vllm"] = "vllm"
    dtype: Literal["auto", "float32", "bfloat16", "float16"] = "auto"
    """Precision of weights and activations. `auto`: float32 on a CPU, the checkpoint's own elsewhere."""
    max_model_len: int | None = Field(None, ge=1)
    """Context length in tokens. Default: as long as the longest prompt plus `max_tokens` needs."""
    tensor_parallel_size: int = Field(1, ge=1)
    """GPUs that share each layer."""
    pipeline_parallel_size: int = Field(1, ge=1)
    """GPUs that share the stack of layers."""
    data_parallel_size: int = Field(1, ge=1)
    """Copies of the model that share the questions."""
    gpu_memory_utilization: float = Field(0.9, gt=0, le=1)
    """Share of the GPU's memory that vLLM may take."""
    max_num_seqs: int | None = Field(None, ge=1)
    """Sequences decoded at once. Default: vLLM's."""
    max_num_batched_tokens: int | None = Field(None, ge=1)
    """Tokens a step may process. Default: vLLM's."""
    quantization: str | None = None
    """Quantization method, such as `fp8`. Default: as the checkpoint says."""
    kv_cache_dtype: str = "auto"
    """Precision of the KV cache."""
    enable_prefix_caching: bool = True
    """Compute shared beginnings of prompts once."""
    enforce_eager: bool = False
    """Start faster, without compiling and CUDA graphs."""
    extra: tuple[str, ...] = ()
    """Any other engine argument of vLLM, one `name=value` each, such as `attention_backend=TRITON_ATTN`."""

    def resolve(self, model_name: str) -> "ResolvedModel":
        """Return the model in a folder or on the Hub (`org/name`, or `org/name@revision`)."""
        from regrade.models import resolve_here  # noqa: PLC0415 - a form needs no Hub client

        return resolve_here(
            model_name, quantization=self.quantization, needs_weights=self._needs_weights
        )

    def open(
        self,
        model: "ResolvedModel",
        *,
        longest: "Sequence[Request]",
        rendering: PromptRendering,
        log: Path,
        on_progress: Callable[[str], None] | None = None,
    ) -> Engine:
        """Return vLLM, not loaded yet."""
        from regrade.engines.vllm_process.engine import VllmProcess  # noqa: PLC0415 - see `resolve`

        return VllmProcess(
            self, model, longest=longest, rendering=rendering, log=log, on_progress=on_progress
        )

    @property
    def _needs_weights(self) -> bool:
        """Whether vLLM reads weights in one of the usual files; `load_format=dummy` does not."""
        formats = [
            value
            for key, _, value in (pair.partition("=") for pair in self.extra)
            if key == "load_format"
        ]
        return not formats or formats[-1] in ("auto", "hf", "safetensors", "pt")


engine = VllmEngine

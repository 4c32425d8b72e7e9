"""The engine `vllm`: vLLM in a separate process on this machine (`regrade/engines/vllm_process`)."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from pydantic import ConfigDict, Field

from regrade.engines.base import BaseEngineSettings, Engine, PromptRendering

if TYPE_CHECKING:
    from regrade.models import ResolvedModel
    from regrade.records import Request


class VllmEngine(BaseEngineSettings):
    """vLLM on this machine. The options have the names that vLLM uses."""

    model_config = ConfigDict(title="vLLM here")

    kind: Literal["vllm"] = "vllm"
    dtype: Literal["auto", "float32", "bfloat16", "float16"] = "auto"
    """Precision of weights and activations. `auto`: float32 on a CPU, otherwise the checkpoint's."""
    max_model_len: int | None = Field(None, ge=1)
    """Context length in tokens. Default: enough for the longest prompt plus `max_tokens`."""
    tensor_parallel_size: int = Field(1, ge=1)
    """GPUs that share each layer."""
    pipeline_parallel_size: int = Field(1, ge=1)
    """Groups of GPUs that each hold a part of the layers."""
    data_parallel_size: int = Field(1, ge=1)
    """Copies of the model, between which questions are divided."""
    gpu_memory_utilization: float = Field(0.9, gt=0, le=1)
    """Share of the GPU's memory that vLLM may use."""
    max_num_seqs: int | None = Field(None, ge=1)
    """Sequences decoded at the same time. Default: chosen by vLLM."""
    max_num_batched_tokens: int | None = Field(None, ge=1)
    """Most tokens processed in a step. Default: chosen by vLLM."""
    quantization: str | None = None
    """Quantization method, such as `fp8`. Default: the checkpoint's."""
    kv_cache_dtype: str = "auto"
    """Precision of the KV cache."""
    enable_prefix_caching: bool = True
    """Process the common beginning of prompts only once."""
    enforce_eager: bool = False
    """Skip compilation and CUDA graphs: a faster start, but slower generation."""
    extra: tuple[str, ...] = ()
    """Other engine arguments of vLLM as `name=value`, such as `attention_backend=TRITON_ATTN`."""

    def resolve(self, model_name: str) -> "ResolvedModel":
        """Return the model in a folder or on the Hub (`org/name`, or `org/name@revision`)."""
        from regrade.models import resolve_here  # noqa: PLC0415 - forms do not need the Hub client

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
        """True if vLLM reads weights from the usual files; for example, `load_format=dummy` reads none."""
        formats = [
            value
            for key, _, value in (pair.partition("=") for pair in self.extra)
            if key == "load_format"
        ]
        return not formats or formats[-1] in ("auto", "hf", "safetensors", "pt")


engine = VllmEngine

"""The engine `vllm`: vLLM in a separate process on this machine (`regrade/engines/vllm_process`)."""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import ConfigDict

from regrade.engines.base import BaseEngineSettings, Engine, PromptRendering
from regrade.engines.vllm_process.settings import VllmSettings

if TYPE_CHECKING:
    from regrade.models import ResolvedModel
    from regrade.records import Request


class VllmEngine(VllmSettings, BaseEngineSettings):
    """vLLM on this machine. The options have the names that vLLM uses."""

    model_config = ConfigDict(title="vLLM here")

    kind: Literal["vllm"] = "vllm"

    def resolve(self, model_name: str) -> "ResolvedModel":
        """Return the model in a folder or on the Hub (`org/name`, or `org/name@revision`), with the adapter if any."""
        # Forms do not need the Hub client.
        from regrade.engines.vllm_process.extra import parse_extra  # noqa: PLC0415
        from regrade.models import resolve_here, with_adapter, with_pinned_code  # noqa: PLC0415

        model = resolve_here(
            model_name, quantization=self.quantization, needs_weights=self._needs_weights
        )
        extra = parse_extra(self.extra)
        if extra.get("trust_remote_code"):
            model = with_pinned_code(model, extra.get("code_revision"))
        return model if self.lora is None else with_adapter(model, self.lora)

    def resolve_to_plan(self, model_name: str, *, needs_tokenizer: bool) -> "ResolvedModel":
        """Return the model for a plan of its memory, which reads neither weights nor adapter."""
        from regrade.engines.vllm_process.extra import parse_extra  # noqa: PLC0415 - see `resolve`
        from regrade.models import resolve_here, with_pinned_code  # noqa: PLC0415

        model = resolve_here(
            model_name,
            quantization=self.quantization,
            needs_weights=False,
            needs_tokenizer=needs_tokenizer,
            reads_weights=False,
        )
        extra = parse_extra(self.extra)
        if extra.get("trust_remote_code"):
            model = with_pinned_code(model, extra.get("code_revision"))
        return model

    def identity(self, model: "ResolvedModel", *, truncate: bool) -> dict[str, Any]:
        """Return the settings that decide what the model computes.

        `dtype` is that of the computation, unless it is the checkpoint's own; `quantization` and `lora` are part of
        the model.
        """
        from regrade.engines.vllm_process.build import runs_on_cpu  # noqa: PLC0415 - see `resolve`
        from regrade.engines.vllm_process.extra import deciding, parse_extra  # noqa: PLC0415

        decided = deciding(parse_extra(self.extra))
        if model.code_revision is not None:
            decided.pop("code_revision", None)  # as a commit below, unless it is the model's
        if model.code_commits:
            decided["code"] = dict(model.code_commits)
        dtype = "float32" if self.dtype == "auto" and runs_on_cpu() else self.dtype
        # vLLM computes a float32 checkpoint in half precision on a GPU, so `auto` is not the same there.
        if dtype != "auto" and (dtype == "float32" or dtype != model.dtype):
            decided["dtype"] = dtype
        if self.kv_cache_dtype != "auto":
            decided["kv_cache_dtype"] = self.kv_cache_dtype
        if self.reasoning_parser != "auto":
            decided["reasoning_parser"] = self.reasoning_parser
        if truncate and self.max_model_len is not None:
            decided["max_model_len"] = self.max_model_len
        return decided

    def open(
        self,
        model: "ResolvedModel",
        *,
        requests: "Sequence[Iterable[Request]]",
        rendering: PromptRendering,
        log: Path,
        on_progress: Callable[[str], None] | None = None,
    ) -> Engine:
        """Return vLLM, not loaded yet."""
        from regrade.engines.vllm_process.engine import VllmProcess  # noqa: PLC0415 - see `resolve`

        return VllmProcess(
            self, model, requests=requests, rendering=rendering, log=log, on_progress=on_progress
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

"""The engine `vllm`: vLLM in a separate process on this machine (`regrade/engines/vllm_process`)."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

from pydantic import ConfigDict

from regrade.engines.base import BaseEngineSettings, Engine, PromptRendering
from regrade.engines.vllm_process.extra import deciding, deciding_earlier, parse_extra, reads_files
from regrade.engines.vllm_process.settings import PARALLEL, VllmSettings
from regrade.settings.errors import SettingsError

if TYPE_CHECKING:
    from regrade.models.base import ResolvedModel
    from regrade.records import Request
    from regrade.records.specification import Specification


class VllmEngine(VllmSettings, BaseEngineSettings):
    """vLLM on this machine. The options have the names that vLLM uses."""

    model_config = ConfigDict(title="vLLM here")

    kind: Literal["vllm"] = "vllm"

    def resolve(self, model_name: str) -> "ResolvedModel":
        """Return the model in a folder or on the Hub (`org/name`, or `org/name@revision`), with the adapter if any."""
        from regrade.models.adapters import with_adapter  # noqa: PLC0415 - see `_resolved_here`

        extra = parse_extra(self.extra)
        model = self._resolved_here(model_name, needs_weights=reads_files(extra))
        parts, heads = self.tensor_parallel_size, model.attention_heads
        if heads is not None and heads % parts and "hf_overrides" not in extra:
            raise SettingsError(
                f"`engine.tensor_parallel_size={parts}`: the model has {heads} attention heads, which {parts} parts cannot share "
                "equally. Give a number that divides them."
            )
        model = self._with_what_is_found(model)
        return model if self.lora is None else with_adapter(model, self.lora)

    def resolve_to_plan(self, model_name: str, *, needs_tokenizer: bool) -> "ResolvedModel":
        """Return the model for a plan of its memory, which reads neither weights nor adapter."""
        return self._resolved_here(
            model_name, needs_weights=False, needs_tokenizer=needs_tokenizer, reads_weights=False
        )

    def _resolved_here(self, model_name: str, **needs: bool) -> "ResolvedModel":
        """Return the model in a folder or on the Hub, with the commit of the code that it may run; `needs` as for `resolve_here`."""
        # Forms do not need the Hub client.
        from regrade.models.hub import with_pinned_code  # noqa: PLC0415
        from regrade.models.resolving import resolve_here  # noqa: PLC0415

        model = resolve_here(model_name, quantization=self.quantization, **needs)
        extra = parse_extra(self.extra)
        if extra.get("trust_remote_code"):
            model = with_pinned_code(model, extra.get("code_revision"))
        return model

    def identity(self, model: "ResolvedModel", *, truncate: bool) -> dict[str, Any]:
        """Return the settings that decide what the model computes, whatever their spelling.

        `dtype` is that of the computation, unless it is the checkpoint's own; `quantization` and `lora` are part of
        the model.
        """
        quantised = (model.quantization or self.quantization) is not None
        decided = deciding(parse_extra(self.extra), quantised=quantised)
        decided = self._decided(model, decided, truncate=truncate)
        if decided.get("kv_cache_dtype") == "fp8_e4m3":
            decided["kv_cache_dtype"] = "fp8"
        # A quantised checkpoint may state another precision of the cache, which `auto` takes.
        own = decided.get("dtype", model.dtype)
        if decided.get("kv_cache_dtype") == own and model.quantization is None:
            decided.pop("kv_cache_dtype", None)
        return decided

    def earlier(
        self, specification: "Specification", model: "ResolvedModel", *, truncate: bool
    ) -> "Specification":
        """Return the specification of the same answers before ids ignored the spelling of settings."""
        extra = parse_extra(self.extra)
        if "moe_backend" in extra and "moe_backend" in specification.engine:
            return specification  # ids did not tell it apart
        changes = {
            "model": specification.model.model_copy(update={"quantization": self.quantization}),
            "engine": self._decided(
                replace(model, found_anyway=frozenset()), deciding_earlier(extra), truncate=truncate
            ),
        }
        return specification.model_copy(update=changes)

    def on_any_machine(self, specification: "Specification") -> "tuple[Specification, ...]":
        """Return the specification of GPUs, where `dtype` is the checkpoint's by default, and of CPUs, where it is float32.

        Raises:
            SettingsError: If the parser is named, and no vLLM here knows whether it is found anyway.
        """
        from regrade.engines.vllm_process.build import builds  # noqa: PLC0415 - see `_resolved_here`

        if "reasoning_parser" in specification.engine and not builds():
            raise SettingsError(
                f"`engine.reasoning_parser={self.reasoning_parser}`: whether vLLM finds this parser anyway, which decides the id of the "
                "answers, is known only where vLLM is installed. Leave it out, or install vLLM on this machine, too."
            )
        if self.dtype != "auto":
            return (specification,)
        on_gpu = {name: value for name, value in specification.engine.items() if name != "dtype"}
        return tuple(
            specification.model_copy(update={"engine": engine})
            for engine in (on_gpu, {**on_gpu, "dtype": "float32"})
        )

    def able_to_sleep(self) -> Self:
        """Return the settings with vLLM's sleep mode, which a GPU has."""
        from regrade.engines.vllm_process.build import runs_on_cpu  # noqa: PLC0415 - see `_resolved_here`

        if runs_on_cpu():
            raise SettingsError(
                "vLLM cannot sleep on a CPU: use `between=stay`, or `between=end`, which frees all memory."
            )
        return self.model_copy(update={"extra": (*self.extra, "enable_sleep_mode=true")})

    def _decided(
        self, model: "ResolvedModel", decided: dict[str, Any], *, truncate: bool
    ) -> dict[str, Any]:
        """Return the deciding arguments in `extra` with the settings beside them."""
        from regrade.engines.vllm_process.build import runs_on_cpu  # noqa: PLC0415 - see `_resolved_here`

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
        if self.reasoning_parser != "auto" and "reasoning_parser" not in model.found_anyway:
            decided["reasoning_parser"] = self.reasoning_parser
        if self.tool_parser != "none":
            decided["tool_parser"] = self.tool_parser
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
        """Return vLLM, not loaded yet.

        Raises:
            SettingsError: As `check_here`.
        """
        from regrade.engines.vllm_process.engine import VllmProcess  # noqa: PLC0415 - see `_resolved_here`

        self.check_here()
        return VllmProcess(
            self, model, requests=requests, rendering=rendering, log=log, on_progress=on_progress
        )

    def check_here(self) -> None:
        """Refuse variables that have no valid value, and a split among more GPUs than this machine has.

        The split counts if it is vLLM's own processes that share the model.
        """
        # as in `_resolved_here`
        from regrade.engines.vllm_process.build import gpus_here, runs_on_cpu  # noqa: PLC0415
        from regrade.engines.vllm_process.cpu import nice_value  # noqa: PLC0415
        from regrade.engines.vllm_process.environment import checks_fit  # noqa: PLC0415
        from regrade.engines.vllm_process.slot import engine_slots  # noqa: PLC0415

        nice_value()
        checks_fit()
        engine_slots()
        sizes = {name: size for name in PARALLEL if (size := getattr(self, name)) > 1}
        needed = prod(sizes.values())
        elsewhere = ("distributed_", "data_parallel_", "nnodes")
        spread = any(name.startswith(elsewhere) for name in parse_extra(self.extra))
        if not sizes or spread or runs_on_cpu():
            return
        if 0 < (found := len(gpus_here())) < needed:
            given = " and ".join(f"`engine.{name}={size}`" for name, size in sizes.items())
            raise SettingsError(
                f"{given}: that takes {needed} GPUs, and vLLM may use {found} here. Lower the number, or free more GPUs "
                "with CUDA_VISIBLE_DEVICES."
            )

    def _with_what_is_found(self, model: "ResolvedModel") -> "ResolvedModel":
        """Return the model without a requested quantisation that vLLM finds anyway, and with the names of such settings."""
        from regrade.engines.vllm_process.planner import found_anyway  # noqa: PLC0415 - see `_resolved_here`

        states = model.quantization is not None and self.quantization is not None
        other_name = states and self.quantization != model.quantization
        found = frozenset({"quantization"}) if states and not other_name else frozenset[str]()
        if other_name or self.reasoning_parser != "auto":
            found |= found_anyway(self, model)
        changes = {"quantization": None} if "quantization" in found else {}
        return replace(
            model, found_anyway=found, identity=model.identity.model_copy(update=changes)
        )


engine = VllmEngine

"""Worker side: a LoRA adapter, which vLLM applies to every request without merging it into the model."""

from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from regrade.engines.vllm_process.reloading import TOKENS, probe
from regrade.settings.errors import SettingsError

if TYPE_CHECKING:
    from regrade.engines.vllm_process.data_parallel import DataParallelEngine
    from regrade.engines.vllm_process.internals import LLMEngine, LoRARequest, SamplingParams

_WEIGHTS = "adapter_model.safetensors"


class AdaptedEngine:
    """vLLM's engine with the same adapter for every request; implements `SteppedEngine`, with the methods of the engine."""

    def __init__(
        self,
        engine: "LLMEngine | DataParallelEngine",
        adapter: "LoRARequest",
        *,
        has_head: bool = False,
    ) -> None:
        """Wrap the engine; `has_head`: the adapter changes the output layer."""
        self._engine, self._adapter, self._has_head = engine, adapter, has_head
        self.abort_request, self.step = engine.abort_request, engine.step
        self.reset_prefix_cache = engine.reset_prefix_cache

    def add_request(self, request_id: str, prompt: Any, params: "SamplingParams") -> None:  # noqa: ANN401
        """Start a request.

        Raises:
            ValueError: If vLLM would compute wrong log-probabilities.
        """
        if self._has_head and params.prompt_logprobs is not None:
            raise ValueError(
                "the adapter changes 'lm_head', which vLLM leaves out of the log-probabilities of prompts, by which labels "
                f"of several tokens are ranked. {_MERGE}"
            )
        self._engine.add_request(request_id, prompt, params, lora_request=self._adapter)


def adapter_arguments(folder: str, *, is_cpu: bool) -> dict[str, Any]:
    """Return vLLM's engine arguments for an adapter.

    On a CPU, vLLM 0.32 fails at requests with log-probabilities of the prompt if the output layer may have an adapter.
    On a CPU, only the kinds of layers that the adapter changes are therefore prepared.

    Raises:
        SettingsError: If the adapter has a rank or features that vLLM does not support.
    """
    from safetensors import SafetensorError

    from regrade.engines.vllm_process.internals import LoRAConfig, MaxLoRARanks, PEFTHelper

    try:
        helper = PEFTHelper.from_local_dir(folder, None)
        needed = max(helper.r, *helper.rank_pattern.values(), 0)
        ranks = get_args(MaxLoRARanks)
        rank = next((allowed for allowed in ranks if allowed >= needed), None)
        if rank is None:
            raise SettingsError(
                f"The adapter in '{folder}' has rank {needed}; vLLM applies ranks up to {max(ranks)}. {_MERGE}"
            )
        helper.validate_legal(LoRAConfig(max_lora_rank=rank))
        layers = {name.partition(".lora_")[0] for name in _names(Path(folder))}
    except (KeyError, TypeError, ValueError, SafetensorError) as error:
        raise SettingsError(
            f"vLLM does not apply the adapter in '{folder}': {' '.join(str(error).split())} {_MERGE}"
        ) from error
    arguments = {"enable_lora": True, "max_lora_rank": rank, "max_loras": 1}
    if is_cpu:
        kinds = {layer.rpartition(".")[2] for layer in layers}
        experts = {"experts"} if any(".experts" in layer for layer in layers) else set()
        arguments["lora_target_modules"] = sorted(kinds | experts)
    return arguments


_MERGE = "Merge it into its base model, and evaluate the merged model."


def load_adapter(
    engine: "LLMEngine | DataParallelEngine", folder: str, max_model_len: int
) -> AdaptedEngine:
    """Load an adapter, and return the engine that applies it to every request.

    vLLM silently ignores weights of an adapter that match no layer, so that with an adapter of another model the base
    model would answer. A prompt is therefore compared with and without the adapter.

    Raises:
        SettingsError: If the adapter does not fit the model's layers.
    """
    from regrade.engines.vllm_process.internals import EngineDeadError, LoRARequest

    request = LoRARequest(lora_name="adapter", lora_int_id=1, lora_path=folder)
    try:
        engine.add_lora(request)
    except EngineDeadError:
        raise
    except Exception as error:  # the engine's process can raise any error; it arrives here as text
        raise SettingsError(
            f"vLLM cannot apply the adapter in '{folder}' to this model: {' '.join(str(error).split())}"
        ) from error
    without, with_adapter = (
        probe(asked, [range(TOKENS)], max_model_len)[0][:TOKENS]
        for asked in (engine, AdaptedEngine(engine, request))
    )
    if without == with_adapter and not _is_zero(Path(folder)):
        raise SettingsError(
            f"The adapter in '{folder}' changes nothing: its weights match no layer of this model. Is it an adapter of another model?"
        )
    names = _names(Path(folder))
    return AdaptedEngine(engine, request, has_head=any("lm_head" in name for name in names))


def _is_zero(folder: Path) -> bool:
    """Return True if all matrices B of an adapter are zero, as before its training."""
    with _opened(folder) as tensors:
        names = [n for n in tensors.keys() if "lora_B" in n or "lora_embedding_B" in n]  # noqa: SIM118 - no mapping
        return not any(tensors.get_tensor(name).any() for name in names)


def _names(folder: Path) -> list[str]:
    """Return the names of an adapter's tensors."""
    with _opened(folder) as tensors:
        return list(tensors.keys())


def _opened(folder: Path) -> Any:  # noqa: ANN401 - has no types
    from safetensors import safe_open  # vLLM reads weights with it

    return safe_open(folder / _WEIGHTS, framework="pt")

"""Worker side: models for which vLLM computes wrong answers on a CPU."""

from typing import TYPE_CHECKING

from regrade.errors import SettingsError

if TYPE_CHECKING:
    from regrade.engines.vllm_process.internals import ModelConfig


def check_rotation(model: "ModelConfig") -> None:
    """Refuse latent attention with plain rotary positions, on a CPU.

    vLLM's models hand its queries over as (tokens, heads, size), and the CPU kernel of vLLM 0.32 takes them for one head each. Models
    with scaled positions (YaRN, as DeepSeek's own) use another implementation, which is right.

    Raises:
        SettingsError: If vLLM would compute wrong answers for the model.
    """
    positions = getattr(model.hf_text_config, "rope_parameters", None) or {}
    if model.use_mla and positions.get("rope_type", "default") == "default":
        raise SettingsError(
            f"vLLM 0.32 computes wrong answers for this model on a CPU: its kernel rotates the queries of "
            f"'{model.hf_text_config.model_type}' wrongly (latent attention without YaRN). Use a GPU."
        )

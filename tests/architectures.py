"""Tiny models of real architectures with random weights, and the answers that transformers computes for them."""

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # torch takes seconds to import
    from transformers import PreTrainedModel

_COMMON: dict[str, Any] = {
    "vocab_size": 3072,  # of the demo model's tokenizer
    "hidden_size": 128,
    "intermediate_size": 192,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 32,  # vLLM has no attention on the CPU for 16
    "max_position_embeddings": 512,
    "tie_word_embeddings": False,
    "eos_token_id": 2,
    "pad_token_id": 0,
}
_WINDOW: dict[str, Any] = {
    "sliding_window": 16,  # shorter than the prompts
    "layer_types": ["sliding_attention", "full_attention"],
}
_EXPERTS: dict[str, Any] = {"num_experts_per_tok": 2, "moe_intermediate_size": 64}
_MAMBA: dict[str, Any] = {
    "mamba_num_heads": 8,
    "mamba_head_dim": 32,
    "ssm_state_size": 32,
    "n_groups": 2,
}

_LATENT: dict[str, Any] = {
    **_EXPERTS,
    "num_key_value_heads": 4,  # as many as heads: each has its own part of the latent vector
    "head_dim": 64,  # of the rotated part; transformers takes it from here
    "qk_rope_head_dim": 64,
    "qk_nope_head_dim": 32,
    "v_head_dim": 32,
    "kv_lora_rank": 512,  # vLLM has no attention on the CPU for others
    "q_lora_rank": 64,
    "n_routed_experts": 4,
    "n_group": 2,
    "topk_group": 1,
    "first_k_dense_replace": 1,
    "num_nextn_predict_layers": 0,
    # As in DeepSeek's own files; without them vLLM expects no bias of the experts' scores, which transformers always has.
    "topk_method": "noaux_tc",
    "scoring_func": "sigmoid",
    "rope_parameters": {
        "rope_type": "yarn",  # as in DeepSeek's own files
        "rope_theta": 10000.0,
        "factor": 4.0,
        "original_max_position_embeddings": 128,
        "beta_fast": 32,
        "beta_slow": 1,
        "mscale": 1.0,
        "mscale_all_dim": 1.0,
    },
}

ARCHITECTURES: Mapping[str, Mapping[str, Any]] = {
    "llama": {},
    "qwen2": {},
    "qwen3_moe": {**_EXPERTS, "num_experts": 4, "norm_topk_prob": True},
    "mistral": {"sliding_window": 16},
    "mixtral": {"num_experts_per_tok": 2, "num_local_experts": 4},
    "gemma2": {**_WINDOW, "query_pre_attn_scalar": 32, "tie_word_embeddings": True},
    "gemma3_text": {**_WINDOW, "query_pre_attn_scalar": 32, "tie_word_embeddings": True},
    "phi3": {},
    "olmo3": _WINDOW,
    "granite": {"embedding_multiplier": 2.0, "logits_scaling": 4.0, "residual_multiplier": 0.5},
    "glm4": {},
    "gpt_oss": {**_WINDOW, "num_experts_per_tok": 2, "num_local_experts": 4},
    "nemotron_h": {**_MAMBA, "hybrid_override_pattern": "M*"},
    # With an intermediate size of 192, an answer ends inside of a character, which vLLM leaves out.
    "olmo2": {"intermediate_size": 224},
    "deepseek_v3": _LATENT,
}
"""Values of the configuration beside the common ones, by `model_type`."""


def random_model(model_type: str, demo_model: Path, folder: Path, **changes: Any) -> Path:
    """Make a model of an architecture with the demo model's tokenizer and chat template.

    `changes` are further values of the configuration.

    All weights differ from their initial values, so that a bias or a scale that is left out changes the answers.
    """
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    torch.manual_seed(0)
    config = AutoConfig.for_model(model_type, **{**_COMMON, **ARCHITECTURES[model_type], **changes})
    model = AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            # A large tied embedding would only repeat the last token.
            scale = 0.03 if "embed" in name and config.tie_word_embeddings else 0.1
            parameter.add_(torch.randn_like(parameter) * scale)
    model.save_pretrained(folder)
    for name in (
        "chat_template.jinja",
        "generation_config.json",
        "tokenizer.json",
        "tokenizer_config.json",
    ):
        shutil.copy(demo_model / name, folder / name)
    return folder


class Reference:
    """transformers' own forward pass of a model in a folder."""

    def __init__(self, folder: Path):
        import torch
        from transformers import AutoModelForCausalLM, AutoTokenizer

        self._tokenizer = AutoTokenizer.from_pretrained(folder)
        self._model: PreTrainedModel = AutoModelForCausalLM.from_pretrained(
            folder, dtype=torch.float32, attn_implementation="eager"
        ).eval()

    def greedy(self, prompt: str, max_tokens: int) -> str:
        """The most likely text after the prompt, at most `max_tokens` tokens long."""
        ids = self._ids(prompt)
        tokens = list(ids)
        for _ in range(max_tokens):
            tokens.append(int(self._logprobs(tokens)[-1].argmax()))
        return str(self._tokenizer.decode(tokens[len(ids) :], skip_special_tokens=True))

    def label_logprobs(self, prompt: str, labels: tuple[str, ...]) -> tuple[float, ...]:
        """Log-probability of each label as the continuation of the prompt; a label is one token."""
        ids = self._ids(prompt)
        continued = [self._ids(prompt + label) for label in labels]
        assert all(tokens[:-1] == ids for tokens in continued)
        logprobs = self._logprobs(ids)[-1]
        return tuple(float(logprobs[tokens[-1]]) for tokens in continued)

    def _ids(self, text: str) -> list[int]:
        return list(self._tokenizer.encode(text, add_special_tokens=False))

    def _logprobs(self, ids: list[int]) -> Any:
        import torch

        with torch.inference_mode():
            return self._model(torch.tensor([ids]), use_cache=False).logits[0].log_softmax(-1)

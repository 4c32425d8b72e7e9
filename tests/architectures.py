"""Tiny models of real architectures with random weights, and the answers that transformers computes for them."""

import json
import re
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import PIL.Image

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

_TOWER: dict[str, Any] = {
    "hidden_size": 64,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "image_size": 56,
    "patch_size": 14,
}
SEEING: Mapping[str, Mapping[str, Any]] = {
    "qwen3_vl": {
        "text_config": {
            "model_type": "qwen3_vl_text",
            "rope_parameters": {
                "rope_type": "default",
                "rope_theta": 10000.0,
                "mrope_section": [8, 4, 4],
                "mrope_interleaved": True,
            },
        },
        "vision_config": {
            "model_type": "qwen3_vl",
            "depth": 2,
            "hidden_size": 64,
            "intermediate_size": 64,
            "num_heads": 2,
            "patch_size": 16,
            "out_hidden_size": 128,
            "deepstack_visual_indexes": [0],
        },
    },
    "gemma3": {
        "text_config": {"model_type": "gemma3_text", **ARCHITECTURES["gemma3_text"]},
        "vision_config": {"model_type": "siglip_vision_model", "vision_use_head": False, **_TOWER},
        "mm_tokens_per_image": 4,
    },
    "mistral3": {
        # As above, an answer would end inside of a character.
        "text_config": {"model_type": "mistral", "sliding_window": None, "intermediate_size": 224},
        "vision_config": {"model_type": "pixtral", **_TOWER, "head_dim": 32},
    },
    "llama4": {
        "text_config": {
            "model_type": "llama4_text",
            "intermediate_size_mlp": 192,
            "num_local_experts": 2,
            "num_experts_per_tok": 1,
            "interleave_moe_layer_step": 1,
            "attention_chunk_size": 128,  # of the block of the KV cache
        },
        "vision_config": {
            "model_type": "llama4_vision_model",
            **_TOWER,
            "vision_output_dim": 64,
            "projector_input_dim": 64,
            "projector_output_dim": 64,
        },
    },
}
"""Values of the configurations of models that also see, by `model_type`."""
_LOOKS: Mapping[str, Mapping[str, Any]] = {
    "qwen3_vl": {
        "preprocessor_config.json": {
            "image_processor_type": "Qwen2VLImageProcessorFast",
            "processor_class": "Qwen3VLProcessor",
            "size": {"longest_edge": 65536, "shortest_edge": 4096},
            "patch_size": 16,
            "temporal_patch_size": 2,
            "merge_size": 2,
        },
        "video_preprocessor_config.json": {
            "video_processor_type": "Qwen3VLVideoProcessor",
            "processor_class": "Qwen3VLProcessor",
            "size": {"longest_edge": 65536, "shortest_edge": 4096},
            "patch_size": 16,
            "temporal_patch_size": 2,
            "merge_size": 2,
        },
    },
    "gemma3": {
        "preprocessor_config.json": {
            "image_processor_type": "Gemma3ImageProcessorFast",
            "processor_class": "Gemma3Processor",
            "size": {"height": 56, "width": 56},
            "image_seq_length": 4,
        },
        "processor_config.json": {"processor_class": "Gemma3Processor", "image_seq_length": 4},
    },
}
"""Further files of models that also see."""


_SHOWN: Mapping[str, tuple[str, ...]] = {
    "qwen3_vl": ("<|vision_start|>", "<|image_pad|>", "<|vision_end|>", "<|video_pad|>"),
    "gemma3": ("<start_of_image>", "<image_soft_token>", "<end_of_image>"),
}
"""Tokens of images, by `model_type`."""
_LINES = ("\n", "\n\n", "\n\n\n", "\n\n\n\n")
"""Tokens that Gemma's processor needs."""
PLACEHOLDERS = {
    "qwen3_vl": "<|vision_start|><|image_pad|><|vision_end|>",
    "gemma3": "<start_of_image>",
}
"""Placeholder of an image in a prompt, by `model_type`."""
_IN_PARTS = """{%- for turn in messages -%}
{{ '<|im_start|>' ~ turn.role ~ '\n' }}
{%- for part in turn.content -%}
{{ 'PLACEHOLDER' if part.type == 'image' else part.text | trim }}
{%- endfor -%}
{{ '<|im_end|>\n' }}
{%- endfor -%}
{%- if add_generation_prompt -%}
{{ '<|im_start|>assistant\n' }}
{%- endif -%}
"""
"""Chat template that expects the content of a message in parts; the demo model's expects a text."""


def seeing_model(model_type: str, demo_model: Path, folder: Path) -> Path:
    """Make a model that sees: as `random_model`, with tokens of images and a processor."""
    tokens = _SHOWN[model_type]
    tokenizer = json.loads((demo_model / "tokenizer.json").read_text())
    first = int(_COMMON["vocab_size"])
    ids = {token: first + number for number, token in enumerate(tokens)}
    text = {**_COMMON, **SEEING[model_type]["text_config"], "vocab_size": first + 128}
    if model_type == "qwen3_vl":
        start, image, end, video = ids.values()
        named = {"vision_start_token_id": start, "vision_end_token_id": end}
        named |= {"image_token_id": image, "video_token_id": video}
    else:
        start, image, end = ids.values()
        named = {"boi_token_index": start, "image_token_index": image, "eoi_token_index": end}
    random_model(model_type, demo_model, folder, text_config=text, **named)
    lines = {line: first + 100 + number for number, line in enumerate(_LINES)}
    for token, number in {**ids, **(lines if model_type == "gemma3" else {})}.items():
        kind = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
        added = {"id": number, "content": token, **kind, "special": token in ids}
        tokenizer["added_tokens"].append(added)
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    template = _IN_PARTS.replace("PLACEHOLDER", PLACEHOLDERS[model_type])
    (folder / "chat_template.jinja").write_text(template)
    if model_type == "qwen3_vl":
        return folder
    _name_as_published(folder / "model.safetensors")
    settings = json.loads((folder / "tokenizer_config.json").read_text())
    settings |= dict(zip(("boi_token", "image_token", "eoi_token"), tokens, strict=True))
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    return folder


def _name_as_published(weights: Path) -> None:
    """Give the tensors of Gemma's tower the names that they have in its own files; transformers writes others, which vLLM does not read."""
    from safetensors.torch import load_file, save_file

    tensors = {
        re.sub(r"^((?:model\.)?vision_tower\.)(?!vision_model\.)", r"\1vision_model.", name): tensor
        for name, tensor in load_file(weights).items()
    }
    save_file(tensors, weights, metadata={"format": "pt"})


def random_model(model_type: str, demo_model: Path, folder: Path, **changes: Any) -> Path:
    """Make a model of an architecture with the demo model's tokenizer and chat template.

    `changes` are further values of the configuration.

    All weights differ from their initial values, so that a bias or a scale that is left out changes the answers.
    """
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForImageTextToText

    torch.manual_seed(0)
    sees = model_type in SEEING
    values = SEEING[model_type] if sees else {**_COMMON, **ARCHITECTURES[model_type]}
    if sees:
        values = {**values, "text_config": {**_COMMON, **values["text_config"]}}
    config = AutoConfig.for_model(model_type, **{**values, **changes})
    kind = AutoModelForImageTextToText if sees else AutoModelForCausalLM
    model = kind.from_config(config, dtype=torch.float32)
    tied = config.get_text_config().tie_word_embeddings
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            # A large tied embedding would only repeat the last token.
            scale = 0.03 if "embed" in name and tied else 0.1
            parameter.add_(torch.randn_like(parameter) * scale)
    model.save_pretrained(folder)
    for name in (
        "chat_template.jinja",
        "generation_config.json",
        "tokenizer.json",
        "tokenizer_config.json",
    ):
        shutil.copy(demo_model / name, folder / name)
    for name, content in _LOOKS.get(model_type, {}).items():
        (folder / name).write_text(json.dumps(content))
    return folder


class Reference:
    """transformers' own forward pass of a model in a folder."""

    def __init__(self, folder: Path):
        import torch
        from transformers import (
            AutoConfig,
            AutoModelForCausalLM,
            AutoModelForImageTextToText,
            AutoTokenizer,
        )

        sees = AutoConfig.from_pretrained(folder).model_type in SEEING
        kind = AutoModelForImageTextToText if sees else AutoModelForCausalLM
        self._tokenizer = AutoTokenizer.from_pretrained(folder)
        self._model: PreTrainedModel = kind.from_pretrained(
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


class SeeingReference:
    """transformers' own answers of a model that sees, and its processor."""

    def __init__(self, folder: Path, *, two_way: bool = False):
        """Load the model; with `two_way`, the parts of an image in Gemma see each other in both directions."""
        import torch
        from transformers import AutoModelForImageTextToText, AutoProcessor

        self._two_way = two_way

        self.processor: Any = AutoProcessor.from_pretrained(folder)
        self._model: Any = AutoModelForImageTextToText.from_pretrained(
            folder, dtype=torch.float32, attn_implementation="eager"
        ).eval()

    def inputs(self, prompt: str, images: Sequence[PIL.Image.Image]) -> Mapping[str, Any]:
        """The model's inputs for a prompt with placeholders."""
        found = self.processor(
            text=prompt,
            images=[[*images]],
            return_tensors="pt",
            add_special_tokens=False,  # the template wrote them
        )
        # Of Gemma, they say which tokens see each other in both directions, which vLLM's attention on a CPU does not know.
        left_out = () if self._two_way else ("token_type_ids",)
        return {name: value for name, value in found.items() if name not in left_out}

    def greedy(self, inputs: Mapping[str, Any], max_tokens: int) -> list[int]:
        """The most likely tokens after the prompt."""
        found = self._model.generate(**inputs, do_sample=False, max_new_tokens=max_tokens)
        return [int(token) for token in found[0][inputs["input_ids"].shape[1] :]]

    def logprob(self, prompt: str, label: str, images: Sequence[PIL.Image.Image]) -> float:
        """Log-probability of a label as the continuation of a prompt."""
        import torch

        length = self.inputs(prompt, images)["input_ids"].shape[1]
        inputs = self.inputs(prompt + label, images)
        with torch.inference_mode():
            logprobs = self._model(**inputs).logits[0].log_softmax(-1)
        tokens = inputs["input_ids"][0]
        return sum(float(logprobs[at - 1, tokens[at]]) for at in range(length, len(tokens)))

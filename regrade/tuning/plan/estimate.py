"""Memory of a model by the usual formula, from its `config.json`; used only if vLLM cannot tell.

It knows the decoders in `KINDS`: grouped-query, multi-query or multi-head latent attention (MLA), dense or with experts. Sliding
windows are not considered, so that their KV cache is overestimated. Other models are refused rather than estimated wrongly.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from regrade.engines.vllm_process.arguments import cpu_cache_bytes
from regrade.engines.vllm_process.planner import Refused, SplitMemory
from regrade.engines.vllm_process.settings import VllmSettings
from regrade.models import ResolvedModel
from regrade.models.base import context_length
from regrade.models.files import config_of, weights_size
from regrade.settings.errors import SettingsError

# Splits of GPUs into tensor, pipeline and data parallel, and why a model cannot be split.

_PADDED = 64
"""vLLM pads the vocabulary to a multiple of this, in rows of the embedding."""


@dataclass(frozen=True, slots=True)
class Split:
    """GPUs of a model: `tensor` share each layer, `pipeline` groups hold a part of the layers, `data` copies of all."""

    tensor: int
    pipeline: int
    data: int

    def __str__(self) -> str:
        return f"TP {self.tensor} x PP {self.pipeline} x DP {self.data}"


def splits_of(gpus: int) -> list[Split]:
    """Return all splits that use a number of GPUs, by size of tensor and pipeline parallel."""
    divisors = [n for n in range(1, gpus + 1) if gpus % n == 0]
    return [
        Split(tensor, pipeline, gpus // (tensor * pipeline))
        for tensor in divisors
        for pipeline in divisors
        if gpus % (tensor * pipeline) == 0
    ]


def rule_against(
    split: Split, *, heads: int, kv_heads: int, vocabulary: int, layers: int
) -> str | None:
    """Return the rule that a split breaks, in a sentence; None if it breaks none of those known here.

    Args:
        split: The split.
        heads: Attention heads of the model.
        kv_heads: Heads of keys and values.
        vocabulary: Tokens in the vocabulary.
        layers: Number of layers.
    """
    n = split.tensor
    if heads % n:
        return f"The model has {heads} attention heads, which {n} GPUs cannot share equally."
    if max(kv_heads, n) % min(kv_heads, n):
        return (
            f"The model has {kv_heads} heads of keys and values: {n} GPUs can neither share them equally nor hold equally "
            "many copies of each."
        )
    rows = math.ceil(vocabulary / _PADDED) * _PADDED
    if rows % n:
        return (
            f"The vocabulary of {vocabulary:,} tokens takes {rows:,} rows with vLLM's padding, which {n} GPUs cannot "
            "share equally."
        )
    if split.pipeline > layers:
        return f"The model has {layers} layers, too few for {split.pipeline} groups."
    return None


KINDS = frozenset(
    [
        "deepseek_v3",
        "gpt_oss",
        "kimi_k2",
        "llama",
        "minimax_m2",
        "mistral",
        "mixtral",
        "qwen2",
        "qwen3",
        "qwen3_moe",
        "qwen3_vl_moe_text",
        "qwen3_vl_text",
    ]
)
"""Types of models (`model_type`) whose parameters the formula counts to within 1 %."""
_DTYPE_BYTES = {"float32": 4.0, "float16": 2.0, "bfloat16": 2.0}
_QUANTISED_BYTES = {"fp8": 1.0, "mxfp4": 0.53, "compressed-tensors": 1.0, "modelopt": 1.0}
"""Bytes of a quantised weight with its scales; other methods state their `bits`."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """Sizes of a model that its `config.json` states."""

    layers: int
    heads: int
    kv_heads: int
    vocabulary: int
    kv_values: int
    """Values that a layer keeps for a token, all heads together; of MLA every GPU keeps all of them."""
    is_mla: bool
    embedding: int
    """Parameters of the embedding and, unless tied, of the output layer."""
    body: int
    """Parameters of all layers."""

    @property
    def parameters(self) -> int:
        """Number of parameters."""
        return self.embedding + self.body


def sizes_of(config: Mapping[str, Any]) -> Sizes:
    """Return the sizes in a `config.json`, at the top level or in `text_config`.

    Raises:
        SettingsError: If a size is missing, because the model is of another kind.
    """
    text: Mapping[str, Any] = config.get("text_config") or config
    _check_kind(text)

    def size(*names: str, default: int | None = None) -> int:
        for name in names:
            if isinstance(text.get(name), int) and text[name] > 0:
                return int(text[name])
        if default is None:
            raise SettingsError(
                f"The model's memory cannot be estimated: its config.json has no '{names[0]}', so it is of another kind than the "
                "formula knows."
            )
        return default

    hidden, layers = size("hidden_size", "n_embd"), size("num_hidden_layers", "n_layer")
    heads = size("num_attention_heads", "n_head")
    kv_heads = size("num_key_value_heads", default=heads)
    head = size("head_dim", default=hidden // heads)
    vocabulary = size("vocab_size")
    latent = size("kv_lora_rank", default=0)
    if latent:
        rope, nope = size("qk_rope_head_dim"), size("qk_nope_head_dim")
        rank, value = size("q_lora_rank", default=0), size("v_head_dim")
        queries = (
            rank * (hidden + heads * (nope + rope)) if rank else hidden * heads * (nope + rope)
        )
        keys = hidden * (latent + rope) + latent * heads * (nope + value)
        attention, kv_values = queries + keys + heads * value * hidden, latent + rope
    else:
        attention, kv_values = hidden * head * 2 * (heads + kv_heads), 2 * kv_heads * head
    experts = size("num_experts", "num_local_experts", "n_routed_experts", default=0)
    inner = size("intermediate_size", "n_inner", default=4 * hidden)
    dense_layers = layers if not experts else min(size("first_k_dense_replace", default=0), layers)
    feed_forward = dense_layers * 3 * hidden * inner
    if experts:
        own = size("moe_intermediate_size", default=inner)
        shared = size("n_shared_experts", default=0) * own
        shared = size("shared_expert_intermediate_size", default=shared)
        each = 3 * hidden * (experts * own + shared) + hidden * experts
        feed_forward += (layers - dense_layers) * each
    tied = bool(text.get("tie_word_embeddings", config.get("tie_word_embeddings", False)))
    return Sizes(
        layers=layers,
        heads=heads,
        kv_heads=kv_heads,
        vocabulary=vocabulary,
        kv_values=kv_values,
        is_mla=bool(latent),
        embedding=hidden * vocabulary * (1 if tied else 2),
        body=layers * (attention + 2 * hidden) + feed_forward,
    )


def _check_kind(text: Mapping[str, Any]) -> None:
    """Refuse a model of a kind for which the formula was not compared with published numbers.

    Raises:
        SettingsError: If it is of such a kind.
    """
    kind = text.get("model_type")
    if kind not in KINDS:
        raise SettingsError(
            f"The model's memory cannot be estimated: the formula does not know models of type '{kind}'. Plan on a machine whose vLLM "
            "supports it."
        )


def weight_bytes(config: Mapping[str, Any], dtype: str) -> float:
    """Return the bytes of a weight in the layers; embeddings and output are not quantised.

    Args:
        config: The model's `config.json`.
        dtype: Precision of weights that are not quantised.
    """
    quantisation = config.get("quantization_config") or {}
    method = str(quantisation.get("quant_method", ""))
    if isinstance(quantisation.get("bits"), int):
        return float(quantisation["bits"]) / 8 * 1.06  # with the scales
    return _QUANTISED_BYTES.get(method, _DTYPE_BYTES[dtype])


def estimated_weights(
    config: Mapping[str, Any], sizes: Sizes, dtype: str, files: int | None
) -> int:
    """Return the bytes of all weights.

    Args:
        config: The model's `config.json`.
        sizes: Its sizes.
        dtype: Precision of weights that are not quantised.
        files: Bytes of the checkpoint's files; None if they are not known.

    Raises:
        SettingsError: If the files are not known, and the model has parts that the formula does not know.
    """
    if files is not None:
        return files
    for part in ("vision_config", "audio_config"):
        if config.get(part):
            raise SettingsError(
                f"The model's memory cannot be estimated: the formula does not know its '{part}', and neither its weights nor their "
                "index are there. Plan on a machine whose vLLM supports it."
            )
    body = sizes.body * weight_bytes(config, dtype)
    return int(body + sizes.embedding * _DTYPE_BYTES[dtype])


def kv_bytes_per_token(sizes: Sizes, split: Split, value_bytes: float) -> float:
    """Return the bytes of a token's KV cache on a GPU; keys and values of a head are on at least one GPU."""
    share = 1.0 if sizes.is_mla else max(1, sizes.kv_heads // split.tensor) / sizes.kv_heads
    layers = math.ceil(sizes.layers / split.pipeline)
    return layers * sizes.kv_values * share * value_bytes


def dtype_of(config: Mapping[str, Any], setting: str, *, is_cpu: bool) -> str:
    """Return the precision in which weights are held, as vLLM chooses it."""
    if setting != "auto":
        return setting
    if is_cpu:
        return "float32"
    for part in (config, config.get("text_config") or {}):
        stated = str(part.get("dtype") or part.get("torch_dtype") or "").removeprefix("torch.")
        if stated in ("float16", "bfloat16"):
            return stated
    return "bfloat16"  # also for float32, which vLLM converts


def kv_value_bytes(setting: str, dtype: str) -> float:
    """Return the bytes of a value in the KV cache for `kv_cache_dtype`."""
    return 1.0 if setting.startswith("fp8") else _DTYPE_BYTES[dtype]


@dataclass(frozen=True, slots=True)
class Formula:
    """The estimate of a model's memory."""

    config: Mapping[str, Any]
    """The model's `config.json`."""
    sizes: Sizes
    weights: int
    """Bytes of all weights."""
    kv_value: float
    """Bytes of a value in the KV cache."""
    dtype: str
    max_model_len: int

    def split(self, split: Split, *, usable: int | None, reserved: int) -> SplitMemory | Refused:
        """Return the memory of a split, or the rule that it breaks.

        Args:
            split: The split.
            usable: Bytes of a GPU that vLLM may use; None on a CPU.
            reserved: Bytes of a GPU that are neither weights nor KV cache.
        """
        sizes = self.sizes
        rule = rule_against(
            split,
            heads=sizes.heads,
            kv_heads=sizes.kv_heads,
            vocabulary=sizes.vocabulary,
            layers=sizes.layers,
        )
        if rule is not None:
            return Refused(rule)
        weights = math.ceil(self.weights / (split.tensor * split.pipeline))
        room = cpu_cache_bytes(1) if usable is None else usable - weights - reserved
        per_token = kv_bytes_per_token(sizes, split, self.kv_value)
        tokens = int(max(room, 0) / per_token)
        return SplitMemory(
            weights=(weights,) * split.pipeline,
            parameters=sizes.parameters,
            usable=usable,
            kv_cache=(room,) * split.pipeline,
            needed=(math.ceil(per_token * self.max_model_len),) * split.pipeline,
            tokens=tokens,
            concurrency=tokens / self.max_model_len,
        )


def formula_of(
    model: ResolvedModel, settings: VllmSettings, *, is_cpu: bool, max_model_len: int | None
) -> Formula:
    """Return the formula for a model.

    Args:
        model: The model.
        settings: Settings of the engine.
        is_cpu: The model is to run on a CPU.
        max_model_len: Length for which to plan. None: that of the settings, or the model's limit.

    Raises:
        SettingsError: If the model is of another kind than the formula knows.
    """
    config = config_of(model)
    sizes = sizes_of(config)
    dtype = dtype_of(config, settings.dtype, is_cpu=is_cpu)
    length = max_model_len or settings.max_model_len or context_length(config)
    if length is None:
        raise SettingsError(
            "The model's config.json states no context length. Give one: `--max-model-len`."
        )
    return Formula(
        config=config,
        sizes=sizes,
        weights=estimated_weights(config, sizes, dtype, weights_size(model)),
        kv_value=kv_value_bytes(settings.kv_cache_dtype, dtype),
        dtype=dtype,
        max_model_len=length,
    )

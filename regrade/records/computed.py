"""The computation of an engine beyond its settings: recorded with each session, and compared."""

from collections.abc import Iterator, Sequence
from typing import Annotated, Literal, NamedTuple

from regrade.settings import StrictModel
from regrade.settings.marks import Mark, marked

ROUNDING = Mark("rounding")
"""With two values of the field, the same model is computed up to rounding."""
OF_MODEL = Mark("of model")
"""The field depends on the model."""
NONE = "none"
"""Value of a field for which the engine has nothing; None is for values that are not known."""
Fingerprint = tuple[tuple[tuple[str, float], ...], ...]
"""Greedy answers to fixed prompts: of each the tokens with their log-probabilities."""
Answers = Sequence[Sequence[tuple[int, float]]]
"""Tokens of each answer with their log-probabilities."""
_SAME_MODEL = 0.2
"""Largest mean difference of log-probabilities that rounding and batches make in one model, as a share of their mean. The demo model,
with a mean of 0.097: 0.010 between float32 and bfloat16, 0.034 with weights in FP8. Not measured on GPUs."""
_SMALLEST_MEAN = 0.02
"""Mean of log-probabilities, in nats, below which all differences are rounding."""
_CHANGES_ANSWERS = frozenset(
    {
        "VLLM_ALLOW_LONG_MAX_MODEL_LEN",
        "VLLM_B12X_MOE_FP4_FORCE_A16",
        "VLLM_CPU_INT4_W4A8",
        "VLLM_DEEPEPLL_NVFP4_DISPATCH",
        "VLLM_FLASHINFER_MOE_A2A_LOW_PRECISION_COMBINE",
        "VLLM_FLOAT32_MATMUL_PRECISION",
        "VLLM_GPT_OSS_HARMONY_SYSTEM_INSTRUCTIONS",
        "VLLM_HUMMING_INPUT_QUANT_CONFIG",
        "VLLM_HUMMING_ONLINE_QUANT_CONFIG",
        "VLLM_HUMMING_USE_F16_ACCUM",
        "VLLM_MARLIN_INPUT_DTYPE",
        "VLLM_MODEL_REDIRECT_PATH",
        "VLLM_MOE_ROUTING_SIMULATION_STRATEGY",
        "VLLM_PLUGINS",
        "VLLM_ROCM_QUICK_REDUCE_QUANTIZATION",
        "VLLM_ROCM_USE_AITER_MOE_A4W4_DSV4",
        "VLLM_ROCM_USE_AITER_MOE_SITUV2",
        "VLLM_SYSTEM_START_DATE",
        "VLLM_TEST_FORCE_LOAD_FORMAT",
        "VLLM_USE_DEEP_GEMM_E8M0",
    }
)
"""Variables that change the model or the precision of the computation; others change speed, rounding or logs."""


class Computed(StrictModel):
    """The computation of an engine. A field is None if it is not known."""

    dtype: str | None = None
    """Precision of weights and activations."""
    kv_cache_dtype: str | None = None
    quantization: Annotated[str | None, OF_MODEL] = None
    """Quantization method that the engine found or was told."""
    layers: Annotated[tuple[str, ...] | None, OF_MODEL] = None
    """Classes of the quantised layers; with `16-bit activations` if only their weights are quantised."""
    rope: Annotated[Literal["none", "short factors", "long factors"] | None, OF_MODEL] = None
    """Factors of LongRoPE, which depend on the context length."""
    attention_temperature: Annotated[Literal["none", "by position"] | None, OF_MODEL] = None
    """Scaling of attention by position in Llama 4, which depends on the context length."""
    reasoning_parser: Annotated[str | None, OF_MODEL] = None
    variables: dict[str, str] | None = None
    """Environment variables of the engine that differ from its defaults; of paths and hosts only `set`."""
    attention: Annotated[tuple[str, ...] | None, ROUNDING, OF_MODEL] = None
    """Attention backends."""
    kernels: Annotated[tuple[str, ...] | None, ROUNDING, OF_MODEL] = None
    """Kernels of linear layers and experts."""
    runner: Annotated[str | None, ROUNDING] = None
    """vLLM's model runner: `V1` or `V2`."""
    batch_invariant: Annotated[bool | None, ROUNDING] = None
    """Answers do not depend on which requests are computed together."""
    fingerprint: Annotated[Fingerprint | None, OF_MODEL] = None
    """Answers of a server that does not tell which weights it serves."""
    not_sent: tuple[str, ...] | None = None
    """Sampling params that a server refused, with the value that was asked for: its own were in effect."""


class LoadedWeights(StrictModel):
    """Weights that an engine had in memory."""

    files: dict[str, str] | None = None
    """sha256 of each file from which they were read, by name; of a model on the Hub, as the Hub states it. None: not known."""
    memory: str | None = None
    """Digest of the parameters in memory, over all GPUs that share the model: equal if two engines that divide it alike have the
    same weights. None: not known."""
    replaced: bool = False
    """They took the place of another model's in a running engine."""


class BatchCheck(StrictModel):
    """Answers of an engine to fixed prompts, greedy: each alone, and all together, several times each."""

    tokens: int
    """Tokens of prompts and answers that were compared, up to the first other one of each answer."""
    differing: int
    """Those that are another token, or whose log-probability differs in any bit."""
    largest: float
    """Largest difference of log-probabilities."""

    @classmethod
    def of(cls, alone: Answers, together: Answers) -> "BatchCheck":
        """Compare answers; those of `together` are to the prompts of `alone`, again and again."""
        tokens, differing, largest = 0, 0, 0.0
        for number, answer in enumerate(together):
            for (token, logprob), (other, value) in zip(
                alone[number % len(alone)], answer, strict=False
            ):
                tokens += 1
                differing += token != other or logprob != value
                if token != other:
                    break
                largest = max(largest, abs(logprob - value))
        return cls(tokens=tokens, differing=differing, largest=largest)


class ComputedDifference(NamedTuple):
    """A field in which two engines differ."""

    name: str
    earlier: str
    now: str
    rounding: bool
    """Up to rounding, the same is computed."""
    of_model: bool = False
    """Two models may differ in it anyway."""

    def __str__(self) -> str:
        return f"{self.name}: {self.earlier} against {self.now}"


def computed_differences(earlier: Computed, now: Computed) -> Iterator[ComputedDifference]:
    """Yield the differences in fields that are known on both sides; those that change answers first."""
    rounding, of_model = marked(Computed, ROUNDING), marked(Computed, OF_MODEL)
    for name in Computed.model_fields:
        old, new = getattr(earlier, name), getattr(now, name)
        if name == "variables" or None in (old, new) or old == new:
            continue
        if name == "fingerprint":
            if (away := _distance(old, new)) > 1:
                yield ComputedDifference(
                    "answers to fixed prompts",
                    "those when it began",
                    f"others ({away:.2g} times as far away as by rounding)",
                    rounding=False,
                    of_model=True,
                )
            continue
        title = name.replace("_", " ")
        yield ComputedDifference(title, _text(old), _text(new), name in rounding, name in of_model)
    old, new = earlier.variables, now.variables
    if old is not None and new is not None:
        for name in sorted({*old, *new}, key=lambda name: (name not in _CHANGES_ANSWERS, name)):
            values = old.get(name, "not set"), new.get(name, "not set")
            if values[0] != values[1]:
                yield ComputedDifference(name, *values, name not in _CHANGES_ANSWERS)


def _distance(earlier: Fingerprint, now: Fingerprint) -> float:
    """Return how far two fingerprints are apart, up to the first differing token of each prompt; 1: by rounding at most."""
    away, size = [], []
    for old, new in zip(earlier, now, strict=False):
        for (token, logprob), (other, value) in zip(old, new, strict=False):
            away.append(abs(logprob - value))
            size.append(abs(logprob))
            if token != other:
                break
    return sum(away) / (_SAME_MODEL * max(sum(size), _SMALLEST_MEAN * len(size))) if size else 0.0


def _text(value: object) -> str:
    return (", ".join(value) or NONE) if isinstance(value, tuple) else str(value)

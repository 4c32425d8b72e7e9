"""Worker side: other weights in a running engine, proven by its answers to fixed prompts.

Checksums of the parameters prove nothing: on a CPU, vLLM 0.32 computes with copies of some weights, which a reload leaves as they
were. `Reloading` makes these copies again, and `probe` shows what the engine computes.
"""

import hashlib
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, cast

from regrade.engines.vllm_process.loop import RejectedRequest, SteppedEngine
from regrade.settings.errors import SettingsError

if TYPE_CHECKING:
    from regrade.engines.vllm_process.internals import LLMEngine, RequestOutput

PROMPTS = (
    "The capital of France is",
    "Question: What is 17 plus 25?\nAnswer:",
    "def fibonacci(n):\n    if n < 2:\n        return n\n    return",
    "Once upon a time, in a village at the foot of a mountain, there lived",
    "A. red\nB. green\nC. blue\nThe colour of the sky on a clear day is",
    "1, 2, 4, 8, 16,",
    "Die Hauptstadt von Italien heißt",
    '{"name": "Ada", "born": 1815, "field":',
)
"""Prompts whose answers show if an engine computes with its weights."""
COPIES = 8
"""Times that each prompt is asked at once, to see whether an answer depends on the others computed with it."""
TOKENS = 16
"""Longest prompt and longest answer, in tokens, unless the context is shorter than both together."""
_WORDS = 1 << 22
"""Words of 8 bytes that are added up at once, so that a digest needs little memory beside the weights."""
_PRIMES = (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F)
"""Odd factors of the positions, one for each sum of a digest."""
EXTENSION = f"{__name__}.Reloading"
"""The class below, as vLLM names it."""
Probe = list[list[tuple[int, float]]]
"""For each prompt, the tokens after its first and of its greedy answer, with their log-probabilities."""


class Reloading:
    """Methods that vLLM adds to its worker class (`worker_extension_cls`)."""

    model_runner: Any
    compilation_config: Any

    def regrade_pack_again(self) -> int:
        """Make the copies of weights again with which a CPU computes; return their number."""
        packed = 0
        for module in self.model_runner.get_model().modules():
            weight = getattr(module, "weight", None)
            if hasattr(module, "cpu_linear") and weight is not None and weight.numel():
                module.quant_method.process_weights_after_loading(module)
                packed += 1
        return packed

    def regrade_weights(self) -> str:
        """Return a digest of the parameters of this worker's part of the model."""
        return weights_digest(self.model_runner.get_model().named_parameters())

    def regrade_compile_seconds(self) -> float:
        """Return the seconds in which this worker compiled its part of the model, without the capture of CUDA graphs."""
        return float(self.compilation_config.compilation_time)


def weights_digest(parameters: Any) -> str:  # noqa: ANN401 - pairs of name and tensor, without importing torch
    """Return a digest of the names, shapes and bytes of parameters.

    The bytes are added up where they are, because copying them from a GPU and hashing them would take longer than to load them.
    It notices every accident, but is no cryptographic hash.
    """
    total = hashlib.sha256()
    for name, parameter in parameters:
        for part, tensor in _tensors(name, parameter):
            total.update(f"{part}\0{tensor.dtype}\0{tuple(tensor.shape)}\0".encode())
            total.update("".join(f"{number:016x}" for number in _sums(tensor)).encode())
    return total.hexdigest()


def _tensors(name: str, tensor: Any) -> Iterator[tuple[str, Any]]:  # noqa: ANN401
    """Yield a tensor, or the tensors in which a quantised one keeps its bytes."""
    if hasattr(tensor, "__tensor_flatten__"):
        for inner in tensor.__tensor_flatten__()[0]:
            yield from _tensors(f"{name}.{inner}", getattr(tensor, inner))
    else:
        yield name, tensor


def _sums(tensor: Any) -> list[int]:  # noqa: ANN401
    import torch

    flat = tensor.detach().contiguous().view(-1).view(torch.uint8)
    whole = flat.numel() // 8 * 8
    # The last bytes as a whole word: integers wrap around, so that sums do not depend on the order of adding.
    rest = torch.zeros(8, dtype=torch.uint8, device=flat.device)
    rest[: flat.numel() - whole] = flat[whole:]
    sums = [0] * len(_PRIMES)
    step = 8 * _WORDS
    words = [flat[begin : min(begin + step, whole)] for begin in range(0, whole, step)]
    first = 1
    for part in (*words, rest):
        # A slice that does not begin at a whole word cannot be read as words.
        values = (part if part.data_ptr() % 8 == 0 else part.clone()).view(torch.int64)
        places = torch.arange(first, first + values.numel(), device=values.device)
        first += values.numel()
        for number, prime in enumerate(_PRIMES):
            weights = places * _signed(prime) ^ (places >> 7)
            sums[number] += int((values * (2 * weights + 1)).sum())
    return [total % (1 << 64) for total in sums]


def _signed(number: int) -> int:
    """Return an unsigned number of 64 bits as torch's signed one."""
    return number - (1 << 64) if number >= 1 << 63 else number


def memory_digest(engine: "LLMEngine") -> str:
    """Return a digest of the weights in the memory of all workers."""
    parts = engine.collective_rpc("regrade_weights")
    return parts[0] if len(parts) == 1 else hashlib.sha256("".join(parts).encode()).hexdigest()


def compile_seconds(engine: "LLMEngine") -> float:
    """Return the seconds in which the slowest worker compiled its part of the model."""
    return float(max(engine.collective_rpc("regrade_compile_seconds")))


def reload(engine: "LLMEngine", folder: str, *, wakes: bool = False) -> None:
    """Replace the weights by those in a folder, and forget everything that was computed with the former ones.

    Args:
        engine: The engine.
        folder: A checkpoint.
        wakes: The engine sleeps, and its weights were dropped.

    Raises:
        RuntimeError: If the prefix cache cannot be emptied. All other errors are vLLM's; the engine cannot be used after one.
    """
    if wakes:
        engine.wake_up(["weights"])  # before the KV cache, so that reading finds room
    engine.collective_rpc("reload_weights", kwargs={"weights_path": folder})
    engine.collective_rpc("regrade_pack_again")
    if wakes:
        engine.wake_up(["kv_cache"])
    _forget(engine)


def wake(engine: "LLMEngine") -> None:
    """Wake an engine that kept its weights, and forget what was computed before it slept."""
    engine.wake_up()
    _forget(engine)


def _forget(engine: "LLMEngine") -> None:
    engine.reset_mm_cache()  # type: ignore[no-untyped-call]
    engine.reset_encoder_cache()
    if not engine.reset_prefix_cache(reset_connector=True):
        raise RuntimeError("vLLM did not empty its prefix cache")


def probe(engine: SteppedEngine, prompts: Sequence[Sequence[int]], max_model_len: int) -> Probe:
    """Return the tokens and log-probabilities of prompts and their greedy answers. No request may be running.

    Raises:
        SettingsError: If vLLM refuses a prompt.
    """
    from regrade.engines.vllm_process.internals import (
        RequestOutputKind,
        SamplingParams,
        tokens_input,
    )

    length = min(TOKENS, max_model_len // 2)
    params = SamplingParams(
        max_tokens=length,
        temperature=0,
        ignore_eos=True,
        logprobs=0,
        prompt_logprobs=0,
        detokenize=False,
        output_kind=RequestOutputKind.FINAL_ONLY,
    )
    for number, tokens in enumerate(prompts):
        engine.add_request(f"probe-{number}", tokens_input([*tokens[:length]]), params)
    answers: dict[str, list[tuple[int, float]]] = {}
    while len(answers) < len(prompts):
        for output in engine.step():
            if isinstance(output, RejectedRequest):
                raise SettingsError(output.message)
            if output.finished:
                finished: Any = cast("RequestOutput", output)
                asked = zip(finished.prompt_token_ids, finished.prompt_logprobs, strict=True)
                said = zip(finished.outputs[0].token_ids, finished.outputs[0].logprobs, strict=True)
                pairs = [*[*asked][1:], *said]
                answers[output.request_id] = [(token, at[token].logprob) for token, at in pairs]
    return [answers[f"probe-{number}"] for number in range(len(prompts))]

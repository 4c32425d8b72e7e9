"""Worker side: vLLM's params of a request, and the completion of its outputs."""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from regrade.engines.vllm_process.parsers import ReasoningReader, UnreadAnswer
from regrade.engines.vllm_process.prompts import Prepared
from regrade.records import Structure

if TYPE_CHECKING:
    from regrade.engines.vllm_process.internals import RequestOutput, SamplingParams

_Scored = tuple[int, list[int], list[float], list[bool]]
NOT_NUMBERS = "The model returned log-probabilities that are not numbers."
WireCompletion = dict[str, Any]
"""The fields of a `Completion` that are not None; with `unread` until a `ReasoningReader` has read it, and `unread_tools` until a `CallReader` has."""


def rejection(error: Exception) -> str:
    """Return the message of a row whose request vLLM rejected."""
    # vLLM's `EngineGenerateError` has no text, only a cause.
    reason = str(error) or str(error.__cause__ or "") or type(error).__name__
    return f"vLLM rejected the request: {reason}"


def params_of(request: Prepared, reader: ReasoningReader | None) -> "SamplingParams":
    """Return the params of a request, or of each of its parts.

    Args:
        request: The request.
        reader: Will separate the reasoning of the answer; None if it has none.
    """
    from regrade.engines.vllm_process.internals import (
        RequestOutputKind,
        SamplingParams,
        StructuredOutputsParams,
    )

    if request.ranking is not None:
        return ranking_params(request)
    sampling = dict(request.sampling)
    if sampling["temperature"] == 0:
        # Greedy decoding needs none, and a seed costs a generator per request.
        del sampling["seed"]
    if reader is not None:
        # A stop text in the reasoning does not end the answer: `reader` applies them to what follows.
        sampling |= {"stop": [], "skip_special_tokens": not reader.keeps_special_tokens}
    if request.tools:
        sampling["skip_special_tokens"] = False  # many models begin a call with one
    if request.structure is not None:
        form = Structure(**request.structure).of_vllm
        sampling["structured_outputs"] = StructuredOutputsParams(**form)
    return SamplingParams(**sampling, output_kind=RequestOutputKind.FINAL_ONLY)


def ranking_params(request: Prepared, *, reads_cache: bool = True) -> "SamplingParams":
    """Return the params that score labels after a prompt, or a prompt with a label.

    Args:
        request: The request.
        reads_cache: Read the prefix cache; by default, vLLM computes all of such prompts.
    """
    from regrade.engines.vllm_process.internals import RequestOutputKind, SamplingParams

    scored: dict[str, Any] = {"logprob_token_ids": request.ranking}
    if request.separate is not None:
        # With 1, also the likeliest token at each position.
        logprobs = {"prompt_logprobs": int(request.greedy)}
        scored = {**logprobs, "skip_reading_prefix_cache": not reads_cache}
    return SamplingParams(
        max_tokens=1,
        temperature=0,
        detokenize=False,
        output_kind=RequestOutputKind.FINAL_ONLY,
        **scored,
    )


def completion_of(
    request: Prepared, outputs: Sequence["RequestOutput"], reader: ReasoningReader | None
) -> WireCompletion:
    """Return the completion of a request.

    Args:
        request: The request.
        outputs: Finished outputs of its parts, in order: one, or one for each label.
        reader: Will separate the reasoning of the answer; None if it has none.
    """
    answers = [output.outputs[0] for output in outputs]
    aborted = next((a for a in answers if a.finish_reason not in ("stop", "length")), None)
    if aborted is not None:
        return failed(request, f"vLLM ended the request with '{aborted.finish_reason}'.")
    completion = _base(request) | {
        "prompt_tokens": request.prompt_tokens,
        "completion_tokens": sum(len(answer.token_ids) for answer in answers),
        **_times(outputs),
    }
    if request.ranking is None:
        completion |= {
            "text": answers[0].text,
            "finish_reason": answers[0].finish_reason,
            "token_ids": [*answers[0].token_ids],
        }
        if reader is not None:
            stop = tuple(request.sampling.get("stop", ()))
            completion["unread"] = UnreadAnswer(stop, answers[0].token_ids)
        if request.tools:
            completion["unread_tools"] = request.tools
        return completion
    scored = [*_scored(request, outputs)]
    logprobs, is_greedy = _label_logprobs(request, outputs, scored)
    if any(math.isnan(logprob) for logprob in logprobs):
        return failed(request, NOT_NUMBERS)
    single = request.separate is None
    completion |= {
        "label_logprobs": logprobs,
        "label_method": "single_token" if single else "per_choice",
    }
    if request.greedy:
        completion["label_is_greedy"] = is_greedy
    if request.stored:
        [(_, ids, logprobs, is_greedy)] = scored
        completion |= {"token_ids": ids, "token_logprobs": logprobs, "token_is_greedy": is_greedy}
    return completion


def _scored(request: Prepared, outputs: Sequence["RequestOutput"]) -> Iterator[_Scored]:
    """Yield for each sequence its owner and its scored tokens: ids, log-probabilities, and True for each that is the likeliest.

    A token as likely as the likeliest counts as such, as in lm-evaluation-harness.
    """
    ranking = request.separate
    if ranking is None:
        return
    parts = zip(ranking.sequences, ranking.starts, ranking.owners, outputs, strict=True)
    for sequence, start, owner, output in parts:
        # Counted from the end, because on a GPU the list begins after the cached tokens.
        ids = sequence[start:]
        at: Any = (output.prompt_logprobs or [])[-len(ids) :] if ids else []
        pairs = [*zip(ids, at, strict=True)]
        likeliest = [max(other.logprob for other in found.values()) for found in at]
        logprobs = [float(found[token].logprob) for token, found in pairs]
        greedy = [p >= best for p, best in zip(logprobs, likeliest, strict=True)]
        yield owner, ids, logprobs, greedy


def _label_logprobs(
    request: Prepared, outputs: Sequence["RequestOutput"], scored: Sequence[_Scored]
) -> tuple[list[float], list[bool]]:
    """Return the log-probability of each label, and True for each whose tokens are all the likeliest; see `_scored`."""
    if isinstance(request.ranking, list):
        positions: Any = outputs[0].outputs[0].logprobs
        found = [float(positions[0][token].logprob) for token in request.ranking]
        # The token that greedy decoding gave is among them.
        best = max(float(at.logprob) for at in positions[0].values())
        return found, [logprob >= best for logprob in found]
    terms: dict[int, list[float]] = {}
    is_greedy: dict[int, bool] = {}
    for owner, _, logprobs, greedy in scored:  # in the order of the owners
        terms.setdefault(owner, []).extend(logprobs)
        is_greedy[owner] = is_greedy.get(owner, True) and all(greedy)
    return [math.fsum(logprobs) for logprobs in terms.values()], [*is_greedy.values()]


def _times(outputs: Sequence["RequestOutput"]) -> Mapping[str, float]:
    """Return time to first token and latency in seconds; those of the slowest part if a request was split."""
    metrics = [output.metrics for output in outputs if output.metrics is not None]
    if not metrics:
        return {}
    return {
        "time_to_first_token": max(m.first_token_latency for m in metrics),
        "latency": max(m.first_token_latency + m.last_token_ts - m.first_token_ts for m in metrics),
    }


def failed(request: Prepared, error: str) -> WireCompletion:
    """Return the completion of a request that failed."""
    fields = _base(request) | {"error": error, "prompt_tokens": request.prompt_tokens}
    return fields | {"error_permanent": True} if request.error_permanent else fields


def withdrawn(request: Prepared) -> WireCompletion:
    """Return the completion of a withdrawn request."""
    return {"key": request.key, "withdrawn": True}


def _base(request: Prepared) -> WireCompletion:
    base: WireCompletion = {"key": request.key, "prompt": request.text}
    if request.truncated:
        base["prompt_truncated"] = True
    if request.contexts is not None:
        base["contexts"] = request.contexts
    return base

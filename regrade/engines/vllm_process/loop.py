"""Inside the engine's worker: the loop that keeps vLLM busy.

Three threads, so that vLLM never waits: one takes requests from the owner and tokenises them ahead, the main
thread adds them and steps, one sends what is finished.
"""

import math
import queue
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, cast

from regrade.engines.vllm_process.labels import Choices
from regrade.engines.vllm_process.prompts import Prepared

if TYPE_CHECKING:
    from vllm import PoolingRequestOutput, RequestOutput, SamplingParams

WireCompletion = dict[str, Any]
"""The fields of a `Completion` that are not None."""


@dataclass(frozen=True, slots=True)
class Work:
    """A request of a round; a round is one call of the owner's `generate`."""

    round: int
    request: Prepared


@dataclass(frozen=True, slots=True)
class Refusal:
    """What vLLM gives instead of an output where it refuses a request only later."""

    request_id: str
    message: str


class VllmEngine(Protocol):
    """What the loop uses of vLLM's `LLMEngine`."""

    def add_request(self, request_id: str, prompt: Any, params: "SamplingParams") -> object:  # noqa: ANN401
        """Begin with a request."""

    def abort_request(self, request_ids: list[str]) -> None:
        """Give requests up."""

    def step(self) -> "Sequence[RequestOutput | PoolingRequestOutput | Refusal]":
        """Return what is finished; may block while there is anything to do."""


@dataclass(slots=True)
class _Open:
    """A request that vLLM works on, as one request of vLLM's or as one for each label."""

    round: int
    request: Prepared
    outputs: dict[int, "RequestOutput"] = field(default_factory=dict)


class Loop:
    """Feeds vLLM from one queue and puts completions into another one."""

    def __init__(
        self,
        engine: VllmEngine,
        work: queue.SimpleQueue[Work | None],
        finished: queue.SimpleQueue[tuple[int, list[WireCompletion]]],
        *,
        max_open: int,
    ) -> None:
        self._engine = engine
        self._work = work
        self._finished = finished
        self._max_open = max_open
        self._open: dict[str, tuple[_Open, int]] = {}
        self._added = 0
        self._cancelled = 0

    def cancel(self, round_: int) -> None:
        """From any thread: drop all requests of the rounds up to this one."""
        self._cancelled = round_
        self._work.put(None)  # wakes the loop

    def run(self) -> None:
        """Work for ever."""
        while True:
            self._take()
            done: dict[int, list[WireCompletion]] = {}
            for output in self._engine.step():
                if isinstance(output, Refusal):
                    self._refuse(output)
                elif output.finished and output.request_id in self._open:
                    self._collect(cast("RequestOutput", output), done)
            for round_, completions in done.items():
                self._finished.put((round_, completions))

    def _take(self) -> None:
        """Hand over to vLLM what is ready; wait only where vLLM has nothing to do."""
        self._abort([n for n, (open_, _) in self._open.items() if open_.round <= self._cancelled])
        while len(self._open) < self._max_open:
            try:
                work = self._work.get(block=not self._open)
            except queue.Empty:
                return
            if work is None or work.round <= self._cancelled:
                continue
            if work.request.error is not None:
                self._finished.put((work.round, [_failed(work.request, work.request.error)]))
            else:
                self._add(work.round, work.request)

    def _add(self, round_: int, request: Prepared) -> None:
        from vllm.exceptions import VLLMValidationError
        from vllm.inputs import tokens_input

        open_ = _Open(round_, request)
        sequences: Sequence[list[int]] = [request.ids]
        if isinstance(request.ranking, Choices):
            sequences = request.ranking.sequences
        ids: list[str] = []
        try:
            params = _params(request)
            for part, sequence in enumerate(sequences):
                self._added += 1
                name = str(self._added)
                self._engine.add_request(name, tokens_input(sequence), params)
                self._open[name] = (open_, part)
                ids.append(name)
        except (ValueError, VLLMValidationError) as error:
            self._abort(ids)
            self._finished.put((round_, [_failed(request, f"vLLM refuses it: {error}")]))

    def _refuse(self, refusal: Refusal) -> None:
        if refusal.request_id not in self._open:
            return
        open_, _ = self._open.pop(refusal.request_id)
        self._abort([name for name, (other, _) in self._open.items() if other is open_])
        failed = _failed(open_.request, f"vLLM refuses it: {refusal.message}")
        self._finished.put((open_.round, [failed]))

    def _collect(self, output: "RequestOutput", done: dict[int, list[WireCompletion]]) -> None:
        open_, part = self._open.pop(output.request_id)
        open_.outputs[part] = output
        ranking = open_.request.ranking
        parts = len(ranking.sequences) if isinstance(ranking, Choices) else 1
        if len(open_.outputs) == parts:
            done.setdefault(open_.round, []).append(_completion(open_))

    def _abort(self, ids: list[str]) -> None:
        if ids:
            self._engine.abort_request(ids)
        for name in ids:
            del self._open[name]


def _params(request: Prepared) -> "SamplingParams":
    from vllm import SamplingParams
    from vllm.sampling_params import RequestOutputKind

    final = RequestOutputKind.FINAL_ONLY
    if request.ranking is None:
        sampling = dict(request.sampling)
        if sampling["temperature"] == 0:
            del sampling["seed"]  # nothing is drawn, and a seed costs a generator per request
        return SamplingParams(**sampling, output_kind=final)
    if isinstance(request.ranking, Choices):
        return SamplingParams(
            max_tokens=1, temperature=0, prompt_logprobs=0, detokenize=False, output_kind=final
        )
    return SamplingParams(
        max_tokens=1,
        temperature=0,
        logprob_token_ids=request.ranking,
        detokenize=False,
        output_kind=final,
    )


def _completion(open_: _Open) -> WireCompletion:
    request, outputs = open_.request, [open_.outputs[part] for part in sorted(open_.outputs)]
    answers = [output.outputs[0] for output in outputs]
    refused = next((a for a in answers if a.finish_reason not in ("stop", "length")), None)
    if refused is not None:
        return _failed(request, f"vLLM ended it as '{refused.finish_reason}'.")
    completion = _base(request) | {
        "prompt_tokens": len(request.ids),
        "completion_tokens": sum(len(answer.token_ids) for answer in answers),
        **_times(outputs),
    }
    if request.ranking is None:
        return completion | {"text": answers[0].text, "finish_reason": answers[0].finish_reason}
    logprobs = _label_logprobs(request.ranking, outputs)
    if any(math.isnan(logprob) for logprob in logprobs):
        return _failed(request, "The model gave log-probabilities that are not numbers.")
    single = not isinstance(request.ranking, Choices)
    return completion | {
        "label_logprobs": logprobs,
        "label_method": "single_token" if single else "per_choice",
    }


def _label_logprobs(
    ranking: list[int] | Choices, outputs: Sequence["RequestOutput"]
) -> list[float]:
    if not isinstance(ranking, Choices):
        positions: Any = outputs[0].outputs[0].logprobs
        return [float(positions[0][token].logprob) for token in ranking]
    sums = []
    for sequence, output in zip(ranking.sequences, outputs, strict=True):
        prompt: Any = output.prompt_logprobs
        scored = zip(sequence[ranking.start :], prompt[ranking.start :], strict=True)
        sums.append(math.fsum(float(at[token].logprob) for token, at in scored))
    return sums


def _times(outputs: Sequence["RequestOutput"]) -> Mapping[str, float]:
    """Return seconds until the first token and the end, of the slowest part."""
    metrics = [output.metrics for output in outputs if output.metrics is not None]
    if not metrics:
        return {}
    return {
        "time_to_first_token": max(m.first_token_latency for m in metrics),
        "latency": max(m.first_token_latency + m.last_token_ts - m.first_token_ts for m in metrics),
    }


def _failed(request: Prepared, error: str) -> WireCompletion:
    return _base(request) | {"error": error, "prompt_tokens": len(request.ids)}


def _base(request: Prepared) -> WireCompletion:
    base: WireCompletion = {"key": request.key, "prompt": request.text}
    if request.truncated:
        base["prompt_truncated"] = True
    return base

"""Worker side: the loop that keeps vLLM busy.

Three threads, so that vLLM never waits: the first receives requests and tokenises them ahead, the main thread adds them
to vLLM and steps, the third sends completions.
"""

import logging
import queue
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from time import monotonic
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeAlias, cast

from regrade.engines.vllm_process.conversion import (
    WireCompletion,
    completion_of,
    failed,
    params_of,
    ranking_params,
    rejection,
    withdrawn,
)
from regrade.engines.vllm_process.meter import Meter
from regrade.engines.vllm_process.parsers import ReasoningReader
from regrade.engines.vllm_process.pictures import Pictures
from regrade.engines.vllm_process.prompts import Prepared

if TYPE_CHECKING:
    from regrade.engines.vllm_process.internals import (
        PoolingRequestOutput,
        RequestOutput,
        SamplingParams,
    )

logger = logging.getLogger(__name__)


_MOMENT = 0.2
"""Seconds in which requests are added before answers are collected: the processor of images takes up to a tenth of a second for each."""


@dataclass(eq=False, slots=True)
class QueuedRequest:
    """A request that waits or is answered, by one request to vLLM or by one per label (a part)."""

    round: int
    """Number of the owner's call of `generate`."""
    request: Prepared
    outputs: dict[int, "RequestOutput"] = field(default_factory=dict)
    """Finished outputs by the number of the part."""


@dataclass(frozen=True, slots=True)
class RejectedRequest:
    """A request that vLLM rejected after queueing it."""

    finished: ClassVar = True
    request_id: str
    message: str


Queued: TypeAlias = QueuedRequest | Callable[[], None] | None
"""An entry of the queue: a request, or a change of the engine between two rounds, such as other weights; None only wakes the loop."""


class SteppedEngine(Protocol):
    """The methods of vLLM's `LLMEngine` that the loop uses."""

    def add_request(self, request_id: str, prompt: Any, params: "SamplingParams") -> object:  # noqa: ANN401
        """Start a request."""

    def abort_request(self, request_ids: list[str]) -> None:
        """Abort requests."""

    def step(self) -> "Sequence[RequestOutput | PoolingRequestOutput | RejectedRequest]":
        """Return finished requests; may block while requests are running."""

    def reset_prefix_cache(self) -> bool:
        """Forget the computed prompts; False if requests still use them."""


@dataclass(frozen=True, slots=True)
class _Part:
    """A request to vLLM."""

    whole: QueuedRequest
    number: int
    started: float
    """Time at which it was passed to vLLM."""


class Loop:
    """Feeds vLLM from a queue and puts completions into another queue."""

    def __init__(
        self,
        engine: SteppedEngine,
        queued: queue.SimpleQueue[Queued],
        finished: queue.SimpleQueue[tuple[int, WireCompletion]],
        *,
        max_running: int,
        meter: Meter,
        reader: ReasoningReader | None = None,
        pictures: Pictures | None = None,
    ) -> None:
        """Connect the engine with the queues.

        Args:
            engine: The engine.
            queued: Requests, and changes between two rounds.
            finished: Completions with their rounds. Those of chats are not read yet if there is a `reader`.
            max_running: Most requests in flight at vLLM.
            meter: Is told of requests that arrive, wait and end.
            reader: Separates the reasoning of chat answers.
            pictures: Shows the images of requests.
        """
        self._engine = engine
        self._queued = queued
        self._finished = finished
        self._most = self._max_running = max_running
        self._meter, self._reader, self._pictures = meter, reader, pictures
        self._running: dict[str, _Part] = {}
        self._added = 0
        self._cancelled = 0
        self._withdrawals: queue.SimpleQueue[tuple[int, list[int]]] = queue.SimpleQueue()
        self._withdrawn: set[tuple[int, int]] = set()
        """Rounds and keys."""

    def withdraw(self, round_: int, keys: list[int]) -> None:
        """Drop requests of a round, queued or running; each unfinished one is reported as withdrawn.

        May be called from any thread.
        """
        self._withdrawals.put((round_, keys))
        self._queued.put(None)  # wakes the loop

    def cancel(self, round_: int) -> None:
        """Drop all requests of the rounds up to this one. May be called from any thread."""
        self._cancelled = round_
        self._queued.put(None)  # wakes the loop

    def limit(self, running: int | None) -> None:
        """Set how many requests may be in flight, and empty the prefix cache, which would make the prompts of earlier rounds cheaper.

        None: as many as at first. A change between two rounds, which is queued.
        """
        self._max_running = self._most if running is None else running
        if not self._engine.reset_prefix_cache():
            logger.warning("vLLM did not empty its prefix cache: requests were still running")

    def run(self) -> None:
        """Run forever."""
        while True:
            self.step()

    def step(self) -> None:
        """Add queued requests to vLLM, let it compute a step, and collect what it has finished."""
        self._start_queued()
        is_at_limit = len(self._running) >= self._max_running
        self._meter.wait(self._queued.qsize() if is_at_limit else 0)
        for output in self._engine.step():
            part = self._running.pop(output.request_id, None) if output.finished else None
            if part is None:  # it goes on, or was aborted
                continue
            if isinstance(output, RejectedRequest):
                self._end(part.whole, failed(part.whole.request, output.message))
            else:
                self._meter.see(monotonic() - part.started)
                self._collect(part, cast("RequestOutput", output))

    def _start_queued(self) -> None:
        """Add queued requests to vLLM for a moment; wait for one only if vLLM has nothing to do."""
        begun = monotonic()
        self._abort([n for n, p in self._running.items() if p.whole.round <= self._cancelled])
        self._end_withdrawn()
        while len(self._running) < self._max_running:
            if self._running and monotonic() - begun > _MOMENT:
                return
            try:
                queued = self._queued.get(block=not self._running)
            except queue.Empty:
                return
            if queued is None:
                self._end_withdrawn()
            elif isinstance(queued, QueuedRequest):
                self._add(queued)
            else:
                self._abort([*self._running])  # of a round that was cancelled a moment ago
                queued()

    def _end_withdrawn(self) -> None:
        """End running requests that are withdrawn, and remember those that are still queued."""
        while not self._withdrawals.empty():
            round_, keys = self._withdrawals.get()
            kept = {entry for entry in self._withdrawn if entry[0] == round_}
            self._withdrawn = kept | {(round_, key) for key in keys}
            running = dict.fromkeys(part.whole for part in self._running.values())
            for whole in filter(self._is_withdrawn, running):
                self._end(whole, withdrawn(whole.request))

    def _is_withdrawn(self, queued: QueuedRequest) -> bool:
        return (queued.round, queued.request.key) in self._withdrawn

    def _add(self, queued: QueuedRequest) -> None:
        from regrade.engines.vllm_process.internals import EngineDeadError

        request = queued.request
        if queued.round <= self._cancelled:
            return
        if self._is_withdrawn(queued):
            self._end(queued, withdrawn(request))
        elif request.error is not None:
            self._end(queued, failed(request, request.error))
        else:
            try:
                params = params_of(request, self._reader_of(request))
                for number, _ in enumerate(request.sequences):
                    self._start(queued, number, params)
            except EngineDeadError:
                raise
            except Exception as error:  # noqa: BLE001 - an error of one request must not end the others
                self._end(queued, failed(request, rejection(error)))

    def _start(self, whole: QueuedRequest, number: int, params: "SamplingParams") -> None:
        from regrade.engines.vllm_process.internals import tokens_input

        request = whole.request
        sequence = request.sequences[number]
        prompt: object = tokens_input(sequence)
        if request.shown and self._pictures is not None:
            prompt = self._pictures.prompt(sequence, request.shown)
        self._added += 1
        name = str(self._added)
        self._meter.arrive()
        started = monotonic()
        self._engine.add_request(name, prompt, params)
        self._running[name] = _Part(whole, number, started)

    def _collect(self, part: _Part, output: "RequestOutput") -> None:
        whole, request = part.whole, part.whole.request
        cached = (output.num_cached_tokens or 0) - request.image_tokens
        if request.separate is not None and 0 < request.separate.starts[part.number] <= cached:
            # The cache had tokens of the label, of which vLLM then computes no log-probabilities.
            self._start(whole, part.number, ranking_params(request, reads_cache=False))
            return
        whole.outputs[part.number] = output
        if len(whole.outputs) == len(request.sequences):
            outputs = [output for _, output in sorted(whole.outputs.items())]
            completion = completion_of(request, outputs, self._reader_of(request))
            self._finished.put((whole.round, completion))

    def _reader_of(self, request: Prepared) -> ReasoningReader | None:
        return self._reader if request.chat and request.ranking is None else None

    def _end(self, whole: QueuedRequest, completion: WireCompletion) -> None:
        """Abort all parts of a request, and report its completion."""
        self._abort([name for name, part in self._running.items() if part.whole is whole])
        self._finished.put((whole.round, completion))

    def _abort(self, names: list[str]) -> None:
        if names:
            self._engine.abort_request(names)
        for name in names:
            del self._running[name]

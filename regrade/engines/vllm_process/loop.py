"""Worker side: the loop that keeps vLLM busy.

Three threads, so that vLLM never waits: the first receives requests and tokenises them ahead, the main thread adds them
to vLLM and steps, the third sends completions.
"""

import logging
import queue
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from time import monotonic
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, cast

from regrade.engines.vllm_process.conversion import (
    WireCompletion,
    choice_params,
    completion_of,
    failed,
    params_of,
    rejection,
    withdrawn,
)
from regrade.engines.vllm_process.prompts import Prepared
from regrade.engines.vllm_process.reasoning import ReasoningReader

if TYPE_CHECKING:
    from regrade.engines.vllm_process.internals import (
        PoolingRequestOutput,
        RequestOutput,
        SamplingParams,
    )

logger = logging.getLogger(__name__)


_MOMENT = 0.2
"""Seconds in which requests are added before answers are collected: the processor of images takes up to a tenth of a second for each."""


@dataclass(frozen=True, slots=True)
class QueuedRequest:
    """A queued request; `round` numbers the owner's calls of `generate`."""

    round: int
    request: Prepared


@dataclass(frozen=True, slots=True)
class Limit:
    """A queued change of the limit of requests in flight, between two rounds."""

    running: int


@dataclass(frozen=True, slots=True)
class Between:
    """A queued change of the engine between two rounds, such as other weights."""

    run: Callable[[], None]


@dataclass(frozen=True, slots=True)
class RejectedRequest:
    """A request that vLLM rejected after queueing it."""

    request_id: str
    message: str


Queued: TypeAlias = QueuedRequest | Limit | Between | None
"""An entry of the queue; None only wakes the loop."""


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


@dataclass(slots=True)
class _Running:
    """A request that vLLM works on, as one vLLM request or as one per label (a part)."""

    round: int
    request: Prepared
    outputs: dict[int, "RequestOutput"] = field(default_factory=dict)


class Loop:
    """Feeds vLLM from a queue and puts completions into another queue."""

    def __init__(
        self,
        engine: SteppedEngine,
        queued: queue.SimpleQueue[Queued],
        finished: queue.SimpleQueue[tuple[int, list[WireCompletion]]],
        *,
        max_running: int,
        reader: ReasoningReader | None = None,
        see: Callable[[float], None] = lambda _: None,
        arrive: Callable[[], None] = lambda: None,
        wait: Callable[[int], None] = lambda _: None,
        show: Callable[[list[int], Sequence[str]], object] | None = None,
    ) -> None:
        """Connect the engine with the queues.

        Args:
            engine: The engine.
            queued: Requests, and changes between two rounds.
            finished: Completions by round. Those of chats are not read yet if there is a `reader`.
            max_running: Most requests in flight at vLLM.
            reader: Separates the reasoning of chat answers.
            arrive: Called before a request is passed to vLLM.
            wait: Called before each step with the number of requests that wait here, because `max_running` are in flight.
            show: Returns vLLM's input for the tokens of a prompt and the sha256 of its images.
            see: Called with the seconds from passing each request to vLLM until its answer arrived here.
        """
        self._engine = engine
        self._queued = queued
        self._finished = finished
        self._max_running = max_running
        self._reader = reader
        self._see, self._arrive, self._wait, self._show = see, arrive, wait, show
        self._running: dict[str, tuple[_Running, int]] = {}
        self._started: dict[str, float] = {}
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

    def run(self) -> None:
        """Run forever."""
        while True:
            self._start_queued()
            is_at_limit = len(self._running) >= self._max_running
            self._wait(self._queued.qsize() if is_at_limit else 0)
            done: dict[int, list[WireCompletion]] = {}
            for output in self._engine.step():
                if isinstance(output, RejectedRequest):
                    self._fail_rejected(output)
                elif output.finished and output.request_id in self._running:
                    self._see(monotonic() - self._started.pop(output.request_id))
                    self._collect(cast("RequestOutput", output), done)
            for round_, completions in done.items():
                self._finished.put((round_, completions))

    def _start_queued(self) -> None:
        """Add queued requests to vLLM for a moment; wait for one only if vLLM has nothing to do."""
        begun = monotonic()
        self._abort([name for name, (r, _) in self._running.items() if r.round <= self._cancelled])
        self._abort_withdrawn()
        while len(self._running) < self._max_running:
            if self._running and monotonic() - begun > _MOMENT:
                return
            try:
                queued = self._queued.get(block=not self._running)
            except queue.Empty:
                return
            if queued is None:
                self._abort_withdrawn()
                continue
            if isinstance(queued, Limit):
                self._limit(queued.running)
                continue
            if isinstance(queued, Between):
                self._abort([*self._running])  # of a round that was cancelled a moment ago
                queued.run()
                continue
            if queued.round <= self._cancelled:
                continue
            if (queued.round, queued.request.key) in self._withdrawn:
                self._finished.put((queued.round, [withdrawn(queued.request)]))
                continue
            if queued.request.error is not None:
                self._finished.put((queued.round, [failed(queued.request, queued.request.error)]))
            else:
                self._add(queued.round, queued.request)

    def _abort_withdrawn(self) -> None:
        """Abort running requests that are withdrawn, and remember those that are still queued."""
        while not self._withdrawals.empty():
            round_, keys = self._withdrawals.get()
            kept = {entry for entry in self._withdrawn if entry[0] == round_}
            self._withdrawn = kept | {(round_, key) for key in keys}
            parts: dict[int, list[str]] = {}
            gone: dict[int, _Running] = {}
            for name, (running, _) in self._running.items():
                if (running.round, running.request.key) in self._withdrawn:
                    parts.setdefault(id(running), []).append(name)
                    gone[id(running)] = running
            for number, running in gone.items():
                self._abort(parts[number])
                self._finished.put((running.round, [withdrawn(running.request)]))

    def _limit(self, running: int) -> None:
        """Apply a limit, and empty the prefix cache, which would make the prompts of earlier rounds cheaper."""
        self._max_running = running
        if not self._engine.reset_prefix_cache():
            logger.warning("vLLM did not empty its prefix cache: requests were still running")

    def _add(self, round_: int, request: Prepared) -> None:
        from regrade.engines.vllm_process.internals import EngineDeadError

        running = _Running(round_, request)
        sequences: Sequence[list[int]] = [request.ids]
        if request.separate is not None:
            sequences = request.separate.sequences
        try:
            params = params_of(request, self._reader_of(request))
            for part, sequence in enumerate(sequences):
                self._start(running, part, sequence, params)
        except EngineDeadError:
            raise
        except Exception as error:  # noqa: BLE001 - an error of one request must not end the others
            self._fail(running, rejection(error))

    def _start(
        self, running: _Running, part: int, sequence: list[int], params: "SamplingParams"
    ) -> None:
        from regrade.engines.vllm_process.internals import tokens_input

        shown = running.request.shown
        prompt: object = tokens_input(sequence)
        if shown and self._show is not None:
            prompt = self._show(sequence, shown)
        self._added += 1
        name = str(self._added)
        self._arrive()
        started = monotonic()
        self._engine.add_request(name, prompt, params)
        self._running[name], self._started[name] = (running, part), started

    def _fail(self, running: _Running, error: str) -> None:
        """Abort all parts of a request, and report its error."""
        self._abort([name for name, (other, _) in self._running.items() if other is running])
        self._finished.put((running.round, [failed(running.request, error)]))

    def _fail_rejected(self, rejected: RejectedRequest) -> None:
        if rejected.request_id not in self._running:
            return
        running, _ = self._running.pop(rejected.request_id)
        del self._started[rejected.request_id]
        self._fail(running, rejected.message)

    def _collect(self, output: "RequestOutput", done: dict[int, list[WireCompletion]]) -> None:
        running, part = self._running.pop(output.request_id)
        separate = running.request.separate
        beyond = running.request.image_tokens
        if separate is not None and (
            0 < separate.starts[part] <= (output.num_cached_tokens or 0) - beyond
        ):
            # The cache had tokens of the label, of which vLLM then computes no log-probabilities.
            params = choice_params(reads_cache=False, greedy=running.request.greedy)
            self._start(running, part, separate.sequences[part], params)
            return
        running.outputs[part] = output
        parts = 1 if separate is None else len(separate.sequences)
        if len(running.outputs) == parts:
            outputs = [running.outputs[number] for number in range(parts)]
            completion = completion_of(running.request, outputs, self._reader_of(running.request))
            done.setdefault(running.round, []).append(completion)

    def _reader_of(self, request: Prepared) -> ReasoningReader | None:
        return self._reader if request.chat and request.ranking is None else None

    def _abort(self, ids: list[str]) -> None:
        if ids:
            self._engine.abort_request(ids)
        for name in ids:
            del self._running[name], self._started[name]

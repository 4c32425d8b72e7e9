"""Worker side: measurements inside the engine, from vLLM's statistics after each step."""

import threading
import time
from typing import TYPE_CHECKING, Any

from regrade.stats.occupancy import Occupancy, OccupancyClock
from regrade.stats.speed import LATENCIES, Durations, OtherSide, Speed

if TYPE_CHECKING:
    from regrade.engines.vllm_process.internals import IterationStats, SchedulerStats

PATIENCE = 1.0
"""Seconds to wait for the statistics of the last answers, which `AsyncLLM` records after it returns the answers."""


class Meter:
    """Takes the place of vLLM's `StatLoggerManager`, which logs and serves Prometheus; it has the methods that vLLM calls."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._start()

    def _start(self) -> None:
        self._spreads = {name: Durations() for name in LATENCIES}
        self._requests = self._preemptions = self._steps = 0
        self._running = self._running_max = self._waiting_max = 0
        self._left: dict[int, tuple[int, int]] = {}
        self._held_back = 0
        self._usage = 0.0
        self._queries = self._hits = 0
        self._seen = Durations()
        self._occupancy = OccupancyClock()

    def record(
        self,
        scheduler_stats: "SchedulerStats | None",
        iteration_stats: "IterationStats | None",
        mm_cache_stats: Any = None,  # noqa: ANN401, ARG002 - vLLM calls it so
        engine_idx: int = 0,
    ) -> None:
        """Add the statistics of a step of a copy of the model; `engine_idx` numbers the copies."""
        with self._lock:
            if scheduler_stats is not None:
                self._add_step(scheduler_stats, iteration_stats, engine_idx)
            if iteration_stats is not None:
                self._add_tokens(iteration_stats)

    def arrive(self) -> None:
        """Note that a request is given to vLLM."""
        with self._lock:
            self._occupancy.arrive()

    def wait(self, requests: int) -> None:
        """Note how many requests wait for others to end before they are given to vLLM."""
        with self._lock:
            self._held_back = requests

    def see(self, seconds: float) -> None:
        """Add an end-to-end latency that vLLM's client, the loop, measured by its own clock."""
        with self._lock:
            self._seen.add([seconds])

    def log(self) -> None:
        """Log nothing: the owner asks for the measurements."""

    def record_sleep_state(self, sleep: int = 0, level: int = 0) -> None:
        """Record nothing: no request is measured while the engine sleeps."""

    def record_admission_rejection(self, reason: str) -> None:
        """Record nothing: a rejected request is a row with an error."""

    def restart(self) -> None:
        """Forget all measurements, such as those of warming up."""
        with self._lock:
            self._start()

    def take(self, requests: int) -> Speed:
        """Return the measurements since `restart`.

        Args:
            requests: Requests whose answers have arrived; their measurements are waited for, up to `PATIENCE`.
        """
        deadline = time.monotonic() + PATIENCE
        while self._requests < requests and time.monotonic() < deadline:
            time.sleep(0.01)
        with self._lock:
            return Speed(
                **{name: durations.spread() for name, durations in self._spreads.items()},
                requests=self._requests,
                preemptions=self._preemptions,
                running_max=self._running_max,
                running_mean=self._running / self._steps if self._steps else None,
                waiting_max=self._waiting_max,
                kv_cache_usage_max=min(self._usage, 1.0) if self._steps else None,
                prefix_hit_rate=self._hits / self._queries if self._queries else None,
                steps=self._steps,
                other_side=self._other_side(),
            )

    def occupancy(self) -> Occupancy | None:
        """Return how full the engine was since `restart`; None before the first request."""
        with self._lock:
            return self._occupancy.result()

    def _other_side(self) -> OtherSide | None:
        """Return the client's measurements of the same requests; None if it measured other requests."""
        seen = self._seen.spread()
        if seen is None or seen.n != self._requests:
            return None
        return OtherSide(by="client", requests=seen.n, e2el=seen.mean)

    def _add_step(
        self, stats: "SchedulerStats", iteration: "IterationStats | None", copy: int
    ) -> None:
        ended = tokens = 0
        if iteration is not None:
            ended = len(iteration.finished_requests)
            tokens = iteration.num_prompt_tokens + iteration.num_generation_tokens
        # vLLM counts after the step, without the requests that it finished; other copies keep their last count.
        waiting = stats.num_waiting_reqs + stats.num_skipped_waiting_reqs
        others = [left for index, left in self._left.items() if index != copy]
        running = stats.num_running_reqs + ended + sum(left[0] for left in others)
        self._left[copy] = (stats.num_running_reqs, waiting)
        self._steps += 1
        self._running += running
        self._running_max = max(self._running_max, running)
        waiting += sum(left[1] for left in others)
        self._waiting_max = max(self._waiting_max, waiting)
        left = running - ended
        full = waiting + self._held_back > 0
        self._occupancy.step(left + waiting, full=full, tokens=tokens)
        self._usage = max(self._usage, stats.kv_cache_usage)
        self._queries += stats.prefix_cache_stats.queries
        self._hits += stats.prefix_cache_stats.hits

    def _add_tokens(self, stats: "IterationStats") -> None:
        self._preemptions += stats.num_preempted_reqs
        self._spreads["ttft"].add(stats.time_to_first_tokens_iter)
        self._spreads["itl"].add(stats.inter_token_latencies_iter)
        finished = stats.finished_requests
        if finished:
            self._requests += len(finished)
            self._spreads["e2el"].add([request.e2e_latency for request in finished])
            self._spreads["queue"].add([request.queued_time for request in finished])
            self._spreads["tpot"].add(
                [r.mean_time_per_output_token for r in finished if r.num_generation_tokens > 1]
            )

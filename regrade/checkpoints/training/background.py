"""Evaluate checkpoints one after the other in a thread, with a bounded queue."""

import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from queue import SimpleQueue


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint to evaluate."""

    step: int
    epoch: float | None
    folder: Path
    """Folder that the Trainer wrote, and may delete."""
    model: Path
    """Folder to evaluate: hard links to the files of `folder`, or `folder` if they cannot be linked."""


@dataclass(frozen=True)
class Result:
    """Metrics of a checkpoint, or the error of its evaluation."""

    checkpoint: Checkpoint
    metrics: dict[str, float] = field(default_factory=dict)
    error: Exception | None = None


class BackgroundEvaluations:
    """Evaluates checkpoints in a thread, which runs while checkpoints wait."""

    def __init__(
        self, evaluate: Callable[[Checkpoint, threading.Event], Result], max_waiting: int
    ) -> None:
        """Prepare the thread.

        Args:
            evaluate: Called for each checkpoint. It must not raise, and ends early if the event is set.
            max_waiting: Most checkpoints that wait while another is evaluated.
        """
        self.results: SimpleQueue[Result] = SimpleQueue()
        self._evaluate, self._max_waiting = evaluate, max_waiting
        self._waiting: deque[Checkpoint] = deque()
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    def add(self, checkpoint: Checkpoint) -> Checkpoint | None:
        """Queue a checkpoint. Return the checkpoint that is skipped instead, or None.

        The oldest is skipped, so that results keep up with the training, and the last checkpoint is always evaluated.
        """
        with self._lock:
            if self._thread is None:
                # The thread is a daemon: the interpreter does not wait for it if the training fails.
                self._thread = threading.Thread(
                    target=self._work, args=(checkpoint,), name="regrade", daemon=True
                )
                self._thread.start()
                return None
            self._waiting.append(checkpoint)
            return self._waiting.popleft() if len(self._waiting) > self._max_waiting else None

    def unfinished(self) -> int:
        """Return the number of checkpoints that wait or are evaluated."""
        with self._lock:
            return len(self._waiting) + (self._thread is not None)

    def finish(self) -> None:
        """Wait until all checkpoints are evaluated."""
        with self._lock:
            thread = self._thread
        if thread is not None:
            thread.join()

    def stop(self) -> None:
        """End the running evaluation, and drop waiting checkpoints and all results."""
        with self._lock:
            self._waiting.clear()
        self._stop.set()
        self.finish()
        self._stop.clear()
        while not self.results.empty():
            self.results.get()

    def _work(self, checkpoint: Checkpoint | None) -> None:
        while checkpoint is not None:
            self.results.put(self._evaluate(checkpoint, self._stop))
            with self._lock:
                checkpoint = self._waiting.popleft() if self._waiting else None
                if checkpoint is None:
                    self._thread = None

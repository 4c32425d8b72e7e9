"""The queue of checkpoints that wait for their evaluation."""

import threading
from pathlib import Path

import pytest

from regrade.checkpoints.training.background import BackgroundEvaluations, Checkpoint, Result


class Gate:
    """Evaluations that last until they are let through, one by one."""

    def __init__(self) -> None:
        self.steps: list[int] = []
        self.started = threading.Semaphore(0)
        self.through = threading.Semaphore(0)

    def evaluate(self, checkpoint: Checkpoint, stop: threading.Event) -> Result:
        self.steps.append(checkpoint.step)
        self.started.release()
        while not self.through.acquire(timeout=0.02):
            if stop.is_set():
                break
        return Result(checkpoint)


def checkpoint(step: int) -> Checkpoint:
    return Checkpoint(step, None, Path(f"checkpoint-{step}"), Path(f"checkpoint-{step}"))


@pytest.mark.parametrize(
    ("max_waiting", "skipped", "evaluated"),
    [(2, [2, 3], [1, 4, 5]), (0, [2, 3, 4, 5], [1]), (4, [], [1, 2, 3, 4, 5])],
)
def test_the_oldest_waiting_checkpoint_makes_room(
    max_waiting: int, skipped: list[int], evaluated: list[int]
) -> None:
    gate = Gate()
    background = BackgroundEvaluations(gate.evaluate, max_waiting)

    dropped = [background.add(checkpoint(step)) for step in range(1, 6)]
    gate.through.release(5)
    background.finish()

    assert [evaluation.step for evaluation in dropped if evaluation is not None] == skipped
    assert gate.steps == evaluated
    assert background.unfinished() == 0


def test_a_checkpoint_is_evaluated_after_all_others_have_ended() -> None:
    gate = Gate()
    background = BackgroundEvaluations(gate.evaluate, 1)
    gate.through.release(2)

    background.add(checkpoint(1))
    background.finish()
    background.add(checkpoint(2))
    background.finish()

    assert gate.steps == [1, 2]
    assert background.results.qsize() == 2


def test_stopping_ends_the_running_evaluation_and_forgets_the_others() -> None:
    gate = Gate()
    background = BackgroundEvaluations(gate.evaluate, 4)
    for step in (1, 2, 3):
        background.add(checkpoint(step))
    gate.started.acquire()

    background.stop()

    assert gate.steps == [1]
    assert background.results.empty()
    gate.through.release()
    background.add(checkpoint(4))
    background.finish()
    assert gate.steps == [1, 4], "and it can be used again"

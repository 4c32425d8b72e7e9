"""Metrics of a sweep: all its answer sets, told apart by their points although their ids are equal."""

from types import SimpleNamespace
from typing import Any

from flows.sweeping import RunningPoint, states
from regrade.jobs.job import make_job
from regrade.processes.metrics_state import AnswerSetState
from regrade.tuning.sweep.points import SweepJob


def test_points_with_the_same_answer_set_id_are_told_apart():
    given = {"model": "org/name", "benchmarks": ("gsm8k",), "answers": "/a", "in_flight": (1, 4)}
    state = AnswerSetState(
        benchmark="gsm8k", model="org/name", answer_set="0123", planned=9, stored=0
    )
    work: Any = SimpleNamespace(state=state)
    points = make_job(SweepJob, given).points()
    running = [RunningPoint(point, point.job(), works=[work]) for point in points]
    found = [counted.answer_set for counted in states(running)]
    assert found == ["in_flight-1/0123", "in_flight-4/0123"]

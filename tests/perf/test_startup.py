"""Goals of start-up times: work of others beside a measurement neither reaches nor misses a goal by itself."""

import sys
from pathlib import Path

import pytest

from perf.measuring import run
from perf.startup import Repetition, verdict


def repetition(seconds: float, others: float = 0.0) -> Repetition:
    return Repetition(seconds, seconds, others)


@pytest.mark.parametrize(
    ("repetitions", "expected"),
    [
        ([repetition(1.0), repetition(1.0), repetition(9.0)], "yes"),
        ([repetition(1.0), repetition(3.0), repetition(9.0)], "no"),
        ([repetition(9.0, others=1.5), repetition(1.0), repetition(9.0, others=0.5)], "yes"),
        ([repetition(9.0, others=1.5), repetition(3.0)], "no"),
        ([repetition(9.0, others=1.5)], "open"),
        ([repetition(1.0, others=1.5)], "yes"),
    ],
)
def test_calm_repetitions_decide(repetitions: list[Repetition], expected: str):
    assert verdict(repetitions, goal=2.0) == expected


def test_a_command_has_its_own_cpu_time_and_may_end_with_an_expected_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("perf.measuring.RESULTS", tmp_path)
    code = "import sys, time; end = time.process_time() + 0.3\nwhile time.process_time() < end: pass\nsys.exit(2)"
    ran = run([sys.executable, "-c", code], code=2)
    assert 0.3 <= ran.cpu_seconds < 1.5
    with pytest.raises(SystemExit, match="exit code 2"):
        run([sys.executable, "-c", code])

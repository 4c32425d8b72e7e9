"""Check of an engine's measurements against its answers."""

import numpy as np
import pytest

from regrade.records import Completion
from regrade.stats.speed import Speed

# Seconds that a clock read between two processes may be late on a busy machine, where tests share two cores: an answer's end is read by
# the engine's core for its completion, and by vLLM's client for the measurement.
LATE = 0.25


def assert_measured(speed: Speed | None, completions: list[Completion]) -> None:
    """Assert that an engine measured what its answers say, and that its client saw the same."""
    n = len(completions)
    assert speed is not None
    assert speed.ttft is not None
    assert speed.itl is not None
    assert speed.e2el is not None
    assert (speed.measured_by, speed.requests, speed.ttft.n, speed.e2el.n) == ("engine", n, n, n)
    tokens = [completion.completion_tokens or 0 for completion in completions]
    assert speed.itl.n == sum(tokens) - n  # every token but the first of each answer
    ttft = [completion.time_to_first_token or 0.0 for completion in completions]
    latency = [completion.latency or 0.0 for completion in completions]
    assert speed.ttft.mean == pytest.approx(np.mean(ttft), rel=0.05, abs=0.002)
    assert speed.e2el.mean == pytest.approx(np.mean(latency), rel=0.05, abs=LATE)
    decoding = sum(last - first for last, first in zip(latency, ttft, strict=True))
    assert speed.itl.mean * speed.itl.n == pytest.approx(decoding, rel=0.01)
    assert speed.other_side is not None
    assert (speed.other_side.by, speed.other_side.requests) == ("client", n)
    assert speed.other_side.e2el == pytest.approx(speed.e2el.mean, rel=0.2, abs=LATE)

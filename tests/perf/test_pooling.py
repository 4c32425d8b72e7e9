import numpy as np
import pytest

from perf import pooling
from perf.pooling import BANDWIDTH, KV_TOKEN, PROMPT, WEIGHTS, decoding


def test_a_step_of_the_simulated_gpu_reads_the_weights_once_and_the_cache_of_each_request():
    tokens = 3 * PROMPT + 2 * (PROMPT + 1)  # three requests in the first step, two in the second

    assert decoding(np.array([2, 1, 2])) == pytest.approx(
        (2 * WEIGHTS + KV_TOKEN * tokens) / BANDWIDTH
    )


def test_a_request_begins_where_another_ends(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(pooling, "SLOTS", 1)

    assert decoding(np.array([3, 3])) == pytest.approx(2 * decoding(np.array([3])))

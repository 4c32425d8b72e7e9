"""Means between two readings of a vLLM server's metrics."""

import pytest

from regrade.engines.openai_api.client import measured_between, read_totals

NAMES = (
    "vllm:time_to_first_token_seconds",
    "vllm:request_time_per_output_token_seconds",
    "vllm:e2e_request_latency_seconds",
)


def metrics(total: float, count: int, *, model: str = "demo", engine: int = 0) -> str:
    labels = f'engine="{engine}",model_name="{model}"'
    lines = []
    for name in NAMES:
        lines += [
            f"# TYPE {name} histogram",
            f'{name}_bucket{{le="+Inf",{labels}}} {count}.0',
            f"{name}_sum{{{labels}}} {total}",
            f"{name}_count{{{labels}}} {count}.0",
        ]
    return "\n".join(lines) + "\n"


def test_the_means_are_those_of_the_requests_between():
    before, after = metrics(10.0, 4), metrics(16.0, 7)

    other = measured_between(read_totals(before, "demo"), read_totals(after, "demo"))

    assert other is not None
    assert (other.by, other.requests) == ("engine", 3)
    assert (other.ttft, other.tpot, other.e2el) == (2.0, 2.0, 2.0)


def test_engines_of_a_server_are_added_and_other_models_are_left_out():
    text = metrics(1.0, 1) + metrics(2.0, 3, engine=1) + metrics(50.0, 9, model="other")

    assert read_totals(text, "demo") == dict.fromkeys(("ttft", "tpot", "e2el"), (3.0, 4.0))


@pytest.mark.parametrize("text", ["", metrics(1.0, 1, model="other"), "# TYPE up gauge\nup 1\n"])
def test_a_server_without_these_metrics_has_no_totals(text: str):
    assert read_totals(text, "demo") is None


def test_a_server_that_was_restarted_meanwhile_measured_nothing():
    before, after = read_totals(metrics(10.0, 4), "demo"), read_totals(metrics(2.0, 3), "demo")

    assert measured_between(before, after) is None
    assert measured_between(before, before) is None

"""Means of a vLLM server's own measurements, from its Prometheus metrics before and after the requests."""

from collections.abc import Mapping

from prometheus_client.parser import text_string_to_metric_families

from regrade.stats.speed import OtherSide

_HISTOGRAMS = {
    "ttft": "vllm:time_to_first_token_seconds",
    "tpot": "vllm:request_time_per_output_token_seconds",
    "e2el": "vllm:e2e_request_latency_seconds",
}
"""vLLM's histogram of each latency (https://docs.vllm.ai/en/stable/usage/metrics/)."""

Totals = Mapping[str, tuple[float, float]]
"""Sum in seconds and number of values of each latency, since the server was started."""


def read_totals(text: str, model: str) -> Totals | None:
    """Return the totals of a model, over all engines of the server.

    Args:
        text: Answer of the server's `/metrics`.
        model: Name under which the server serves it.

    Returns:
        None if a histogram is missing: it is no vLLM server, or one of another version.

    Raises:
        ValueError: If the text is not in Prometheus' format.
    """
    totals: dict[str, list[float]] = {}
    names = {
        f"{metric}{part}": (latency, position)
        for latency, metric in _HISTOGRAMS.items()
        for position, part in enumerate(("_sum", "_count"))
    }
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            if sample.name in names and sample.labels.get("model_name") == model:
                latency, position = names[sample.name]
                totals.setdefault(latency, [0.0, 0.0])[position] += sample.value
    if totals.keys() != _HISTOGRAMS.keys():
        return None
    return {latency: (total, count) for latency, (total, count) in totals.items()}


def measured_between(before: Totals | None, after: Totals | None) -> OtherSide | None:
    """Return the server's means of the requests between two readings; None without any, or if the server was restarted."""
    if before is None or after is None:
        return None
    sums = {name: after[name][0] - before[name][0] for name in after}
    counts = {name: after[name][1] - before[name][1] for name in after}
    if counts["e2el"] < 1 or min(*counts.values(), *sums.values()) < 0:
        return None
    means = {name: sums[name] / counts[name] for name in sums if counts[name]}
    return OtherSide(by="engine", requests=round(counts["e2el"]), **means)

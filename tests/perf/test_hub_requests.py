"""Requests to the Hub do not grow with the answer sets and shards of a repository."""

from perf.hub_requests import measure
from tests.hub_server.fixtures import Hub

ONCE_PER_SHARD = "continue an answer set"


def test_a_publish_costs_the_same_in_a_small_and_a_large_repository(hub: Hub) -> None:
    small, large = (
        {row["what"]: row["requests"] for row in measure(hub.server, n, n)} for n in (3, 12)
    )

    # A process reads each shard that it continues once: head and content.
    assert large.pop(ONCE_PER_SHARD) - small.pop(ONCE_PER_SHARD) == 2 * (12 - 3)
    assert small == large
    assert small["commit of the next minute"] < 12
    assert small["list the sets again"] == 1

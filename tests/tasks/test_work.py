from dataclasses import dataclass
from typing import Any

import pytest
from prefect import flow, task
from prefect.cache_policies import NO_CACHE
from prefect.settings import PREFECT_API_URL, temporary_settings

from tasks.work import hidden


@dataclass
class Large:
    """Count reads of a field; Prefect reads it if it visits the dataclass."""

    samples: list[int]
    title = "large"
    reads = 0

    def __getattribute__(self, name: str) -> Any:
        if name == "samples":
            Large.reads += 1
        return super().__getattribute__(name)


@task(task_run_name="take {given.title}", cache_policy=NO_CACHE)
def take(given: Large) -> str:
    return type(given).__name__


@pytest.mark.prefect
def test_prefect_does_not_walk_through_what_is_hidden(prefect_server: str) -> None:
    @flow
    def give() -> list[str]:
        large = Large([1])
        return [take(hidden(large)), take.submit(hidden(large)).result()]

    with temporary_settings({PREFECT_API_URL: prefect_server}):
        assert give() == ["Large", "Large"]

    assert Large.reads == 0

"""LiveCodeBench from a Hub over HTTP: scoring reads the tests at the commit of the questions."""

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from regrade.benchmarks import open_benchmark
from regrade.benchmarks.livecodebench import LiveCodeBench
from regrade.settings.errors import SourceError
from tests.benchmarks.programming import CONTEST_ROWS
from tests.hub_server.here import use_hub
from tests.hub_server.server import HubServer
from tests.hub_server.store import Entry
from tests.stored import table_bytes

CARD = b"""---
configs:
- config_name: release_v6
  data_files:
  - split: test
    path: release_v6/test.parquet
---
"""


@pytest.fixture
def hub() -> Iterator[tuple[HubServer, str]]:
    server = HubServer()
    server.start()
    server.store.add_user("someone")
    repo = server.store.create(
        "datasets", "lighteval", "code_generation_lite", private=False, url=""
    )
    commits = []
    for rows in (CONTEST_ROWS, [row | {"private_test_cases": "[]"} for row in CONTEST_ROWS]):
        content = table_bytes(pa.Table.from_pylist(rows))
        tree = {
            "README.md": Entry(CARD, False),
            "release_v6/test.parquet": Entry(content, lfs=True),
        }
        commits.append(repo.add("main", "questions", tree).oid)
    yield server, commits[0]
    server.stop()


def test_tests_are_read_at_the_commit_of_the_questions(
    hub: tuple[HubServer, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    server, first = hub
    use_hub(monkeypatch, server.endpoint, home=tmp_path)
    benchmark = open_benchmark("livecodebench")
    names = [sample.doc["question"] for sample in benchmark.samples()]
    assert names == ["doubled", "doubled_2", "shifted"]

    pinned = benchmark.identity.model_copy(update={"source_revision": first})
    cases = LiveCodeBench.cases_of(pinned, None)

    assert {name: (len(cases(name).cases), cases(name).function) for name in names} == {
        "doubled": (2, None),
        "doubled_2": (2, None),
        "shifted": (2, "Solution.shifted"),
    }
    with pytest.raises(SourceError, match="it has no question 'absent'"):
        cases("absent")

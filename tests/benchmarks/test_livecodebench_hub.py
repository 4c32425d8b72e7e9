"""LiveCodeBench from a Hub over HTTP: scoring reads the tests at the commit of the questions."""

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from tests.benchmarks.programming import CONTEST_ROWS
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
PROGRAM = """
import json, sys
from regrade.benchmarks import open_benchmark
from regrade.benchmarks.livecodebench import LiveCodeBench
from regrade.settings.errors import SourceError
from regrade.records.specification import BenchmarkIdentity
benchmark = open_benchmark("livecodebench")
names = [sample.doc["question"] for sample in benchmark.samples()]
known = benchmark.identity.model_dump()
pinned = BenchmarkIdentity(**{**known, "source_revision": sys.argv[1]})
cases = LiveCodeBench.cases_of(pinned, None)
found = {name: [len(cases(name).cases), cases(name).function] for name in names}
try:
    cases("absent")
except SourceError as error:
    problem = str(error)
print(json.dumps([names, found, problem]))
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


def test_tests_are_read_at_the_commit_of_the_questions(hub: tuple[HubServer, str], tmp_path: Path):
    server, first = hub
    names, found, problem = server.asked_by("-c", PROGRAM, first, home=tmp_path)
    assert names == ["doubled", "doubled_2", "shifted"]
    assert found == {
        "doubled": [2, None],
        "doubled_2": [2, None],
        "shifted": [2, "Solution.shifted"],
    }
    assert "it has no question 'absent'" in problem

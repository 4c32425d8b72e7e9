"""Datasets of a Hub over HTTP."""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from regrade.benchmarks import open_benchmark, open_dataset
from regrade.benchmarks.base import Benchmark
from regrade.benchmarks.questions import hub_source
from regrade.hub.retries import RetryPolicy
from regrade.lm_eval.index import entries_of
from regrade.lm_eval.package import tasks_folder
from regrade.settings import DatasetBenchmark, PromptSettings
from regrade.settings.errors import RegradeError
from tests.benchmarks.files import GSM8K_TEST, GSM8K_TRAIN, Rows
from tests.hub_server.faults import Action, Answer, Drop
from tests.hub_server.here import use_hub
from tests.hub_server.server import HubServer
from tests.hub_server.store import Commit, Entry, Repo
from tests.stored import table_bytes

CARD = b"""---
configs:
- config_name: main
  data_files:
  - split: train
    path: main/train.parquet
  - split: test
    path: main/test.parquet
---
"""
GSM8K = {"n_shots": 1}
ANY = {"name": "any", "path": "openai/gsm8k", "config": "main", "scorer": "number"}
WRONG = {
    "dataset": {**ANY, "path": "openai/absent"},
    "private": {**ANY, "path": "someone/own"},
    "branch": {**ANY, "revision": "absent"},
    "commit": {**ANY, "revision": "f" * 40},
    "split": {**ANY, "split": "validation"},
    "config": {**ANY, "config": "other"},
    "column": {**ANY, "target_column": "solution"},
}

Answers = list[dict[str, Any]]
_numbers = itertools.count()


@dataclass
class Hub:
    """A Hub with the questions of GSM8K in two commits, and a private dataset."""

    server: HubServer
    home: Path
    old: str
    newest: str
    token: str

    def ask(self, *requests: dict[str, Any], **surroundings: Any) -> Answers:
        """Results of opening the requested benchmarks, in other surroundings than these: see `use_hub`."""
        with pytest.MonkeyPatch.context() as patch:
            use_hub(patch, **{"endpoint": self.server.endpoint, "home": self.home, **surroundings})
            patch.setattr(hub_source, "RETRIES", RetryPolicy(attempts=3, first_wait=0.05))
            # Of one task: to index all takes seconds.
            tasks = {entry.name: entry for entry in entries_of(tasks_folder() / "gsm8k")}
            patch.setattr("regrade.lm_eval.index._installed", lambda: tasks)
            return [opened(request) for request in requests]

    def new(self) -> str:
        """Name of a dataset with the questions of GSM8K that no test has read."""
        name = f"new-{next(_numbers)}"
        repo = self.server.store.create("datasets", "openai", name, private=False, url="")
        commit(repo, GSM8K_TEST)
        return f"openai/{name}"


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    server = HubServer()
    server.start()
    user = server.store.add_user("someone")
    commit(server.store.create("datasets", "someone", "own", private=True, url=""), GSM8K_TEST)
    repo = server.store.create("datasets", "openai", "gsm8k", private=False, url="")
    old = commit(repo, [{"question": "Old?", "answer": "#### 9"}])
    new = commit(repo, GSM8K_TEST)
    found = Hub(server, tmp_path_factory.mktemp("hf"), old.oid, new.oid, user.read_token)
    yield found
    server.stop()


def opened(request: dict[str, Any]) -> dict[str, Any]:
    """Return what a benchmark has, or the error of opening it."""
    try:
        if "task" in request:
            benchmark: Benchmark = open_benchmark(
                f"lm_eval:{request['task']}", prompt=PromptSettings(n_shots=1)
            )
        elif "n_shots" in request:
            benchmark = open_benchmark("gsm8k", prompt=PromptSettings(**request))
        else:
            benchmark = open_dataset(DatasetBenchmark(**request))
        samples = benchmark.samples()
    except RegradeError as error:
        retryable = getattr(error, "retryable", None)
        return {"error": type(error).__name__, "message": str(error), "retryable": retryable}
    return {
        "identity": benchmark.identity.model_dump(),
        "targets": [sample.target for sample in samples],
        "prompt": benchmark.prompt(samples[0]),
    }


@pytest.fixture(scope="module")
def answers(hub: Hub) -> dict[str, dict[str, Any]]:
    """Results of all requests to a working Hub."""
    requests = {
        "gsm8k": GSM8K,
        "task": {"task": "gsm8k"},
        "old": {**ANY, "revision": hub.old},
        **WRONG,
    }
    return dict(zip(requests, hub.ask(*requests.values()), strict=True))


def commit(repo: Repo, test: Rows) -> Commit:
    tree = {
        "README.md": Entry(CARD, False),
        "main/train.parquet": parquet(GSM8K_TRAIN),
        "main/test.parquet": parquet(test),
    }
    return repo.add("main", "questions", tree)


def parquet(rows: Rows) -> Entry:
    return Entry(table_bytes(pa.Table.from_pylist(rows)), lfs=True)


def test_gsm8k_is_loaded_from_the_hub_at_its_newest_commit(
    hub: Hub, answers: dict[str, dict[str, Any]]
) -> None:
    answer = answers["gsm8k"]

    assert answer["identity"]["source"] == "openai/gsm8k"
    assert answer["identity"]["source_revision"] == hub.newest
    assert answer["identity"]["config"] == "main"
    assert answer["targets"] == ["2000", "-3"]
    assert answer["prompt"].startswith("Question: One and one?\nAnswer: 1 + 1 = 2.\n#### 2\n\n")


def test_a_task_of_the_harness_reads_its_dataset_at_a_resolved_commit(
    hub: Hub, answers: dict[str, dict[str, Any]]
) -> None:
    answer = answers["task"]

    assert answer["identity"]["source"] == "openai/gsm8k"
    assert answer["identity"]["source_revision"] == hub.newest
    assert answer["identity"]["parameters"]["datasets"] == {"openai/gsm8k": hub.newest}
    assert answer["prompt"].startswith("Question: ")
    assert answer["prompt"].endswith("\nAnswer:")


def test_a_pinned_commit_stays_what_it_was(hub: Hub, answers: dict[str, dict[str, Any]]) -> None:
    assert answers["old"]["identity"]["source_revision"] == hub.old
    assert answers["old"]["targets"] == ["9"]


@pytest.mark.parametrize(
    ("wrong", "problem"),
    [
        ("dataset", "no such dataset on the Hub, or it is private or gated; set HF_TOKEN"),
        ("private", "private or gated; set HF_TOKEN to a token that may read it"),
        ("branch", "the dataset has no revision 'absent'"),
        ("commit", f"the dataset has no revision '{'f' * 40}'"),
        ("split", "there is no split 'validation'; found 'train', 'test'"),
        ("config", "BuilderConfig 'other' not found. Available: ['main']"),
        ("column", "no column 'solution'; found 'question', 'answer'"),
    ],
)
def test_what_the_hub_does_not_have_is_an_error_of_the_source(
    answers: dict[str, dict[str, Any]], wrong: str, problem: str
) -> None:
    assert answers[wrong]["error"] == "SourceError"
    assert problem in answers[wrong]["message"]


def test_with_a_token_a_private_dataset_is_read_and_a_gated_one_names_the_page_with_its_conditions(
    hub: Hub, tmp_path: Path
) -> None:
    gate = Answer(403, {"X-Error-Code": "GatedRepo", "X-Error-Message": "Access is restricted."})
    hub.server.fail("GET", "openai/gsm8k/resolve/", gate, count=100)
    hub.server.fail("HEAD", "openai/gsm8k/resolve/", gate, count=100)

    gated, private = hub.ask(ANY, WRONG["private"], token=hub.token, home=tmp_path)
    hub.server.forget()

    assert gated["error"] == "SourceError"
    assert "it is gated: accept its conditions on http" in gated["message"]
    assert "/datasets/openai/gsm8k, and set HF_TOKEN" in gated["message"]
    assert private["targets"] == ["2000", "-3"]


def test_a_hub_without_a_connection_is_not_the_fault_of_the_source_and_is_asked_once(
    hub: Hub,
) -> None:
    (answer,) = hub.ask(GSM8K, endpoint="http://127.0.0.1:9")

    assert (answer["error"], answer["retryable"]) == ("HubError", False)
    assert "while asking for its revision" in answer["message"]
    assert "name a file or folder with the same columns (`--source`" in answer["message"]


@pytest.mark.parametrize(
    "faults",
    [
        (Answer(503), Drop()),
        pytest.param((Answer(429), Answer(200, text='{"sha": "\udcff"}')), marks=pytest.mark.slow),
    ],
    ids=repr,
)
def test_a_hub_that_fails_is_asked_again(hub: Hub, faults: tuple[Action, ...]) -> None:
    name = hub.new()
    for fault in faults:
        hub.server.fail("GET", f"/api/datasets/{name}$", fault)
    hub.server.fail("GET", "/cdn/", Answer(500))

    (answer,) = hub.ask({**ANY, "path": name})
    assert hub.server.requests("GET", f"/api/datasets/{name}$") > len(faults)
    hub.server.forget()

    assert answer["targets"] == ["2000", "-3"]


def test_a_hub_that_keeps_failing_may_be_asked_later(hub: Hub) -> None:
    name = hub.new()
    hub.server.fail("GET", f"/api/datasets/{name}", Answer(503), count=3)
    hub.server.fail("GET", f"/api/datasets/{name}", Answer(429), count=3)
    hub.server.fail("GET", "/cdn/", Answer(500), count=100)

    answers = hub.ask(*[{**ANY, "path": name}] * 3)
    hub.server.forget()

    assert [(a["error"], a["retryable"]) for a in answers] == [("HubError", True)] * 3
    for answer, status in zip(answers, ("503", "429", "500"), strict=True):
        assert status in answer["message"]


def test_another_commit_in_the_cache_is_never_used_instead(
    hub: Hub, answers: dict[str, dict[str, Any]]
) -> None:
    assert answers["old"]["targets"] == ["9"]  # so that something is in the cache

    (answer,) = hub.ask({**ANY, "revision": "0" * 40}, offline=True)

    assert answer["error"] == "HubError"
    assert "the Hub did not return this commit, and the cache holds" in answer["message"]

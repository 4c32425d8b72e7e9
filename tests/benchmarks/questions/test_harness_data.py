from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from regrade.benchmarks.questions import harness_data
from regrade.benchmarks.questions.harness_data import HarnessData
from tests.benchmarks.files import write_jsonl


def of_files(first: Path, second: Path) -> list[tuple[str, dict[str, Any]]]:
    return [("json", {"data_files": {"train": str(first), "test": [str(second)]}})]


def of_folders(first: Path, second: Path) -> list[tuple[str, dict[str, Any]]]:
    return [(str(first.parent), {}), (str(second.parent), {})]


@pytest.mark.parametrize("named", [of_files, of_folders])
def test_the_revision_covers_files_of_the_same_name_in_several_folders(tmp_path: Path, named: Any):
    paths = tmp_path / "first" / "test.jsonl", tmp_path / "second" / "test.jsonl"

    def revision(*questions: str) -> str:
        data = HarnessData("demo")
        for path, question in zip(paths, questions, strict=True):
            path.parent.mkdir(exist_ok=True)
            write_jsonl(path, [{"q": question}])
        for path, options in named(*paths):
            _ = data.splits(path, None, options)["test"]
        return data.revision

    known = revision("a", "b")
    assert revision("a", "b") == known
    assert known not in (revision("x", "b"), revision("a", "x"), revision("b", "a"))


def test_a_dataset_is_read_at_each_revision_that_a_task_names(monkeypatch: pytest.MonkeyPatch):
    commits = {"a" * 40: "a" * 40, "v2": "b" * 40, None: "c" * 40}

    def hub(benchmark: str, path: str, config: str | None, revision: str | None) -> Mock:
        commit = commits.get(revision, revision)
        return Mock(revision=Mock(return_value=commit), splits=Mock(return_value=[config, commit]))

    monkeypatch.setattr(harness_data, "open_hub", hub)
    data = HarnessData("demo")
    read = [
        data.splits("org/d", name, {"revision": revision} if revision else {})
        for name, revision in (("x", "a" * 40), ("y", "a" * 40), ("x", "v2"), ("x", None))
    ]
    assert read == [["x", "a" * 40], ["y", "a" * 40], ["x", "b" * 40], ["x", "c" * 40]]
    assert sorted(data.revisions.values()) == ["a" * 40, "b" * 40, "c" * 40]

from pathlib import Path
from typing import Any

import pytest

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

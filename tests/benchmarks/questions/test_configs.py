"""Several configurations of a dataset as one source."""

from pathlib import Path
from typing import Any

import pytest

from regrade.benchmarks.questions import configs
from regrade.benchmarks.questions.configs import SUBSET, open_configs
from regrade.benchmarks.questions.reading import Source
from regrade.settings.errors import SourceError
from tests.benchmarks.files import write_jsonl

NAMES = {"one": "part one", "two": "part two"}


def local(folder: Path) -> Source:
    return open_configs("bench", "org/data", NAMES, str(folder), "test")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A configuration as a folder, and one as a file."""
    (tmp_path / "one").mkdir()
    write_jsonl(tmp_path / "one" / "test.jsonl", [{"q": "a"}, {"q": "b"}])
    write_jsonl(tmp_path / "two.jsonl", [{"q": "c"}])
    return tmp_path


def test_rows_come_in_order_with_the_name_of_their_part(folder: Path):
    assert local(folder).rows("test", ("q", SUBSET)) == [
        {"q": "a", SUBSET: "part one"},
        {"q": "b", SUBSET: "part one"},
        {"q": "c", SUBSET: "part two"},
    ]


def test_the_revision_covers_the_content_of_all_parts(folder: Path):
    before = local(folder).revision(("test",))
    assert local(folder).revision(("test",)) == before

    write_jsonl(folder / "two.jsonl", [{"q": "d"}])

    assert local(folder).revision(("test",)) != before


def test_a_missing_part_is_named(folder: Path):
    (folder / "two.jsonl").unlink()

    with pytest.raises(
        SourceError, match=r"such as 'two/test.jsonl' or 'two.jsonl'; 'two' is missing"
    ):
        local(folder)
    with pytest.raises(SourceError, match="'one' is missing"):
        local(folder / "absent")


def test_a_part_in_two_places_is_refused(folder: Path):
    write_jsonl(folder / "one.jsonl", [{"q": "x"}])

    with pytest.raises(SourceError, match="'one' could be any of 'one', 'one.jsonl'"):
        local(folder)


class OneHub:
    """A Hub whose newest commit changes with every question for it."""

    heads = 0

    def __init__(self, repo_id: str, config: str | None, revision: str | None) -> None:
        self.name, self.config, self._revision = repo_id, config, revision

    def revision(self, splits: Any) -> str:
        if self._revision is None:
            OneHub.heads += 1
            self._revision = f"{OneHub.heads:040d}"
        return self._revision

    def rows(self, split: str, columns: Any, head: int | None = None) -> list[dict[str, Any]]:
        return [{"q": f"{self.config} at {int(self.revision(()))}"}]


def test_all_parts_of_a_hub_dataset_are_read_at_one_commit(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(OneHub, "heads", 0)
    monkeypatch.setattr(
        configs, "open_hub", lambda _, repo, config, revision=None: OneHub(repo, config, revision)
    )
    source = open_configs("bench", "org/data", NAMES, None, "test")

    rows = source.rows("test", ("q", SUBSET))

    assert (source.name, source.config) == ("org/data", None)
    assert [row["q"] for row in rows] == ["one at 1", "two at 1"]
    assert source.revision(("test",)) == f"{1:040d}"

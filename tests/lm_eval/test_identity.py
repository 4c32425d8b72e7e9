"""Identity of tasks: the content of all files that decide them."""

from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from regrade.lm_eval import index as index_module
from regrade.lm_eval.identity import content_hash, task_files
from regrade.lm_eval.index import TaskEntry, entries_of, task_index
from regrade.lm_eval.package import tasks_folder
from regrade.settings.errors import SettingsError, SourceError

Index = Mapping[str, TaskEntry]


def names_of(name: str, index: Index) -> set[str]:
    return {
        path.relative_to(tasks_folder().resolve()).as_posix() for path in task_files(name, index)
    }


def test_included_files_and_the_code_next_to_them_decide_a_task(index: Index) -> None:
    files = ("mmlu_pro_math.yaml", "_default_template_yaml", "utils.py")
    assert names_of("mmlu_pro_math", index) == {f"mmlu_pro/{file}" for file in files}


def test_all_files_of_its_tasks_decide_a_group(index: Index) -> None:
    found = names_of("mmlu_stem", index)

    assert "mmlu/default/_mmlu_stem.yaml" in found
    assert "mmlu/default/mmlu_abstract_algebra.yaml" in found
    assert len(found) > 19


@pytest.fixture
def own(tmp_path: Path) -> Path:
    (tmp_path / "base_yaml").write_text("dataset_path: json\noutput_type: generate_until\n")
    (tmp_path / "mine.yaml").write_text(
        "task: mine\ninclude: base_yaml\ndoc_to_text: !function code.text\ndoc_to_target: a\n"
    )
    (tmp_path / "code.py").write_text("from . import more\n\ndef text(doc):\n    return doc['q']\n")
    (tmp_path / "more.py").write_text("X = 1\n")
    (tmp_path / "unused.py").write_text("Y = 1\n")
    return tmp_path


@pytest.mark.parametrize("file", ["base_yaml", "mine.yaml", "code.py", "more.py"])
def test_a_change_of_any_of_them_is_another_task(own: Path, file: str) -> None:
    index = {entry.name: entry for entry in entries_of(own)}
    before = content_hash("mine", index, str(own))

    with (own / file).open("a") as text:
        text.write("\n# changed\n")

    assert content_hash("mine", index, str(own)) != before


def test_a_file_that_it_does_not_use_and_the_place_of_the_folder_change_nothing(
    own: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    index = {entry.name: entry for entry in entries_of(own)}
    before = content_hash("mine", index, str(own))
    (own / "unused.py").write_text("Y = 2\n")
    moved = tmp_path_factory.mktemp("other") / "tasks"
    own.rename(moved)

    index = {entry.name: entry for entry in entries_of(moved)}

    assert content_hash("mine", index, str(moved)) == before


def test_a_file_outside_of_both_folders_is_refused(own: Path) -> None:
    (own / "tasks").mkdir()
    (own / "tasks/one.yaml").write_text("task: one\ninclude: ../base_yaml\n")
    index = {entry.name: entry for entry in entries_of(own / "tasks")}

    with pytest.raises(SettingsError, match="base_yaml' decides a task, but is neither"):
        content_hash("one", index, str(own / "tasks"))


@pytest.mark.usefixtures("indexed")
def test_a_folder_of_tasks_must_exist_and_hold_one(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="does not exist"):
        task_index(str(tmp_path / "none"))
    with pytest.raises(SourceError, match="no yaml file"):
        task_index(str(tmp_path))


@pytest.fixture
def unread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No index is in memory, neither here nor afterwards, and none in the cache folder."""
    monkeypatch.setenv("REGRADE_CACHE", str(tmp_path / "cache"))
    index_module._installed.cache_clear()
    yield
    index_module._installed.cache_clear()


def built_and_kept(monkeypatch: pytest.MonkeyPatch) -> Index:
    built = task_index()
    index_module._installed.cache_clear()
    with monkeypatch.context() as patch:
        patch.setattr(index_module, "entries_of", lambda _: pytest.fail("built again"))
        assert task_index() == built
    return built


@pytest.mark.usefixtures("unread")
def test_the_index_is_built_once_and_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tasks_folder() / "arc"
    monkeypatch.setattr(index_module, "tasks_folder", lambda: folder)

    index = built_and_kept(monkeypatch)

    assert {"arc_challenge", "arc_easy"} <= index.keys()


@pytest.mark.slow
@pytest.mark.usefixtures("unread")
def test_the_index_holds_all_names(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = built_and_kept(monkeypatch)

    assert len(kept) == 14_683
    refused = [entry.refusal for entry in kept.values() if entry.refusal]
    assert Counter(refused) == {"audio": 1, "unsafe_code": 54, "class": 30}

"""The index of the folders that the tests need (that of all tasks takes seconds), and data of NLTK for IFEval."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from regrade.lm_eval.index import TaskEntry
from tests.lm_eval.rows import tasks_of_folders
from tests.scorers.instructions.nltk_folder import write_nltk_data


@pytest.fixture(scope="session")
def index() -> Mapping[str, TaskEntry]:
    """Tasks of `FOLDERS`."""
    return tasks_of_folders()


@pytest.fixture
def indexed(index: Mapping[str, TaskEntry], monkeypatch: pytest.MonkeyPatch) -> None:
    """Those tasks are all that are installed."""
    monkeypatch.setattr("regrade.lm_eval.index._installed", lambda: index)


@pytest.fixture(autouse=True)
def _undescribed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The harness' results do not describe this machine, for which each evaluation starts ten programs, pip among them."""
    monkeypatch.setattr("lm_eval.evaluator.add_env_info", lambda results: None)


@pytest.fixture(autouse=True)
def _untried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Answers are not tried first in processes that import the harness: tests/scorers/test_lm_eval.py and `score_elsewhere` do."""
    monkeypatch.setattr("regrade.scorers.lm_eval.Trial.endless", lambda *_: [])


@pytest.fixture
def nltk_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """NLTK finds its data here and nowhere else, in processes that this one starts too."""
    import nltk

    folder = write_nltk_data(tmp_path / "nltk")
    monkeypatch.setattr(nltk.data, "path", [str(folder)])
    monkeypatch.setenv("NLTK_DATA", str(folder))
    return folder

"""One name for several models."""

from pathlib import Path

import pytest

from regrade.models import hub
from regrade.models.patterns import named_models
from regrade.settings.errors import ModelError
from regrade.settings.model_pattern import is_pattern
from regrade.settings.worker_limits import FOLDERS, STARTED_BY_WORKER, RefusedParameterError


@pytest.fixture
def run(tmp_path: Path) -> Path:
    for name in ("checkpoint-1000", "checkpoint-200", "checkpoint-90", "logs"):
        (tmp_path / "run" / name).mkdir(parents=True)
    (tmp_path / "run" / "checkpoint-5").write_text("a file")
    return tmp_path / "run"


def test_a_pattern_stands_for_its_folders_in_the_order_of_their_steps(run: Path):
    names = named_models(["org/name", f"{run}/checkpoint-*", str(run / "checkpoint-90")])

    steps = [str(run / f"checkpoint-{step}") for step in (90, 200, 1000)]
    assert names == ["org/name", *steps]


@pytest.mark.parametrize(
    ("name", "several"),
    [
        ("run/checkpoint-*", True),
        ("run/checkpoint-[12]00", True),
        ("org/name@step*", True),
        ("org/name@a,b", True),
        ("org/name@a", False),
        ("org/name", False),
        ("./runs, old/a@b,c", False),
        ("/runs/x@a,b", False),
    ],
)
def test_only_patterns_of_folders_and_revisions_stand_for_several(name: str, several: bool):
    assert is_pattern(name) is several


def test_an_existing_folder_stands_for_itself(tmp_path: Path):
    folder = tmp_path / "a[b]*"
    folder.mkdir()
    assert not is_pattern(str(folder))


def test_revisions_are_listed_or_matched_with_branches_and_tags(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(hub, "hub_revisions", lambda *_: ["main", "step1000", "step20", "v1"])

    assert named_models(["org/name@b,a"]) == ["org/name@b", "org/name@a"]
    assert named_models(["org/name@step*,main"]) == [
        f"org/name@{revision}" for revision in ("step20", "step1000", "main")
    ]
    with pytest.raises(ModelError, match=r"no branch or tag of 'org/name'.*main, step20"):
        named_models(["org/name@epoch*"])


def test_a_pattern_without_a_match_is_refused(run: Path):
    with pytest.raises(ModelError, match="no folder has such a name"):
        named_models([f"{run}/epoch-*"])


def test_a_worker_refuses_a_pattern_that_leads_out_of_its_folders(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "elsewhere").mkdir()
    (run / "checkpoint-9").symlink_to(tmp_path / "elsewhere")
    monkeypatch.setenv(FOLDERS, str(run))
    assert len(named_models([f"{run}/checkpoint-*"])) == 4
    monkeypatch.setenv(STARTED_BY_WORKER, "a run")
    with pytest.raises(RefusedParameterError, match="checkpoint-9"):
        named_models([f"{run}/checkpoint-*"])

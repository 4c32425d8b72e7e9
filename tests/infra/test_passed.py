"""The tests of infra/ run again if anything that they test has changed."""

import subprocess
from pathlib import Path

import pytest

from infra.passed import NOTE, TESTED, digest, has_passed
from tests.command_line import ROOT


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A working tree on which they passed."""
    for name in ("infra/install.sh", "requirements/cpu.txt", "regrade/cli/main.py", str(NOTE)):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("before\n")
    for command in (["init", "--quiet"], ["add", "."]):
        subprocess.run(["git", *command], cwd=tmp_path, check=True)
    (tmp_path / NOTE).write_text(digest(tmp_path))
    return tmp_path


@pytest.mark.parametrize("name", ["infra/install.sh", "requirements/cpu.txt", "infra/new.sh"])
def test_they_run_again_after_a_change_of_what_they_test(tree: Path, name: str):
    assert has_passed(tree)
    (tree / name).write_text("after\n")
    assert not has_passed(tree)


def test_they_run_again_if_a_file_is_gone_or_nobody_ran_them(tree: Path):
    (tree / "infra/install.sh").unlink()
    assert not has_passed(tree)
    (tree / NOTE).unlink()
    assert not has_passed(tree)


def test_they_stand_after_a_change_elsewhere(tree: Path):
    (tree / "regrade/cli/main.py").write_text("after\n")
    assert has_passed(tree)


def test_what_they_test_exists():
    assert [name for name in TESTED if not (ROOT / name).exists()] == []

"""A release: its version and notes are those of the tree, and what it packs scores the demo's answers in a fresh environment."""

import shutil
from pathlib import Path

import pytest

from infra.release import ReleaseError, check_committed, check_version, notes, release, run
from regrade import __version__
from tests.command_line import ROOT

CHANGELOG = "# Changelog\n\n## Unreleased\n\n- new\n\n## 0.2.0 (2026-11-27)\n\n- second\n\n## 0.1.0 (2026-01-01)\n\n- first\n"


def test_the_changelog_has_notes_of_the_version_of_the_code():
    version = check_version(ROOT)
    assert version == __version__
    assert "### Commands" in notes((ROOT / "CHANGELOG.md").read_text(), version)


def test_another_version_in_pyproject_is_refused(tmp_path: Path):
    (tmp_path / "pyproject.toml").write_text('[project]\nversion = "7.0"\n')
    with pytest.raises(ReleaseError, match=f"version 7.0, .* has {__version__}"):
        check_version(tmp_path)


def test_the_notes_are_the_section_of_the_version_and_no_other():
    assert notes(CHANGELOG, "0.2.0") == "# regrade 0.2.0\n\n- second\n"
    assert notes(CHANGELOG, "0.1.0") == "# regrade 0.1.0\n\n- first\n"


@pytest.mark.parametrize(
    "changelog", ["## 0.2.0\n\n- no date\n", "## 0.2.0 (2026-11-27)\n\n## 0.1.0 (2026-01-01)\n"]
)
def test_a_version_without_date_or_lines_is_refused(changelog: str):
    with pytest.raises(ReleaseError, match=r"`## 0\.2\.0 \(YYYY-MM-DD\)`"):
        notes(changelog, "0.2.0")


def test_files_that_are_not_committed_are_named(tmp_path: Path):
    run("git", "git", "init", "--quiet", cwd=tmp_path)
    check_committed(tmp_path)
    (tmp_path / "new.py").write_text("")
    with pytest.raises(ReleaseError, match=r"new\.py"):
        check_committed(tmp_path)


def test_a_step_that_fails_is_named_with_what_it_printed(capfd: pytest.CaptureFixture[str]):
    with pytest.raises(ReleaseError, match=r"(?s)listing: exit code .*nowhere-at-all"):
        run("listing", "ls", "nowhere-at-all")


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_fresh_environment_scores_the_demos_answers(tmp_path: Path):
    tree = tmp_path / "tree"
    listed = run("listing", "git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
    for name in filter(None, listed.split("\0")):
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tree / name)

    written = release(tree, tmp_path / "work", tmp_path / "dist")

    assert {path.name for path in written.parent.iterdir()} == {
        f"regrade-{__version__}-py3-none-any.whl",
        f"regrade-{__version__}.tar.gz",
        f"notes-{__version__}.md",
    }

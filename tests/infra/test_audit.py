"""Known vulnerabilities: none, some, and not looked up are three different ends."""

import subprocess
from pathlib import Path

import pytest

from infra import audit
from tests.command_line import ROOT
from tests.pinned import versions

CLEAN = {"name": "orjson", "version": "3.11", "vulns": []}
KNOWN = {
    "name": "jinja2",
    "version": "3.1.0",
    "vulns": [{"id": "PYSEC-1", "fix_versions": ["3.1.4"], "aliases": ["CVE-1"]}],
}
SKIPPED = {"name": "torch", "skip_reason": "Dependency not found on PyPI"}


@pytest.mark.parametrize(
    ("packages", "code", "expected"),
    [
        ([CLEAN], 0, "1 packages looked up, 0 known vulnerabilities."),
        ([CLEAN, KNOWN], 1, "jinja2 3.1.0: PYSEC-1, CVE-1; fixed in 3.1.4"),
        ([CLEAN, SKIPPED], 3, "NOT looked up, the index has no information: torch"),
        ([KNOWN, SKIPPED], 1, "NOT looked up, the index has no information: torch"),
    ],
)
def test_what_was_not_looked_up_is_not_clean(packages: list, code: int, expected: str):
    found, lines = audit.verdict({"dependencies": packages})
    assert found == code
    assert expected in lines


@pytest.mark.parametrize(
    "answer", [{"dependencies": [SKIPPED]}, None], ids=["mirror", "no network"]
)
def test_an_index_without_information_is_asked_once(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], answer: dict | None
):
    asked = []

    def look_up(packages, options):
        asked.append(packages)
        if answer is None:
            raise audit.NotLookedUpError("Connection refused")
        return answer

    monkeypatch.setattr(audit, "look_up", look_up)

    assert audit.main([]) == 3
    assert asked == [[audit.PROBE]]
    assert "could NOT be looked up" in capsys.readouterr().err


def test_all_pinned_packages_are_looked_up():
    names = {package.partition("==")[0] for package in audit.pinned()}
    assert names == {*versions("cpu"), *versions("stack"), "torch"}
    assert not any("+" in package for package in audit.pinned())


@pytest.mark.parametrize(("code", "ends"), [(0, 0), (1, 1), (3, 0)])
def test_a_release_is_held_up_by_known_vulnerabilities_and_not_by_an_index_that_does_not_answer(
    code: int, ends: int, tmp_path: Path
):
    """`.ci/run` with stand-ins for make and for Python, which ends with the code of the audit."""
    (tmp_path / ".ci").mkdir()
    (tmp_path / ".ci/run").write_text((ROOT / ".ci/run").read_text())
    python = f'[ "$2" = infra.site ] && exit 3; exit {code}'  # no index has Sphinx
    for name, program in {".venv/bin/python": python, "bin/make": "exit 0"}.items():
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_text(f"#!/bin/sh\n{program}\n")
        (tmp_path / name).chmod(0o755)
    (tmp_path / "bin/docker").symlink_to("make")  # which has compose
    places = {"PATH": f"{tmp_path / 'bin'}:/usr/bin:/bin"}

    for everything, expected in (("1", ends), ("0", 0)):
        ran = subprocess.run(
            ["bash", ".ci/run"], cwd=tmp_path, env={**places, "ALL": everything}, check=False
        )
        assert ran.returncode == expected

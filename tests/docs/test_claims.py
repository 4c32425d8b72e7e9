"""Each paragraph, item and row of docs/security.md and docs/code.md names the tests that show what it says.

A part or a sentence more, or a test that is gone, fails: read the part again, and name the test of what is new in `claims.yaml`.
"""

import re
from pathlib import Path

import pytest
import yaml
from prefect.settings.models.results import ResultsSettings

from regrade.processes.sandbox.self_test import _PROBES
from regrade.scorers.code import LIMITS
from tests.command_line import ROOT
from tests.processes.sandbox.hostile import CHEATS, PROGRAMS

CLAIMS: dict[str, dict[str, int | str]] = yaml.safe_load(
    Path(__file__).with_name("claims.yaml").read_text()
)
"""Page -> beginning of each part -> its number of stops, then the names of its tests."""


def parts(page: str) -> list[str]:
    """Paragraphs, items and rows of a page, without headings and programs."""
    text = re.sub(r"```.*?```", "", (ROOT / "docs" / page).read_text(), flags=re.DOTALL)
    found = re.split(r"\n\s*\n|\n(?=- |\d\. |\| |\|-|#)", text)
    lines = [re.sub(r"^(- |\d\. )", "", " ".join(part.split())) for part in found]
    head = re.compile(r"#|\|[-: |]+\|$|\| (who|where|name|) ?\|")
    return [line for line in lines if line and not head.match(line)]


@pytest.mark.parametrize("page", CLAIMS)
def test_each_part_of_the_pages_names_the_tests_that_show_it(page: str):
    known = {
        name
        for path in (ROOT / "tests").rglob("test_*.py")
        for name in re.findall(r"^def (test_\w+)", path.read_text(), re.MULTILINE)
    }
    told, claims = parts(page), CLAIMS[page]
    for part in told:
        begin = max((begin for begin in claims if part.startswith(begin)), key=len, default=None)
        assert begin is not None, f"docs/{page} says this without a test: {part}"
        stops, *tests = str(claims[begin]).split()
        assert len(re.findall(r"[.:;](?= |$)", part)) == int(stops), f"read again: {part}"
        assert {*tests} <= known, {*tests} - known
    assert len(told) == len(claims), "a part that is gone has tests"


@pytest.mark.parametrize("page", CLAIMS)
def test_files_and_names_on_the_pages_exist(page: str):
    text = (ROOT / "docs" / page).read_text()
    paths = re.findall(r"`((?:regrade|tests|infra)/[\w/.-]+)`(?: \(`(\w+)`\))?", text)
    assert paths
    for path, name in paths:
        written = path in ("infra/.env",)  # by the reader
        assert written or (ROOT / path).exists(), path
        assert not name or re.search(rf"\b{name}\b", (ROOT / path).read_text()), name


def test_no_flow_stores_a_result():
    asked = re.compile(
        r"persist_result|result_storage|result_serializer|cache_key_fn|cache_policy(?!(\": |=)NO_CACHE)"
    )
    for folder in ("flows", "tasks", "regrade"):
        for path in (ROOT / folder).rglob("*.py"):
            assert not asked.search(path.read_text()), path
    for path in (ROOT / "infra").rglob("*"):
        assert not path.is_file() or b"PREFECT_RESULTS" not in path.read_bytes(), path
    assert ResultsSettings.model_fields["persist_by_default"].default is False


def test_the_numbers_of_the_pages_are_those_of_the_code():
    code = (ROOT / "docs/code.md").read_text()
    for number in (
        f"runs {len(PROGRAMS)} hostile programs in both sandboxes",
        f"and {len(CHEATS)} that try to pass tests",
        f"tries {len(_PROBES) + 1} things that must not work",  # and to write a file of the user
        f"its own `/tmp` of {LIMITS.scratch_mib} MiB and {LIMITS.scratch_files:,} files",
        f"{LIMITS.memory_mib // 1024} GiB; CPU time of {LIMITS.test_cpu_seconds} s per case, "
        f"{LIMITS.call_cpu_seconds} s per call in tests, {LIMITS.program_cpu_seconds} s for the calls",
        f"{LIMITS.output_mib} MiB | the same",
        f"Elapsed time, {LIMITS.wall_factor:.0f} times as much",
        f"{LIMITS.all_bytes / 2**30:.1f} GiB for each",
    ):
        assert number in code

"""README and docs: links lead somewhere, and every page can be found."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from regrade.jobs.job import GenerationJob, make_job
from tasks.plan import plan_answers
from tests.command_line import ROOT, demo_parameters

DOCS = ROOT / "docs"
PAGES = sorted(
    [
        *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")),
        *(
            path
            for folder in ("docs", "examples", "infra", "perf")
            for path in (ROOT / folder).rglob("*.md")
        ),
    ]
)
BLOCK = re.compile(r"^```.*?\n(.*?)^```", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"\]\(([^)\s]+)\)")
COMMAND = re.compile(r"(?:\$ )?(?:\.venv/bin/)?regrade +(.*)")


def prose(page: Path) -> str:
    """A page without its blocks of code."""
    return BLOCK.sub("", page.read_text())


def anchors(page: Path) -> set[str]:
    """Anchors of a page's headings, as GitHub makes them."""
    titles = re.findall(r"^#+ (.*)$", prose(page), re.MULTILINE)
    plain = [re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", title).lower() for title in titles]
    return {re.sub(r"[^\w\- ]", "", title.strip()).replace(" ", "-") for title in plain}


def broken(page: Path) -> Iterator[str]:
    """Links of a page to files or headings that do not exist."""
    for link in LINK.findall(prose(page)):
        if link.startswith(("http://", "https://")):
            continue
        name, _, anchor = link.partition("#")
        target = (page.parent / name).resolve() if name else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            yield link


def commands(page: Path) -> Iterator[list[str]]:
    """Words of the regrade commands in a page's blocks; a command may go on after a backslash, or within quotes."""
    indented = "\n".join(line[4:] for line in prose(page).splitlines() if line.startswith("    "))
    for block in [*BLOCK.findall(page.read_text()), indented]:
        lines = block.replace("\\\n", " ").splitlines()
        for number, line in enumerate(lines):
            found = COMMAND.match(line)
            if found is not None:
                text = found[1]
                for more in lines[number + 1 :]:
                    if text.partition(" #")[0].count("'") % 2 == 0:
                        break
                    text += f"\n{more}"
                yield shlex.split(text.removesuffix(" ..."), comments=True)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path):
    assert list(broken(page)) == []


def test_a_link_to_nothing_is_noticed(tmp_path: Path):
    page = tmp_path / "page.md"
    page.write_text("# A title\n[a](#a-title) [b](#other) [c](missing.md) [d](page.md#a-title)\n")
    assert list(broken(page)) == ["#other", "missing.md"]


def test_every_page_of_the_docs_is_linked_from_another_one():
    linked = {
        (page.parent / link.partition("#")[0]).resolve()
        for page in PAGES
        for link in LINK.findall(prose(page))
        if not link.startswith(("http", "#"))
    }
    pages = set(DOCS.glob("*.md")) | {*(DOCS / "images").glob("*.png")}
    assert sorted(str(page) for page in pages - linked) == []


def test_the_readme_shows_the_id_of_the_demos_answers():
    demo = demo_parameters()
    works = plan_answers.fn(make_job(GenerationJob, demo))
    shown = re.findall(r"regrade (?:show|view) ([0-9a-f]{16})", (ROOT / "README.md").read_text())
    assert {*shown} == {works[0].plan.specification.answer_set_id}


def test_the_docs_are_short():
    assert sum(page.stat().st_size for page in DOCS.rglob("*.md")) <= 152_000


def test_the_readme_is_short():
    assert len((ROOT / "README.md").read_text().split()) <= 900

"""The site of docs/: its navigation, its links to files that it does not hold, and its reference, which is made from the code."""

import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from infra.site import __main__ as site
from infra.site.reference import help_of, reference_pages
from regrade.benchmarks import benchmark_cards
from regrade.cli.command_list import COMMANDS
from regrade.jobs.job import EvaluationJob, JudgeJob
from regrade.scorers import load_scorer, scorer_names
from regrade.settings import GateSettings, SamplingSettings
from tests.command_line import ROOT

DOCS = ROOT / "docs"


@pytest.fixture(scope="module")
def pages() -> dict[str, str]:
    return reference_pages()


@pytest.mark.parametrize("name", scorer_names())
def test_the_reference_has_each_scorer_as_it_is(name: str, pages: dict[str, str]):
    scorer = load_scorer(name)
    for text in (
        f"## {name}\n\nVersion {scorer.version}. {scorer.description}",
        f"*Unparsed*: {scorer.unparsed}",
    ):
        assert text in pages["scorers"]


def test_the_reference_has_each_benchmark_with_what_its_file_says(pages: dict[str, str]):
    for card in benchmark_cards():
        assert (
            f"| [{card.name}](#{card.name}) | {card.method}, {card.format}, " in pages["benchmarks"]
        )
        described = f"{card.description} Version {card.version}, from `{card.source}`."
        assert f"## {card.name}\n\n{described}\n\n```text\n" in pages["benchmarks"]
    assert "Licence:  MIT" in pages["benchmarks"]


def test_the_reference_has_each_field_of_the_jobs(pages: dict[str, str]):
    for job in (EvaluationJob, JudgeJob, GateSettings):
        for name, field in job.model_fields.items():
            assert f"\n| `{name}` | " in pages["parameters"]
            assert (
                " ".join((field.description or "").split()).replace("|", "\\|")
                in pages["parameters"]
            )
    for name in SamplingSettings.model_fields:
        assert f"\n| `sampling.{name}` | " in pages["parameters"]


def test_a_benchmark_has_sampling_of_its_own_and_no_default_is_shown(pages: dict[str, str]):
    rows = re.findall(r"^\| `sampling\.max_tokens` .*$", pages["parameters"], re.MULTILINE)
    assert rows
    assert not [row for row in rows if "Default" in row]


def test_the_reference_has_the_full_help_and_the_exit_codes_of_each_command(pages: dict[str, str]):
    for name in COMMANDS:
        assert f"### {name}\n\n```text\nUsage: regrade {name}" in pages["commands"]
    assert "| `gate` | 0 pass, 1 regression, 2 cannot tell, 3 no verdict" in pages["commands"]
    assert "--engine.max-num-seqs" in help_of("evaluate")
    assert COMMANDS["promote"].examples[0] in help_of("promote")


def test_every_page_is_in_the_navigation():
    built = site.contents((DOCS / "index.md").read_text())
    trees = "\n".join(re.findall(r"```\{toctree\}\n(.*?)```", built, re.DOTALL))
    found = {f"{line}.md" for line in trees.splitlines() if line and not line.startswith(":")}
    assert found == {str(p.relative_to(DOCS)) for p in DOCS.rglob("*.md")} - {"index.md"}
    assert re.findall(r":caption: (.*)", trees)[:3] == ["Start", "Concepts", "Guides"]


def test_links_to_files_that_the_site_does_not_hold_become_their_paths(tmp_path: Path):
    docs = tmp_path / "docs"
    (docs / "decisions").mkdir(parents=True)
    page = docs / "decisions" / "one.md"
    text = (
        "[a](../stack.md#x) [infra/ci](../../infra/ci) [`b.toml`](../../b.toml) [it](../../c.md#d)"
    )
    assert site.adapted(text, page, docs) == ("[a](../stack.md#x) `infra/ci` `b.toml` it (`c.md`)")


def test_a_link_that_is_named_after_a_file_gets_the_title_of_its_page():
    text = "see [ci.md](ci.md#exit-codes), [all](start.md)"
    assert site.adapted(text, DOCS / "a.md", DOCS) == "see [](ci.md#exit-codes), [all](start.md)"


def test_a_script_of_another_host_is_found(tmp_path: Path):
    (tmp_path / "page.html").write_text(
        '<a href="https://elsewhere.test"></a><script defer src="https://cdn.test/x.js"></script>'
    )
    assert site.loaded_from_elsewhere(tmp_path) == [
        'page.html: <script defer src="https://cdn.test/x.js"'
    ]


def test_without_an_index_that_has_sphinx_the_error_says_so_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
):
    missing = tmp_path / "docs.txt"
    missing.write_text("no-such-package-of-regrade==1.0 --hash=sha256:" + "0" * 64 + "\n")
    monkeypatch.setattr(site, "NEEDED", ("no_such_package_of_regrade",))
    monkeypatch.setattr(site, "PACKAGES", str(missing))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    assert site.main() == site.NOT_INSTALLED
    assert "no package index gave them" in capfd.readouterr().err


@pytest.mark.skipif(find_spec("sphinx") is None, reason="`make docs` installs Sphinx")
def test_a_link_that_leads_nowhere_fails_the_build(tmp_path: Path):
    source = tmp_path / "source"
    source.mkdir()
    (source / "conf.py").write_text((ROOT / "infra" / "site" / "conf.py").read_text())
    for name, link in (("good", "#a-title"), ("page", "missing.md"), ("anchor", "index.md#gone")):
        (source / "index.md").write_text(f"# A title\n\n[a]({link})\n")
        build = ["-W", "-q", "-b", "html", str(source), str(tmp_path / name)]
        done = subprocess.run(
            [sys.executable, "-m", "sphinx", *build], capture_output=True, check=False
        )
        assert (done.returncode == 0) == (name == "good"), done.stderr

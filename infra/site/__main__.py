"""Build the site of docs/ into `.site/html`: `python -m infra.site`, or `make docs`.

Sphinx with MyST reads the pages of docs/ as they are, and pages of reference that `reference.py` makes from the code. A link or an
anchor that leads nowhere is an error. Exit codes: 0 built, 1 an error in a page, 3 Sphinx is not installed and no package index has it.
"""

import re
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

from infra.site.reference import SECTION, reference_pages

ROOT = Path(__file__).parents[2]
SITE = ROOT / ".site"
PACKAGES = "requirements/docs.txt"
NEEDED = ("sphinx", "myst_parser", "furo")
BUILT, FAILED, NOT_INSTALLED = 0, 1, 3
_LINK = re.compile(r"\[([^\]]*)\]\(((?:\.\./)+[^)\s#]+)(?:#[^)\s]*)?\)")
_NAMED = re.compile(r"\[[\w-]+\.md\]\(([\w/-]+\.md(?:#[\w-]+)?)\)")
_LOADED = re.compile(r'<(?:script|link|img|iframe)\b[^>]*?\b(?:src|href)="(?:https?:)?//[^"]+"')


def install() -> bool:
    """Install what the site needs, unless it is there; return if it is there now."""
    if all(find_spec(name) for name in NEEDED):
        return True
    print(f"installing {PACKAGES}", flush=True)
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
    hashed = ["--no-deps", "--require-hashes", "--requirement", PACKAGES]
    quick = ["--timeout", "15", "--retries", "1"]  # an index that does not answer is an error soon
    return subprocess.run([*pip, *quick, *hashed], cwd=ROOT, check=False).returncode == 0


def adapted(text: str, page: Path, docs: Path) -> str:
    """Return a page for the site: a link named after a file gets the title, and one to a file outside of docs/ is its path."""

    def path(found: re.Match[str]) -> str:
        target = (page.parent / found[2]).resolve()
        if target.is_relative_to(docs.resolve()):
            return found[0]
        name = target.relative_to(docs.resolve().parent)
        shown = found[1].replace("`", "")
        return f"`{name}`" if str(name).endswith(shown) else f"{found[1]} (`{name}`)"

    return _NAMED.sub(r"[](\1)", _LINK.sub(path, text))


def contents(index: str) -> str:
    """Return the index with the site's navigation: its headings, and the pages that each links to."""
    trees = []
    for section in index.split("\n## ")[1:]:
        title, _, text = section.partition("\n")
        pages = dict.fromkeys(re.findall(r"\]\(([\w/.-]+)\.md\)", text))
        if pages:
            entries = "\n".join(pages)
            trees.append(f"```{{toctree}}\n:hidden:\n:caption: {title}\n\n{entries}\n```\n")
    return "\n".join([index, *trees])


def write_sources(docs: Path, source: Path) -> None:
    """Write what Sphinx reads: the pages of docs/, those of reference, and its configuration."""
    shutil.rmtree(source, ignore_errors=True)
    shutil.copytree(docs, source)
    for page in source.rglob("*.md"):
        original = docs / page.relative_to(source)
        page.write_text(adapted(original.read_text(), original, docs))
    (source / "reference").mkdir()
    for name, text in reference_pages().items():
        (source / "reference" / f"{name}.md").write_text(text)
    index = source / "index.md"
    index.write_text(contents(f"{index.read_text()}\n{SECTION}"))
    shutil.copy(Path(__file__).with_name("conf.py"), source)


def loaded_from_elsewhere(html: Path) -> list[str]:
    """Return scripts, styles and pictures that pages load from other hosts."""
    return [
        f"{page.relative_to(html)}: {tag}"
        for page in sorted(html.rglob("*.html"))
        for tag in _LOADED.findall(page.read_text())
    ]


def main() -> int:
    """Build the site."""
    if not install():
        print(
            f"The site needs the packages of {PACKAGES}, and no package index gave them. Name an index "
            "that has them (PIP_INDEX_URL), or read the pages as they are: docs/index.md.",
            file=sys.stderr,
        )
        return NOT_INSTALLED
    source, html = SITE / "source", SITE / "html"
    write_sources(ROOT / "docs", source)
    shutil.rmtree(html, ignore_errors=True)
    build = ["-W", "--keep-going", "-q", "-b", "html", "-d", str(SITE / "doctrees")]
    done = subprocess.run(
        [sys.executable, "-m", "sphinx", *build, str(source), str(html)], check=False
    )
    if done.returncode:
        return FAILED
    if foreign := loaded_from_elsewhere(html):
        print("Loaded from another host:", *foreign, sep="\n", file=sys.stderr)
        return FAILED
    print(f"{html.relative_to(ROOT)}/index.html")
    return BUILT


if __name__ == "__main__":
    raise SystemExit(main())

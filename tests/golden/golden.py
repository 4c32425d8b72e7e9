"""Golden files: what a person or a program gets from regrade, to the letter.

Before a text is compared, everything that differs from machine to machine or from minute to minute is replaced by a
placeholder (`normalised`); ids of answer sets stay, because they must not move.
"""

import difflib
import itertools
import os
import re
from collections.abc import Callable, Collection
from pathlib import Path

from regrade import __version__

FILES = Path(__file__).with_name("files")
WRITE = os.environ.get("REGRADE_GOLDEN") == "write"
Replacement = str | Callable[[re.Match[str]], str]
_FIXED = re.compile(r"(.)\1*")
"""A commit or a hash of one repeated digit comes from the frozen inputs, and stays."""


def _unless_fixed(placeholder: str) -> Callable[[re.Match[str]], str]:
    return lambda found: found[0] if _FIXED.fullmatch(found[0]) else placeholder


_REPLACED: tuple[tuple[str, Replacement], ...] = (
    (r"data:(image|font)/[\w+-]+;base64,[\w+/=]+", r"<\1>"),
    (r"<style>.*?</style>", "<style/>"),
    (r"&#39;sha256-[\w+/=]+&#39;", "<sha256>"),
    # Commands as this environment calls them, and the version of regrade.
    (r"(?<![\w./-])[\w./-]+/bin/(regrade|mlflow|prefect)\b", r"\1"),
    (
        rf'("(?:regrade_version|version)": "|\bregrade[ /]v?){re.escape(__version__)}',
        r"\1<version>",
    ),
    # Times and days, as long as what they replace: columns keep their width.
    (
        r"\b20\d\d-\d\d-\d\d([T ])\d\d[:-]\d\d[:-]\d\d(?:[.-]\d+)?(Z|\+00:?00)?",
        r"YYYY-MM-DD\1hh:mm:ss",
    ),
    (r"\b20\d\d-\d\d-\d\d([T ])\d\d:\d\d\b", r"YYYY-MM-DD\1hh:mm"),
    (r"\b20\d\d-\d\d-\d\d\b", "YYYY-MM-DD"),
    (r"^\d\d:\d\d:\d\d ", "hh:mm:ss "),
    (r"\bread \d\d:\d\d:\d\d UTC", "read hh:mm:ss UTC"),
    # Seconds that this run took.
    (r'"seconds": \{.*?\}', lambda found: re.sub(r": [\d.e-]+", ': "<seconds>"', found[0])),
    (r'"score_seconds": [\d.e-]+', '"score_seconds": "<seconds>"'),
    (r"\b1[789]\d{8}\b", "<seconds since 1970>"),
    # Scorers: their code, of which the hash also depends on the version of Python.
    (r'("(?:source_hash|scorer_source|regrade\.scorer_hash)": ")[0-9a-f]{8}', r"\1<hash>"),
    (r"(\b[a-z_]+-\d+-|\bv\d+ \(?)[0-9a-f]{8}\b", r"\1<hash->"),
    (r"((?:(?:version \d+|v\d+), source `?)|\bcurrent version )[0-9a-f]{8}", r"\1<hash->"),
    # Files: their content depends on the version of pyarrow.
    (r"\b(part-\d{5}-)[0-9a-f]{8}\b", r"\1<hash->"),
    (r"\b(?!0{8})[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}", "<uuid>"),
    (r"\bhas \d+ bytes with\b", "has <bytes> bytes with"),
    (r"-\d{8}T\d{6}-\d+\.log\b", "-<time>.log"),
    (r"\b[0-9a-f]{64}\b", _unless_fixed("<sha256>")),
    # Sums whose order is not fixed differ in their last digits.
    (r"\b\d+\.\d{13,}(e-\d+)?\b", lambda found: f"{float(found[0]):.12g}"),
    # Commits of repositories, and runs of MLflow.
    (r"\b[0-9a-f]{40}\b", _unless_fixed("<commit>")),
    (r"\b[0-9a-f]{32}\b", _unless_fixed("<run>")),
)


def normalised(text: str, *, folder: Path, commits: Collection[str] = ()) -> str:
    """Return a text without what differs between machines and runs.

    Args:
        text: Any text.
        folder: Folder of the test, named differently each time.
        commits: Full commits whose shortened forms may be in the text.
    """
    for path in (str(folder), str(folder).replace("_", "\\_")):  # also as markdown escapes it
        text = text.replace(path, "<folder>")
    for commit in commits:
        text = re.sub(rf"\b{commit[:12]}\b", "<commit--->", text)
        text = re.sub(rf"\b{commit[:8]}\b", "<commit>", text)
    for pattern, replacement in _REPLACED:
        text = re.sub(pattern, replacement, text, flags=re.MULTILINE | re.DOTALL)
    lines = [line.rstrip() for line in text.strip("\n").splitlines()]
    ordered = [
        line
        for is_log, part in itertools.groupby(lines, lambda line: line.startswith("hh:mm:ss "))
        for line in (sorted(part) if is_log else part)  # answer sets are scored in threads
    ]
    return "\n".join(ordered) + "\n"


def without_seconds(text: str) -> str:
    """Return a page of the terminal without numbers and widths in the table of seconds, which this run took."""
    return re.sub(
        r"^seconds .*?(?=\n\n|\n-- |\Z)",
        lambda table: re.sub(r"\d+\.\d", "s.s", re.sub(" {2,}", "  ", table[0])),
        text,
        flags=re.MULTILINE | re.DOTALL,
    )


def matches_golden(name: str, text: str) -> None:
    """Compare a normalised text with `files/NAME`; with `REGRADE_GOLDEN=write`, write it there instead."""
    path = FILES / name
    if WRITE:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return
    assert path.is_file(), f"{path} is missing: REGRADE_GOLDEN=write writes it"
    before = path.read_text(encoding="utf-8")
    if text != before:
        lines = difflib.unified_diff(
            before.splitlines(), text.splitlines(), f"files/{name}", "now", lineterm=""
        )
        raise AssertionError("\n".join([f"{name} changed (see CONTRIBUTING.md):", *lines]))

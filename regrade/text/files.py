"""Report files for CI, and the summary page of a GitHub job."""

import os
from pathlib import Path

from regrade.settings.errors import SettingsError

STEP_SUMMARY = "GITHUB_STEP_SUMMARY"
"""Environment variable that names the file with a GitHub job's summary."""


def write_reports(page: str, *files: tuple[Path | None, str]) -> None:
    """Write the requested report files; in a GitHub job, append the page to its summary.

    Args:
        page: The report as markdown.
        files: Path and content; a path of None is skipped.

    Raises:
        SettingsError: If a file cannot be written.
    """
    for path, content in files:
        if path is not None:
            write_file(path, content)
    if summary := os.environ.get(STEP_SUMMARY):
        write_file(Path(summary), page + "\n", append=True)


def write_file(path: Path, content: str | bytes, *, append: bool = False) -> None:
    """Write a file and create its parent folders.

    Raises:
        SettingsError: If the file cannot be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("ab" if append else "wb") as file:
            file.write(content if isinstance(content, bytes) else content.encode(errors="replace"))
    except OSError as error:
        raise SettingsError(f"'{path}' cannot be written: {error.strerror}.") from error

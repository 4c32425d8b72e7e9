"""Addresses of answers in the viewer (`regrade view`), under the prefix in REGRADE_VIEW_URL.

A viewer shows one repository: a prefix without a known repository would name answers that it may not have. An address is
therefore only made for answers of the default repository (REGRADE_ANSWERS).
"""

import logging
import os
from pathlib import Path
from urllib.parse import quote, urlencode, urlsplit

from regrade.settings.errors import SettingsError
from regrade.settings.files import path_of

logger = logging.getLogger("regrade.view")
VARIABLE = "REGRADE_VIEW_URL"
"""Environment variable with the address of the team's viewer, such as https://eval.example.org/view."""


def default_answers() -> str:
    """Default answer repository: `REGRADE_ANSWERS`, else the folder `answers`."""
    return os.environ.get("REGRADE_ANSWERS") or "answers"


def view_prefix() -> str | None:
    """Return the address of the viewer without a slash at the end; None if REGRADE_VIEW_URL is not set.

    Raises:
        SettingsError: If it is not an address.
    """
    given = os.environ.get(VARIABLE)
    if not given:
        return None
    parts = urlsplit(given)
    if parts.scheme not in ("http", "https") or not parts.netloc or parts.query or parts.fragment:
        raise SettingsError(
            f"{VARIABLE} is '{given}', expected an address such as https://eval.example.org/view."
        )
    return given.rstrip("/")


def view_address(
    repository: str,
    answer_set_id: str,
    *,
    sample_id: str | None = None,
    repeat: int = 0,
    revision: str | None = None,
) -> str | None:
    """Return the address of an answer, or of a list of answers; None without a prefix or in another repository.

    Args:
        repository: `Repository.uri` of the answers.
        answer_set_id: Answer set.
        sample_id: Question. None: the list of all answers.
        repeat: Number of the answer to the question.
        revision: Revision to show. None: the newest.
    """
    if sample_id is None:
        path = set_path(answer_set_id)
    else:
        path = answer_path(answer_set_id, sample_id, repeat)
    return _under_prefix(path, repository, revision)


def comparison_address(
    repositories: tuple[str, str],
    base: str,
    candidate: str,
    *,
    sample_id: str | None = None,
    revision: str | None = None,
) -> str | None:
    """Return the address of a comparison of two answer sets, or of a question in it; None as in `view_address`.

    Args:
        repositories: `Repository.uri` of the baseline and of the candidate.
        base: Answer set of the baseline.
        candidate: Answer set of the candidate.
        sample_id: Question in the baseline. None: all questions.
        revision: Revision to show. None: the newest.
    """
    if repositories[0] != repositories[1]:
        return None
    path = comparison_path(base, candidate)
    if sample_id is not None:
        path = pair_path(base, candidate, sample_id)
    return _under_prefix(path, repositories[0], revision)


def set_path(answer_set_id: str) -> str:
    """Return the path of a list of answers."""
    return f"/sets/{quote(answer_set_id, safe='')}"


def answer_path(answer_set_id: str, sample_id: str, repeat: int) -> str:
    """Return path and query of an answer; a sample id may have any characters."""
    return f"{set_path(answer_set_id)}/answer?{urlencode({'sample': sample_id, 'number': repeat})}"


def comparison_path(base: str, candidate: str) -> str:
    """Return the path of a comparison."""
    return f"/compare/{quote(base, safe='')}/{quote(candidate, safe='')}"


def pair_path(base: str, candidate: str, sample_id: str) -> str:
    """Return path and query of a question in a comparison."""
    return f"{comparison_path(base, candidate)}/question?{urlencode({'sample': sample_id})}"


def _under_prefix(path: str, repository: str, revision: str | None) -> str | None:
    try:
        prefix = view_prefix()
    except SettingsError as error:
        logger.warning("no address in the viewer: %s", error)  # a result is complete without it
        return None
    if prefix is None or not _is_default(repository):
        return None
    if revision is not None:
        path += f"{'&' if '?' in path else '?'}at={revision}"
    return prefix + path


def _is_default(repository: str) -> bool:
    default = default_answers().removesuffix("/")
    if default.startswith("hf://") or repository.startswith("hf://"):
        return default == repository
    return path_of(default).resolve() == Path(repository).resolve()

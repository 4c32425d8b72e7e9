"""What the commands that look have in common."""

import json
import sys
from typing import Any

from rich.table import Table

from regrade.answers.base import Repository
from regrade.errors import RepositoryError


def open_answers(answers: str | None) -> tuple[Repository, str]:
    """Return the answer repository and its newest revision.

    Raises:
        RepositoryError: If it is not there, or holds no answers.
    """
    # Not every command that prints opens a repository.
    from regrade.answers.opening import open_repository  # noqa: PLC0415
    from regrade.job import default_answers  # noqa: PLC0415

    repository = open_repository(answers or default_answers(), create=False)
    revision = repository.head()
    if revision is None:
        raise RepositoryError(
            repository.uri, "it holds no answers yet. Generate some with `regrade generate`."
        )
    return repository, revision


def new_table(*columns: str) -> Table:
    """Return an empty table without lines around its cells."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in columns:
        table.add_column(name, no_wrap=True)
    return table


def print_json(document: dict[str, Any]) -> None:
    """Print one JSON document on stdout."""
    sys.stdout.write(json.dumps(document, indent=2, ensure_ascii=False) + "\n")

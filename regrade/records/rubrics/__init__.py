"""Rubrics: the texts by which a judge model grades answers, one file each, and the verdicts that they allow."""

from importlib import import_module
from pathlib import Path
from typing import cast

from regrade.records.rubrics.base import Rubric
from regrade.records.rubrics.own import read_rubric
from regrade.settings.errors import UnknownNameError

RUBRICS = ("accuracy_style", "correct", "criteria", "mt_bench", "pairwise")
"""Names of the built-in rubrics, each a module of this package with the attribute `rubric`."""


def open_rubric(name: str) -> Rubric:
    """Return a rubric.

    Args:
        name: Name of a built-in rubric, or the path of a Jinja file (`.jinja`, `.j2`, `.md` or `.txt`).

    Raises:
        UnknownNameError: If there is no such rubric.
        SettingsError: If the file cannot be used.
    """
    if name in RUBRICS:
        return cast("Rubric", import_module(f"{__name__}.{name}").rubric)
    if "/" in name or Path(name).suffix in (".jinja", ".jinja2", ".j2", ".md", ".txt"):
        return read_rubric(Path(name))
    raise UnknownNameError("rubric", name, (*RUBRICS, "path/to/file.jinja"))

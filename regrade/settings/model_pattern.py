"""Names that stand for several models: `run/checkpoint-*`, `org/name@step*`, `org/name@a,b`, `org/*@main`. Needs no client of the Hub."""

import re

from regrade.settings.files import at_home

MAGIC = re.compile(r"[*?\[]")
"""Matches what makes a name a pattern."""


def is_pattern(name: str) -> bool:
    """Return True if a name may stand for several models. The name of an existing folder stands for itself."""
    if at_home(name).exists():
        return False
    return MAGIC.search(name) is not None or (names_revision(name) and "," in name)


def names_revision(name: str) -> bool:
    """Return True for a model on the Hub with a revision, or several, such as `org/name@main`."""
    repository, at, _ = name.partition("@")
    return bool(at) and repository.count("/") == 1 and not repository.startswith((".", "/", "~"))


def has_models(name: str) -> bool:
    """Return True for a pattern of an organisation's models, such as `org/*-instruct@main`."""
    return names_revision(name) and MAGIC.search(name.partition("@")[0]) is not None

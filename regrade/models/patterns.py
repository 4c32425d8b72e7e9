"""The models that a pattern names: folders (`run/checkpoint-*`), or revisions on the Hub (`org/name@step*`, `org/*@a,b`)."""

import os
import re
from collections.abc import Iterable
from fnmatch import fnmatchcase
from glob import glob
from itertools import chain
from pathlib import Path

from regrade.settings.errors import ModelError
from regrade.settings.files import at_home
from regrade.settings.model_pattern import MAGIC, has_models, is_pattern, names_revision
from regrade.settings.worker_limits import STARTED_BY_WORKER, check_path

_NUMBERS = re.compile(r"(\d+)")


def named_models(names: Iterable[str]) -> list[str]:
    """Return the names with each pattern replaced by the models that it stands for, in the order of their steps.

    Raises:
        ModelError: If a pattern stands for no model.
        HubError: If the Hub cannot be reached or fails.
        RefusedParameterError: If the worker that started this run shares none of the folders with it.
    """
    return [*dict.fromkeys(chain.from_iterable(map(_named, names)))]


def _named(name: str) -> list[str]:
    if found := matching(name):
        return found
    if not names_revision(name):
        raise ModelError(name, "no folder has such a name.")
    from regrade.models.hub import hub_revisions  # noqa: PLC0415 - slow: a folder is not on the Hub

    repository = name.partition("@")[0]
    if has_models(name):
        raise ModelError(name, "no model on the Hub has such a name.")
    known = sorted(hub_revisions(name, repository), key=_order)
    some = f" It has {', '.join(known[:10])}." if known else ""
    raise ModelError(name, f"no branch or tag of '{repository}' has such a name.{some}")


def matching(name: str) -> list[str]:
    """Return the models that a name stands for now, in the order of their steps; that of one model stands for itself.

    Raises:
        As `named_models`, which also raises an error if there are none.
    """
    if not is_pattern(name):
        return [name]
    if not names_revision(name):
        folders = [path for path in glob(str(at_home(name))) if Path(path).is_dir()]  # noqa: PTH207 - a whole path
        for path in folders if STARTED_BY_WORKER in os.environ else ():
            check_path("`model`", path, may_be_name=False)  # a link may lead anywhere
        return sorted(folders, key=_order)
    from regrade.models.hub import hub_models, hub_revisions  # noqa: PLC0415 - as above

    repository, _, revisions = name.partition("@")
    if has_models(name):
        models = hub_models(repository.partition("/")[0])
        known_models = (model for model in models if fnmatchcase(model, repository))
        return [*chain.from_iterable(matching(f"{model}@{revisions}") for model in known_models)]
    if not MAGIC.search(revisions):
        return [f"{repository}@{revision}" for revision in revisions.split(",") if revision]
    known = hub_revisions(name, repository)
    return [
        f"{repository}@{revision}"
        for pattern in revisions.split(",")
        for revision in sorted(known, key=_order)
        if fnmatchcase(revision, pattern)
    ]


def _order(name: str) -> list[tuple[int, str]]:
    """Return a key by which `checkpoint-200` comes before `checkpoint-1000`."""
    parts = _NUMBERS.split(name)
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in parts]

"""The installed scorers, benchmarks and engines: those of regrade, one a file, and those of other packages.

A module directly in `regrade/scorers`, `regrade/benchmarks` or `regrade/engines` is one of regrade's own, with the
class as its attribute `scorer`, `benchmark` or `engine`. Other packages name their class in an entry point of the group
`regrade.scorers`, `regrade.benchmarks` or `regrade.engines`. Listing the names imports none of them.
"""

import pkgutil
import re
from collections.abc import Iterable, Mapping
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from importlib.util import find_spec
from typing import Any, Literal

from regrade.errors import PluginError, UnknownNameError

Kind = Literal["scorer", "benchmark", "engine"]

NAME = r"^[a-z0-9][a-z0-9_]*$"
"""Pattern of the names of scorers, benchmarks and engines."""
_MEMBERS: Mapping[Kind, tuple[str, ...]] = {
    "scorer": ("name", "version", "description", "unparsed", "columns", "targets", "score"),
    "benchmark": ("name", "version", "description", "card"),
    "engine": ("model_fields", "resolve", "open"),
}
"""Attributes that a class must have to be one."""


def package(kind: Kind) -> str:
    """Return the package of regrade's own, which is the name of the entry point group as well."""
    return f"regrade.{kind}s"


@cache
def names(kind: Kind) -> tuple[str, ...]:
    """Return the names of all that are installed: regrade's own, then those of other packages, each sorted."""
    return tuple(_entries(kind))


def load(kind: Kind, name: str) -> type[Any]:
    """Return the class of a name; `regrade.scorers.base` and the other `base` modules say what it can do.

    Raises:
        UnknownNameError: If none of that name is installed.
        PluginError: If it is installed and cannot be used.
    """
    if name not in _entries(kind):
        raise UnknownNameError(kind, name, names(kind))
    loaded = _loaded(kind, name)
    if isinstance(loaded, PluginError):
        raise PluginError(*loaded.args) from loaded.__cause__
    return loaded


def module(kind: Kind, name: str) -> str:
    """Return the full name of the module that the class of a name is taken from.

    Raises:
        UnknownNameError: If none of that name is installed.
        PluginError: If it is installed and cannot be used.
    """
    load(kind, name)
    return _entries(kind)[name][0].module


def broken(kind: Kind) -> tuple[PluginError, ...]:
    """Load all that are installed and return the errors of those that cannot be used."""
    loaded = [_loaded(kind, name) for name in names(kind)]
    return tuple(one for one in loaded if isinstance(one, PluginError))


@cache
def _entries(kind: Kind) -> Mapping[str, tuple[EntryPoint, ...]]:
    """Return where each name is defined; more than one place is an error when the name is used."""
    found: dict[str, tuple[EntryPoint, ...]] = {}
    for name in sorted(_files(package(kind))):
        place = f"{package(kind)}.{name}:{kind}"
        found[name] = (EntryPoint(name, place, package(kind)),)
    for point in sorted(_entry_points(package(kind)), key=lambda point: point.name):
        found[point.name] = (*found.get(point.name, ()), point)
    return found


def _files(package: str) -> list[str]:
    spec = find_spec(package)
    if spec is None or spec.submodule_search_locations is None:
        raise ModuleNotFoundError(f"The package '{package}' is not found.", name=package)
    found = pkgutil.iter_modules(spec.submodule_search_locations)
    return [
        one.name for one in found if not (one.ispkg or one.name[0] == "_" or one.name == "base")
    ]


def _entry_points(group: str) -> Iterable[EntryPoint]:
    return _all_entry_points().select(group=group)


_all_entry_points = cache(entry_points)
"""Reads the metadata of every installed distribution, in about 10 ms for 300 of them: once for all kinds."""


@cache
def _loaded(kind: Kind, name: str) -> type[Any] | PluginError:
    """Return the class, or the error to raise when it is used: a failing import is not tried again and again."""
    points = _entries(kind)[name]
    if len(points) > 1:
        places = " and ".join(_place(point) for point in points)
        return PluginError(kind, name, f"it is defined by {places}. Uninstall or rename one")
    (point,) = points
    if not re.fullmatch(NAME, name):
        return PluginError(
            kind, name, f"{_place(point)} should have a name of a to z, 0 to 9 and '_'"
        )
    try:
        return _checked(kind, name, point)
    except PluginError as error:
        return error


def _checked(kind: Kind, name: str, point: EntryPoint) -> type[Any]:
    try:
        loaded: Any = point.load()
    except Exception as error:
        problem = f"{_place(point)} cannot be imported: {type(error).__name__}: {error}"
        raise PluginError(kind, name, problem) from error
    missing = [member for member in _MEMBERS[kind] if not hasattr(loaded, member)]
    if not isinstance(loaded, type) or missing:
        lacks = f": it has no '{missing[0]}'" if missing else ""
        raise PluginError(kind, name, f"{_place(point)} is not the class of a {kind}{lacks}")
    found: type[Any] = loaded
    given = found.name if kind != "engine" else found.model_fields["kind"].default
    if given != name:
        raise PluginError(kind, name, f"{_place(point)} calls itself '{given}'")
    return found


def _place(point: EntryPoint) -> str:
    distribution = f"{point.dist.name} {point.dist.version}" if point.dist else "regrade"
    return f"'{point.value}' of {distribution}"

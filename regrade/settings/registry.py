"""Installed scorers, benchmarks and engines, by name.

Built-in: each module directly in `regrade/scorers`, `regrade/benchmarks` or `regrade/engines` holds its class in
the attribute `scorer`, `benchmark` or `engine`. Other packages declare their class as an entry point of the group
`regrade.scorers`, `regrade.benchmarks` or `regrade.engines`. Listing the names imports no class.

`bfcl`, `competitions` and `livecodebench` hold several benchmarks: there `benchmark` is a function that returns the class of a name.
"""

import pkgutil
import re
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from importlib.util import find_spec
from inspect import isfunction
from typing import Any, Literal

from regrade.settings.errors import PluginError, SettingsError, UnknownNameError

Kind = Literal["scorer", "benchmark", "engine"]

NAME = r"^[a-z0-9][a-z0-9_]*$"
"""Pattern of valid names."""
ARGUMENTS = r"\([a-z]\w*=[\w.+-]+(?:,[a-z]\w*=[\w.+-]+)*\)"
"""Pattern of a scorer's arguments, such as `(last=true)`; paths and labels hold them."""
ORIGINAL = "original"
"""Scorer name of the scores that came with imported answers."""
STORED_NAME = f"{NAME.removesuffix('$')}(?:{ARGUMENTS})?$"
"""Pattern of a stored scorer's name, such as `number` or `number(last=true)`."""
IN_FILE = r"^.+\.py:[A-Za-z_]\w*$"
"""Pattern of `path/to/file.py:name`, a definition in a file that is not installed."""
_DATE = r"_\d\d(?:0[1-9]|1[0-2])(?:0[1-9]|[12]\d|3[01])?"
WINDOW = f"livecodebench{_DATE}{_DATE}"
"""Pattern of the names of LiveCodeBench between two months or days, such as `livecodebench_2410_2502`."""
_SHARED_MODULES: Mapping[Kind, Mapping[str, tuple[str, ...]]] = {
    "benchmark": {
        "bfcl": ("bfcl", "bfcl_live"),
        "competitions": (
            *("aime_2024", "aime_2025", "aime_2026"),
            *("hmmt_feb_2025", "hmmt_feb_2026", "hmmt_nov_2025"),
        ),
        "livecodebench": (
            *("livecodebench", "livecodebench_240801_250201", "livecodebench_2408_2505"),
            *("livecodebench_2410_2502", "livecodebench_2502_2505"),
        ),
    }
}
"""Names by module, for modules that hold several."""
_MEMBERS: Mapping[Kind, tuple[str, ...]] = {
    "scorer": ("name", "version", "description", "unparsed", "columns", "targets"),
    "benchmark": (
        *("name", "version", "description", "card"),
        *("samples", "prompt", "ranking", "contexts"),
    ),
    "engine": ("model_fields", "resolve", "open"),
}
"""Attributes required of a class, by kind."""


def package(kind: Kind) -> str:
    """Package of the built-in classes, and name of the entry point group."""
    return f"regrade.{kind}s"


@cache
def names(kind: Kind) -> tuple[str, ...]:
    """Names of all installed classes: built-in, then those of other packages, both sorted."""
    return tuple(_entries(kind))


def called(name: str) -> tuple[str, Mapping[str, str]]:
    """Split a scorer's name with arguments, such as `number(last=true)`, into the name and its arguments.

    Raises:
        SettingsError: If the text in brackets is not made of arguments.
    """
    base, bracket, text = name.rpartition("(") if name.endswith(")") else (name, "", "")
    arguments = bracket + "".join(text.split())
    if not bracket:
        return name, {}
    if not re.fullmatch(ARGUMENTS, arguments):
        raise SettingsError(
            f"'{name}' should be a scorer with arguments, such as `{base}(name=value,other=2)`; a value is a number, true, "
            "false or a word."
        )
    return base, dict(argument.split("=") for argument in arguments[1:-1].split(","))


def is_known(kind: Kind, name: str) -> bool:
    """Return True if a class of a name is installed; benchmarks have more names than `names` lists (`WINDOW`)."""
    return name in _entries(kind) or (kind == "benchmark" and bool(re.fullmatch(WINDOW, name)))


def load(kind: Kind, name: str) -> Any:  # noqa: ANN401 - a class, or a scorer's function
    """Return the class of a name; `regrade.scorers.base` and the other `base` modules describe its interface.

    A scorer may also be a plain function (`regrade.scorers.user_functions.functions`).

    Raises:
        UnknownNameError: If no class of this name is installed.
        PluginError: If the class is installed but cannot be used.
    """
    if not is_known(kind, name):
        raise UnknownNameError(kind, name, names(kind))
    loaded = _loaded(kind, name)
    if isinstance(loaded, PluginError):
        raise PluginError(*loaded.args) from loaded.__cause__
    return loaded


def module(kind: Kind, name: str) -> str:
    """Return the full name of the module that provides the class of a name.

    Raises:
        UnknownNameError: If no class of this name is installed.
        PluginError: If the class is installed but cannot be used.
    """
    load(kind, name)
    return _entries(kind)[name][0].module


def broken(kind: Kind) -> tuple[PluginError, ...]:
    """Load all installed classes and return the errors of those that cannot be used."""
    results = [_loaded(kind, name) for name in names(kind)]
    return tuple(result for result in results if isinstance(result, PluginError))


@cache
def _entries(kind: Kind) -> Mapping[str, tuple[EntryPoint, ...]]:
    """Return the definitions of each name; a name with several definitions cannot be used."""
    entries: dict[str, tuple[EntryPoint, ...]] = {}
    group = package(kind)
    shared = _SHARED_MODULES.get(kind, {})
    modules = {name: name for name in _files(group) if name not in shared}
    modules |= {name: module for module, several in shared.items() for name in several}
    for name, module in sorted(modules.items()):
        entries[name] = (EntryPoint(name, f"{group}.{module}:{kind}", group),)
    for point in sorted(_all_entry_points().select(group=group), key=lambda point: point.name):
        entries[point.name] = (*entries.get(point.name, ()), point)
    return entries


def _files(package: str) -> list[str]:
    spec = find_spec(package)
    if spec is None or spec.submodule_search_locations is None:
        raise ModuleNotFoundError(f"The package '{package}' is not found.", name=package)
    modules = pkgutil.iter_modules(spec.submodule_search_locations)
    return [
        file.name
        for file in modules
        if not (file.ispkg or file.name[0] == "_" or file.name == "base")
    ]


_all_entry_points = cache(entry_points)
"""Reads the metadata of every installed distribution, about 10 ms for 300; cached for all kinds."""


@cache
def _loaded(kind: Kind, name: str) -> Any | PluginError:  # noqa: ANN401 - as `load`
    """Return the class, or the error to raise when it is used; cached, so that a failed import runs only once."""
    try:
        known = _entries(kind)
        return _checked(kind, name, known[name] if name in known else known["livecodebench"])
    except PluginError as error:
        return error


def checked(kind: Kind, name: str, definition: object, place: str) -> Any:  # noqa: ANN401 - as `load`
    """Return the definition of a name if it can be used.

    Args:
        kind: Kind of the definition.
        name: Name under which it is used.
        definition: Class, or for scorers a function.
        place: Where it comes from, for messages.

    Raises:
        PluginError: If it is not the class of this kind, or has another name.
    """
    if kind == "scorer" and isfunction(definition):
        return definition
    missing = [member for member in _MEMBERS[kind] if not hasattr(definition, member)]
    if kind == "scorer" and not (hasattr(definition, "score") or hasattr(definition, "session")):
        missing.append("score")
    if not isinstance(definition, type) or missing:
        lacks = f": it has no '{missing[0]}'" if missing else ""
        raise PluginError(kind, name, f"{place} is not the class of a {kind}{lacks}")
    plugin: type[Any] = definition
    attribute = "kind" if kind == "engine" else "name"
    value = plugin.model_fields["kind"].default if kind == "engine" else plugin.name
    if value != name:
        raise PluginError(kind, name, f"{place} has the {attribute} '{value}', expected '{name}'")
    return plugin


def _checked(kind: Kind, name: str, points: Sequence[EntryPoint]) -> Any:  # noqa: ANN401 - as `load`
    places = " and ".join(_place(point) for point in points)
    if len(points) > 1:
        raise PluginError(kind, name, f"it is defined by {places}. Uninstall or rename one of them")
    if not re.fullmatch(NAME, name):
        raise PluginError(kind, name, f"{places} should have a name of a to z, 0 to 9 and '_'")
    try:
        loaded: Any = points[0].load()
    except Exception as error:
        problem = f"{places} cannot be imported: {type(error).__name__}: {error}"
        raise PluginError(kind, name, problem) from error
    if kind == "benchmark" and isfunction(loaded):
        loaded = loaded(name)
    return checked(kind, name, loaded, places)


def _place(point: EntryPoint) -> str:
    distribution = f"{point.dist.name} {point.dist.version}" if point.dist else "regrade"
    return f"'{point.value}' of {distribution}"

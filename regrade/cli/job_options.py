"""Options of a command from the fields of its job; they override the parameters in a YAML file."""

import os
import re
import types
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Union, get_args, get_origin

from cyclopts import Parameter
from pydantic import BaseModel, BeforeValidator, TypeAdapter, ValidationError
from pydantic.fields import FieldInfo

from regrade.cli.naming import NAMING
from regrade.cli.options import WHAT, WHERE, help_group
from regrade.jobs.job import BenchmarkChoice, EvaluationJob, harness_tasks
from regrade.settings import EngineName, Settings, registry
from regrade.settings.errors import SettingsError, of_setting
from regrade.settings.marks import NESTED, Option, parameters_of
from regrade.settings.paths import from_this_folder, schema_of
from regrade.settings.problems import models_in, one_line, shown
from regrade.settings.suites import members, shots_of
from regrade.settings.yaml_text import read_yaml

_LONG = 9
"""Choices beyond which an option takes any text: a command lists them, and the job refuses others."""
_SETTING = re.compile(r"(?<![\w`])'.*?'(?!\w)|`([a-z]\w*(?:\.\w+)*)(`|[ =][^`\n]*`)")
"""Matches a setting in a message, such as `engine.dtype`, also with a value: `engine.extra tokenizer_mode=hf`. A text in quotes, where
messages repeat what others wrote, is matched as a whole, so that nothing in it is taken for a setting."""


@dataclass(frozen=True, slots=True)
class JobOption:
    """A field of a job, or of a group in it, with its options."""

    path: tuple[str, ...]
    """Names of the field and of the groups that it is in."""
    names: tuple[str, ...]
    """The options, without which it can only be set in a file."""
    type: Any
    """Type of a value on the command line."""
    info: FieldInfo
    group: str | None
    """Title in the help."""
    switched_off: str | None = None
    """Option that switches it off."""
    hint: str = ""
    """Sentence that its help adds to the description."""
    more: str | None = None
    """Field that takes the second value and those after it."""

    @property
    def attribute(self) -> str:
        """Name of the value in `JobOptions`."""
        return "_".join(self.path)

    @property
    def setting(self) -> str:
        """Name of the setting, such as `sampling.temperature`."""
        return ".".join(self.path)

    @property
    def is_list(self) -> bool:
        """It takes several values."""
        return get_origin(self.type) is tuple

    @property
    def adds(self) -> bool:
        """Its values are added to those of a file."""
        return self.is_list and any(models_in(self.info.annotation))


@cache
def fields_of(job: type[Settings]) -> tuple[JobOption, ...]:
    """Return the fields of a job and of its groups, in the order of the help."""
    return tuple(_fields(job, (), "", job.option_group))


def options_of(
    job: type[Settings], without: Sequence[str] = (), taken: Sequence[str] = ()
) -> tuple[JobOption, ...]:
    """Return the fields of a job that have options; of several with the same option, the first has it.

    Args:
        job: The job.
        without: Parameters whose options a command leaves out.
        taken: Options with which a command means something else.
    """
    used = {*taken}
    chosen = []
    for option in fields_of(job):
        if option.path[0] not in without and option.names and not used & {*option.names}:
            used |= {*option.names}
            chosen.append(option)
    return tuple(chosen)


def _fields(
    model: type[Settings], path: tuple[str, ...], prefix: str, group: str | None
) -> Iterator[JobOption]:
    known = parameters_of(model)
    for name, info in known.items():
        mark = next((mark for mark in info.metadata if isinstance(mark, Option)), Option())
        if mark.more is not None and mark.more not in known:
            mark = replace(mark, more=None, hint="")
        here, title = (*path, name), mark.group or group
        groups = [] if mark.names is not None else list(models_in(info.annotation))
        if not groups and not _is_kind(info):
            names = (f"--{prefix}{_dashed(name)}",) if mark.names is None else mark.names
            kind = _type(info.annotation)
            kind = tuple[kind, ...] if mark.more else kind  # type: ignore[valid-type]
            off = f"--{prefix}no-{_dashed(name)}" if kind is bool and prefix.endswith(".") else None
            yield JobOption(here, names, kind, info, title, off, mark.hint, mark.more)
        elif groups and (not path or NESTED in info.metadata):
            if len(groups) > 1:
                names = (f"--{name}",)
                yield JobOption(
                    (*here, "kind"), names, EngineName, info, groups[0].option_group or title
                )
            for inner in groups:
                within = f"{prefix}{name}." if path else inner.option_prefix
                below = title if path else inner.option_group or title
                yield from _fields(inner, here, within, below)


def _dashed(name: str) -> str:
    return name.replace("_", "-")


def _is_kind(info: FieldInfo) -> bool:
    """Return True for the field that tells a choice of groups apart."""
    return get_origin(info.annotation) is Literal and len(get_args(info.annotation)) == 1


def _type(annotation: Any) -> Any:  # noqa: ANN401 - any type
    """Return the type of a value on the command line: text, unless it is a number, a switch, one of few words, or a list."""
    origin, inner = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _type(inner[0])
    if origin in (Union, types.UnionType):
        (first, *more) = [member for member in inner if member is not types.NoneType]
        return str if more else _type(first)
    if origin is tuple:
        return tuple[_type(inner[0]), ...]  # type: ignore[misc]
    if origin is Literal and len(inner) <= _LONG:
        return annotation
    return annotation if annotation in (bool, int, float) else str


@dataclass(frozen=True, kw_only=True)
class JobOptions:
    """Values of a command's options, and its YAML file: `class MyOptions(JobOptions, job=MyJob)` has the options of a job's fields."""

    job: ClassVar[type[Settings]]
    options: ClassVar[tuple[JobOption, ...]]
    config: Annotated[Path | None, Parameter(group=WHERE)] = None
    """YAML file with the flow's parameters; options override it."""

    def __init_subclass__(
        cls, *, job: type[Settings], without: Sequence[str] = (), taken: Sequence[str] = ()
    ) -> None:
        """Add the options of a command for the fields of its job.

        Args:
            job: The job.
            without: Parameters that the command gets otherwise, or not at all.
            taken: Options with which it means something else.
        """
        cls.job, cls.options = job, options_of(job, without, taken)
        made: dict[str, tuple[Any, object]] = {}
        for option in cls.options:
            parameter = Parameter(
                name=option.names,
                group=help_group(option.group) if option.group else None,
                help=f"{option.info.description or ''} {option.hint}".strip(),
                negative=option.switched_off or (),
                # A shell writes out a pattern of folders.
                consume_multiple=option.more is not None and len(option.path) == 1,
            )
            made[option.attribute] = Annotated[option.type | None, parameter], None
        if issubclass(job, BenchmarkChoice):
            suite = Parameter(
                name="--suite",
                group=help_group(job.option_group) if job.option_group else WHAT,
                help="Suite of benchmarks, as `regrade benchmarks` lists them. May be given several times.",
            )
            made["suite"] = Annotated[tuple[str, ...], suite], ()
        cls.__annotations__ = {name: annotated for name, (annotated, _) in made.items()}
        for name, (_, default) in made.items():
            setattr(cls, name, default)
        Parameter(name="*")(dataclass(frozen=True, kw_only=True)(cls))

    def parameters(self) -> dict[str, Any]:
        """Return the parameters of the flow: those in the file, overridden by options.

        Raises:
            SettingsError: If the file cannot be read, or an option does not fit the engine.
        """
        NAMING.set(self.named)
        chosen = {} if self.config is None else parameters_in_file(self.job, self.config)
        has_benchmarks = issubclass(self.job, BenchmarkChoice)
        suites = _suites(chosen, self.config) if has_benchmarks else ()
        if has_benchmarks and not issubclass(self.job, EvaluationJob):
            # A file may serve `evaluate` too.
            for name in EvaluationJob.model_fields.keys() - self.job.model_fields.keys() - {"gate"}:
                chosen.pop(name, None)
        _check_kinds(self.job, chosen, self.config)
        given = {option: getattr(self, option.attribute) for option in self.options}
        given = {option: value for option, value in given.items() if value not in (None, ())}
        kind = self._engine_kind(given, chosen)
        self._add(given, chosen)
        if kind is not None and "engine" in chosen:
            chosen["engine"] = {**chosen["engine"], "kind": kind}
        of_option = getattr(self, "suite", ())
        if suites := of_option or suites:
            with of_setting("`--suite`" if of_option else f"`suite` in '{self.config}'"):
                named = [*members(suites), *chosen.get("benchmarks", ())]
            chosen["benchmarks"] = tuple(dict.fromkeys(named))
            if (chosen.get("prompt") or {}).get("n_shots") is None:
                of_suites = [f"{name}={n}" for name, n in shots_of(suites).items()]
                chosen["shots"] = (*chosen.get("shots", ()), *of_suites)
        return chosen | harness_tasks(chosen)

    def has(self, parameter: str) -> bool:
        """Return True if an option for a parameter was given."""
        return getattr(self, parameter) not in (None, ())

    def named(self, message: str) -> str:
        """Return a message in which settings have the names under which they were given: options, or keys of the file."""
        known = parameters_of(self.job)

        def name(found: re.Match[str]) -> str:
            setting, end = found.groups()
            if setting is None:
                return found[0]
            file: dict[str, Any] = {}
            if self.config is not None:
                with suppress(SettingsError):  # which is what the message is about
                    file = read_config(self.config)
            places = setting.split(".")
            if places[0] not in known and len(places) > 1:  # the group that is this job
                places = places[1:]
            path = tuple(place for place in places if not place.isdecimal())
            if path[0] not in known:
                return found[0]
            value = f" {end[1:]}" if end.startswith("=") else end
            if self._is_of_file(places, path, file):
                return f"`{'.'.join(places)}{end} in '{self.config}'"
            for option in self.options:
                if option.path == path or (len(path) == 1 and option.names[0] == f"--{path[0]}"):
                    return f"`{option.names[0]}{value}"
            is_word = len(path) == 1 and known[path[0]].is_required()
            return _dashed(path[0]).upper() if is_word else found[0]  # is given without an option

        return _SETTING.sub(name, message)

    def _is_of_file(
        self, places: Sequence[str], path: tuple[str, ...], file: Mapping[str, Any]
    ) -> bool:
        """Return True if the file has a setting, or the group that lacks it, and no option replaces it."""
        given = [option for option in self.options if self.has(option.attribute)]
        in_group = any(option.path[0] == path[0] for option in given)
        if len(path) > 1 and get_origin(self.job.model_fields[path[0]].annotation) is tuple:
            if in_group and len(places) == len(path):  # the options are an element of their own
                return False
        elif any(option.path == path and not option.adds for option in given):
            return False
        if _at(file, places) is not None:
            return True
        return len(path) > 1 and _at(file, places[:-1]) is not None and not in_group

    def _engine_kind(self, given: Mapping[JobOption, Any], chosen: dict[str, Any]) -> str | None:
        """Return the engine that is chosen, or None if there is no choice; settings of another engine in a file are dropped."""
        info = self.job.model_fields.get("engine")
        kinds = (
            {}
            if info is None
            else {m.model_fields["kind"].default: m for m in models_in(info.annotation)}
        )
        if info is None or len(kinds) < 2:
            return None
        of_engine = {option.path[1]: option for option in given if option.path[0] == "engine"}
        file, default = chosen.get("engine") or {}, info.default.kind
        said = given[of_engine.pop("kind")] if "kind" in of_engine else None
        kind = str(said or file.get("kind") or default)
        with of_setting("`engine.kind`"):
            known = registry.load("engine", kind).model_fields
        if strange := [option for name, option in of_engine.items() if name not in known]:
            flags = ", ".join(f"`{option.names[-1]}`" for option in strange)
            other = next(
                k for k, model in kinds.items() if strange[0].path[1] in model.model_fields
            )
            if other != default:
                raise SettingsError(f"{flags} needs `--engine {other}`.")
            raise SettingsError(f"Engine '{kind}' does not take {flags}: set them on the server.")
        if file and file.get("kind", default) != kind:
            chosen["engine"] = {}
        return kind

    def _add(self, given: Mapping[JobOption, Any], chosen: dict[str, Any]) -> None:
        """Add the values of options to the parameters of a file."""
        elements: dict[str, dict[str, Any]] = {}
        for option, value in given.items():
            *groups, name = option.path
            target = chosen
            if groups and get_origin(self.job.model_fields[groups[0]].annotation) is tuple:
                target = elements.setdefault(groups[0], {})
            elif groups:
                target = chosen[groups[0]] = dict(chosen.get(groups[0]) or {})
            for group in groups[1:]:
                target = target.setdefault(group, {})
            if option.more is not None:
                target[name] = value[0]
                if len(value) > 1 or option.more in target:
                    target[option.more] = value[1:]
            elif option.adds and not groups:
                target[name] = [*(target.get(name) or ()), *value]
            else:
                target[name] = value
        for name, element in elements.items():
            chosen[name] = [*(chosen.get(name) or ()), element]


def _at(content: Any, places: Sequence[str]) -> Any:  # noqa: ANN401 - any YAML
    """Return the value at a place of a file, or None; without its number, of the first element of a list that has it."""
    if not places:
        return content
    if isinstance(content, Mapping):
        return _at(content.get(places[0]), places[1:])
    if not isinstance(content, list):
        return None
    numbered = places[0].isdecimal()
    some = content[int(places[0]) :][:1] if numbered else content
    found = (_at(element, places[numbered:]) for element in some)
    return next((value for value in found if value is not None), None)


def words_of(job: Settings, without: Collection[str] = ()) -> Iterator[str]:
    """Yield the options that set what was set of a job; what only a file can set is left out.

    Args:
        job: The job.
        without: Settings to leave out, such as `sampling.temperature`.
    """
    content = job.model_dump(mode="json", exclude_unset=True)
    for option in options_of(type(job)):
        value: Any = content
        for name in option.path:
            value = value.get(name) if isinstance(value, Mapping) else None
        values = value if isinstance(value, list) else [value]
        if option.setting in without or any(isinstance(value, list | Mapping) for value in values):
            continue
        for value in values:
            if isinstance(value, bool):
                yield from filter(None, [option.names[0] if value else option.switched_off])
            elif value is not None:
                yield from (option.names[0], str(value))


# Parameters of a flow in a YAML file, and what may be written in short there.


def read_config(path: Path) -> dict[str, Any]:
    """Return the parameters in a YAML file.

    Raises:
        SettingsError: If it cannot be read, or holds no parameters.
    """
    try:
        content = read_yaml(path.read_bytes())
    except OSError as error:
        raise SettingsError(f"Configuration '{path}' cannot be read: {error.strerror}.") from error
    except ValueError as error:
        raise SettingsError(f"Configuration '{path}' cannot be read as YAML: {error}.") from error
    if not isinstance(content, dict):
        raise SettingsError(
            f"Configuration '{path}' should be a mapping of parameters, such as `model: ...`."
        )
    return {name: value for name, value in content.items() if value is not None}


def parameters_in_file(job: type[BaseModel], file: Path) -> dict[str, Any]:
    """Return the parameters in a YAML file, whose paths that begin with `./` or `../` begin in the folder of the file.

    Raises:
        SettingsError: If it cannot be read, or holds no parameters.
    """

    def change(path: str) -> str:
        found = os.path.normpath(file.parent / path)
        return found if os.path.isabs(found) else f"./{found}"  # noqa: PTH117 - a text

    schema = schema_of(job)
    changed: dict[str, Any] = from_this_folder(
        read_config(file), schema, root=schema, change=change
    )
    return changed


def _check_kinds(job: type[BaseModel], chosen: dict[str, Any], file: Path | None) -> None:
    """Spell out what is written in short, and refuse a group or a list that is none.

    Raises:
        SettingsError: If there is one.
    """
    for name, info in parameters_of(job).items():
        is_list, is_group = get_origin(info.annotation) is tuple, any(models_in(info.annotation))
        if name not in chosen or not (is_list or is_group):
            continue
        value = chosen[name]
        if (
            isinstance(value, str)
            and is_list
            and any(isinstance(m, BeforeValidator) for m in info.metadata)
        ):
            value = [value]
        elif isinstance(value, str) and not is_list:
            value = _from_text(name, info, value)
        if not isinstance(value, list | tuple if is_list else Mapping):
            what = "a list" if is_list else "a group of settings"
            example = f", such as `{name}: {info.examples[0]}`" if info.examples else ""
            raise SettingsError(
                f"`{name}:` in '{file}' should be {what}{example}, not {shown(value)}."
            )
        chosen[name] = value


def _from_text(name: str, info: FieldInfo, text: str) -> object:
    """Return the group of settings that a text stands for; the text itself if it stands for none."""
    adapter = _adapter(info)
    try:
        return adapter.dump_python(adapter.validate_python(text), mode="json", exclude_unset=True)
    except ValidationError as error:
        if error.errors()[0]["type"] in ("model_type", "model_attributes_type"):
            return text
        raise SettingsError(f"`{name}`: {one_line(error)}") from error


def _adapter(info: FieldInfo) -> TypeAdapter[Any]:
    marked: Any = info.annotation
    return TypeAdapter(Annotated[(marked, *info.metadata)] if info.metadata else marked)


def _suites(chosen: dict[str, Any], file: Path | None) -> tuple[str, ...]:
    suites = chosen.pop("suite", [])
    if not isinstance(suites, str | list):
        raise SettingsError(
            f"`suite:` in '{file}' should be a list, such as `suite: [core]`, not {shown(suites)}."
        )
    return (suites,) if isinstance(suites, str) else tuple(suites)


def as_json(job: type[BaseModel], parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return parameters as the schema of a deployment has them: no words for groups, and no YAML's `on` and `off`.

    What a job refuses stays as it is, and is told of when a run is to start.
    """
    spelled = dict(parameters)
    for name, info in parameters_of(job).items():
        if name in parameters and any(models_in(info.annotation)):
            adapter = _adapter(info)
            with suppress(ValidationError):
                value = adapter.validate_python(parameters[name])
                spelled[name] = adapter.dump_python(value, mode="json", exclude_unset=True)
    return spelled

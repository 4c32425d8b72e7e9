"""Checks of a command's parameters before a server or an engine starts."""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from cyclopts.exceptions import (
    CycloptsError,
    MissingArgumentError,
    UnknownCommandError,
    UnknownOptionError,
    UnusedCliTokensError,
)
from pydantic import ValidationError

from regrade.jobs.job import EvaluationJob
from regrade.scorers import load_scorer
from regrade.settings import Settings, registry
from regrade.settings.errors import SettingsError, UnknownNameError, of_setting
from regrade.settings.marks import parameters_of
from regrade.settings.problems import one_line, sentence

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

    from regrade.cli.job_options import JobOptions

_Job = TypeVar("_Job", bound=Settings)


def job_of(kind: type[_Job], options: "JobOptions", **words: object) -> _Job:
    """Return the job of a command's options and of the words beside them; None and () were not given. Errors as in `checked_job`."""
    given = {name: value for name, value in words.items() if value not in (None, ())}
    return checked_job(kind, options.parameters() | given, options.config)


def checked_job(kind: type[_Job], parameters: Mapping[str, Any], file: Path | None = None) -> _Job:
    """Return the job of a flow's parameters.

    Args:
        kind: Job of the flow.
        parameters: Parameters from options and from the `--config` file.
        file: The `--config` file.

    Raises:
        SettingsError: If a parameter is unknown or its value is invalid.
    """
    not_here = set() if kind is EvaluationJob else {"gate"}
    check_names(parameters, parameters_of(kind).keys() - not_here, file)
    given = {name: value for name, value in parameters.items() if value is not None}
    try:
        job = kind.model_validate(given)
    except ValidationError as error:
        lacks = any(p["type"] == "missing" and len(p["loc"]) == 1 for p in error.errors())
        hint = " Parameters may also be in a `--config` file." if lacks else ""
        raise SettingsError(f"{sentence(one_line(error, kind))}{hint}") from error
    scorer = getattr(job, "scorer", None)
    if scorer not in (None, registry.ORIGINAL):
        with of_setting("`scorer`"):
            load_scorer(scorer)
    return job


def check_given(kind: type[Settings], parameters: Mapping[str, Any]) -> None:
    """Refuse parameters of a run on another machine that no deployment and no worker can take.

    What a deployment may add, a parameter that only another job has, and names that only the worker may have installed are
    left to the server and the worker.

    Raises:
        SettingsError: If a value is invalid.
    """

    def is_left(problem: "ErrorDetails") -> bool:
        place, context = problem["loc"], problem.get("ctx", {})
        if not place:  # of several parameters, of which the deployment may have others
            return True
        if len(place) == 1 and problem["type"] in ("missing", "extra_forbidden"):
            return True
        return isinstance(getattr(context.get("error"), "__cause__", None), UnknownNameError)

    try:
        kind.model_validate(parameters)
    except ValidationError as error:
        problems: list[Any] = [p for p in error.errors() if not is_left(p)]
        if problems:
            told = ValidationError.from_exception_data(error.title, problems)
            raise SettingsError(sentence(one_line(told, kind))) from error


def check_names(parameters: Iterable[str], known: Collection[str], file: Path | None) -> None:
    """Refuse a parameter that is not known.

    Raises:
        SettingsError: If there is one. The message names the closest known one.
    """
    for name in parameters:
        if name not in known:
            raise SettingsError(_unknown(name, sorted(known), file))


def _unknown(name: str, known: Sequence[str], file: Path | None) -> str:
    where = f" in '{file}'" if file is not None else ""
    if name == "gate":
        return (
            f"`gate:`{where} is for `regrade evaluate` and `trigger`, and for the deployment `evaluate-model`. Here, run `regrade "
            "gate` afterwards: its exit code is the verdict."
        )
    close = get_close_matches(name, known, n=1)
    hint = f" Did you mean '{close[0]}'?" if close else ""
    return f"Unknown parameter '{name}'{where}.{hint} Known: {', '.join(known)}."


# Errors in how a command is called, in one line that names the option.

_NO_NUMBER = re.compile(r'^Invalid value for (\S+): unable to convert "(.*)" into (int|float)\.')


def problem_of(error: CycloptsError, command: str) -> str:
    """Describe the mistake in the call of a command, and name its help."""
    error.verbose = False
    text = " ".join(str(error).split())
    if isinstance(error, UnknownCommandError):
        return f"{text} `regrade --help` lists them all."
    if isinstance(error, MissingArgumentError) and error.argument and not error.argument.tokens:
        name = error.argument.name
        if not error.argument.field_info.required:
            return f"`{name}` needs a value. See `regrade {command} --help`."
        has_place = error.argument.index is not None
        shown = name.lstrip("-").upper() if has_place else f"`{name}`"
        return f"{shown} is missing. See `regrade {command} --help`."
    if isinstance(error, UnusedCliTokensError):
        words = " ".join(error.unused_tokens or ())
        hint = f" Did you mean `--model {words}`?" if command == "score" else ""
        return f"`{words}` belongs to no option of `regrade {command}`.{hint} See `regrade {command} --help`."
    if isinstance(error, UnknownOptionError) and command == "judge":
        given = error.token.keyword or error.token.value
        if given.partition("=")[0] == "--model":
            return "`--model` is no option of `regrade judge`: `--judge` names the models that judge, and ANSWER_SET the answers."
    text = re.sub(r'^Command "[^"]*" parameter ', "", text)
    text = _NO_NUMBER.sub(_number_expected, text)
    return f"{text} See `regrade {command} --help`."


def _number_expected(found: re.Match[str]) -> str:
    kind = "a whole number" if found[3] == "int" else "a number"
    return f"`{found[1]} {found[2]}` should be {kind}."

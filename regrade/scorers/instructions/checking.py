"""Check the instructions of a request against an answer, with the checkers of `if-verifiable`."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from typing import Any

_MISSING = "an argument is missing, which the checker would draw at random"
_LANGUAGES_SEED = 0
"""Seed of langdetect, which is random without one; 0 is the seed in its documentation."""


class _DrawnError(ValueError):
    """The request lacks an argument, which the checker would draw at random."""


class _Drawn:
    """Stands for a value that a checker would draw at random, until the request's own argument takes its place."""

    is_lowered = False

    def lower(self) -> "_Drawn":
        """Return itself; the value is made small later."""
        self.is_lowered = True
        return self

    def with_value(self, value: Any) -> Any:  # noqa: ANN401 - any argument
        """Return the request's own argument, treated as the drawn value was."""
        return value.lower() if self.is_lowered else value

    def __add__(self, other: object) -> "_Drawn":
        return self

    __radd__ = __add__


class _Draws:
    """Stands in for the module `random` in the checkers, because equal answers must get equal scores.

    Some checkers draw although the request has the argument, such as the letter `#` or the index 0.
    """

    def __init__(self) -> None:
        self.allowed = False
        self.used = ""
        """Function that a checker has called."""

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - any function of the module
        if not self.allowed:
            raise _DrawnError(f"the checker draws by `random.{name}`")
        self.used = name
        return lambda *_, **__: _Drawn()


_DRAWS = _Draws()


def check(task: Mapping[str, Any]) -> dict[str, Any]:
    """Return which instructions an answer follows.

    Args:
        task: `benchmark` (`ifeval` or `ifbench`), `data` (folders of NLTK's data), `prompt`, `instructions` (each with `id`
            and `kwargs`), and `answer`.

    Returns:
        `strict` and `loose`: for each instruction, True if the answer follows it as it stands, or in one of the 8 forms
        of the paper (without first line, last line, asterisks). `problems`: errors of checkers, whose instructions count as
        not followed. Instead of these `unusable`, if an instruction cannot be checked at all.
    """
    checkers, forms = _library(task["benchmark"], tuple(task["data"]))
    answer = task["answer"]
    strict, loose, problems = [], [], []
    for instruction in task["instructions"]:
        try:
            checker = _built(checkers, instruction, task["prompt"])
        except (ValueError, TypeError, KeyError) as error:
            reason = f"{type(error).__name__}: {error}"
            return {"unusable": f"instruction '{instruction['id']}': {reason}"}
        followed, problem = _followed(checker, answer)
        strict.append(followed)
        if not followed:
            followed = any(_followed(checker, form)[0] for form in forms(answer))
        loose.append(followed)
        if problem:
            problems.append(f"instruction '{instruction['id']}': {problem}")
    return {"strict": strict, "loose": loose, "problems": problems}


def _built(checkers: Mapping[str, Any], instruction: Mapping[str, Any], prompt: str) -> Any:  # noqa: ANN401 - untyped
    name = instruction["id"]
    if name not in checkers:
        raise ValueError("it is not known to the installed version of if-verifiable")
    checker = checkers[name](name)
    given = dict(instruction["kwargs"])
    _DRAWS.allowed, _DRAWS.used = True, ""
    try:
        checker.build_description(**given)
        if "prompt" in (checker.get_instruction_args() or {}):
            given = {"prompt": prompt}
            checker.build_description(**given)
    except (TypeError, AttributeError) as error:
        if _DRAWS.used:
            raise _DrawnError(_MISSING) from error
        raise
    finally:
        _DRAWS.allowed = False
    _give(checker, given)
    return checker


def _give(checker: Any, given: Mapping[str, Any]) -> None:  # noqa: ANN401 - untyped
    """Put the given arguments in the place of those that the checker has drawn in spite of them."""
    arguments = checker.get_instruction_args() or {}
    for attribute, value in list(vars(checker).items()):
        if isinstance(value, _Drawn):
            [name] = [name for name, argument in arguments.items() if argument is value] or [""]
            if given.get(name) is None:
                raise _DrawnError(_MISSING)
            setattr(checker, attribute, value.with_value(given[name]))


def _followed(checker: Any, answer: str) -> tuple[bool, str]:  # noqa: ANN401 - untyped
    """Return True if an answer follows an instruction, and the error of the checker or ""."""
    if not answer.strip():
        return False, ""
    try:
        return bool(checker.check_following(answer)), ""
    except Exception as error:  # noqa: BLE001 - checkers fail in any way on unusual answers
        return False, f"{type(error).__name__}: {error}"


@cache
def _library(benchmark: str, data: tuple[str, ...]) -> tuple[Mapping[str, Any], Any]:
    """Return the checkers of a benchmark by name, and the function that makes the forms of an answer.

    Args:
        benchmark: `ifeval` or `ifbench`.
        data: Folders in which NLTK looks for its data.
    """
    import nltk  # noqa: PLC0415 - an extra
    from if_verifiable.common import get_loose_transformations  # noqa: PLC0415 - imports `datasets`
    from langdetect import DetectorFactory  # noqa: PLC0415 - an extra

    nltk.data.path[:] = data
    with _without_downloads():
        registry = import_module(f"if_verifiable.{benchmark}.instructions_registry")
        for name in ("instructions", "instructions_util"):
            module = import_module(f"if_verifiable.{benchmark}.{name}")
            module.random = _DRAWS  # type: ignore[attr-defined]  # an import of the module
    DetectorFactory.seed = _LANGUAGES_SEED
    return registry.INSTRUCTION_DICT, get_loose_transformations


@contextmanager
def _without_downloads() -> Iterator[None]:
    """Keep modules from downloading NLTK's data at their import; `resources` has checked that it exists."""
    import nltk  # noqa: PLC0415 - an extra

    download = nltk.download
    nltk.download = lambda *_, **__: False
    try:
        yield
    finally:
        nltk.download = download

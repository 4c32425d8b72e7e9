"""Task of a programming question: what the column `doc` of its answers holds, checked."""

import json
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Annotated, Any, Literal, Self

from pydantic import ConfigDict, Field, ValidationError, model_validator

from regrade.processes.sandbox.running import Suite
from regrade.settings import Settings
from regrade.settings.errors import SettingsError

COMPETITION_MODULES = [
    "string",
    "re",
    "datetime",
    "collections",
    "heapq",
    "bisect",
    "copy",
    "math",
    "random",
    "statistics",
    "itertools",
    "functools",
    "operator",
    "io",
    "sys",
    "json",
    "builtins",
    "typing",
]
"""Modules that LiveCodeBench imports for a program, with all their names."""


class TestSource(Settings):
    """Tests in Python."""

    __test__ = False  # for pytest
    name: Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]*$")] = "tests"
    """Name of their share of passed programs, such as `base`."""
    source: str = Field(min_length=1)


class Case(Settings):
    """An input and the output that is expected for it."""

    input: Any = None
    """Text for standard input, or the list of a call's arguments."""
    output: Any = None
    """Text for standard output, or the value of the call."""


class Task(Settings):
    """Tests of a question, and the code that belongs before an answer's program."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    function: str | None = Field(None, pattern=r"^[A-Za-z_]\w*(\.[A-Za-z_]\w*)?$")
    """Function that is tested, or `Class.method`; None for a program that reads standard input, or if the tests say it."""
    prompt: str = ""
    """Beginning of a program, which an answer may continue."""
    before: str = ""
    """Code before the program, such as the imports of the prompt."""
    imports: Literal["", "competition"] = ""
    """Names that are imported before the program."""
    tests: tuple[TestSource, ...] = ()
    """Tests in Python, each group with its own result; the score is that of all."""
    has_check: bool = False
    """True if the tests are a function `check(candidate)`."""
    cases: tuple[Case, ...] = ()
    """Inputs and outputs, compared outside of the sandbox."""
    deep: bool = True
    """Count tuples within a result as lists."""
    question: str | None = None
    """Identifies the question to the benchmark, which reads the cases when they are scored (`HiddenCases`)."""

    @model_validator(mode="after")
    def _has_tests(self) -> Self:
        kinds = [bool(self.tests), bool(self.cases), self.question is not None]
        if sum(kinds) != 1:
            raise ValueError(
                "expected either tests, or cases, or a question whose cases are read later"
            )
        if self.has_check and (self.function is None or not self.tests):
            raise ValueError(
                "tests with a function `check` need the name of the function that is checked"
            )
        return self

    @property
    def defined(self) -> str | None:
        """Name that a program must define at its top level, or None."""
        return self.function and self.function.partition(".")[0]

    @property
    def suites(self) -> tuple[Suite, ...]:
        """Tests as the sandbox runs them."""
        entry_point = self.function if self.has_check else None
        return tuple(Suite(test.source, entry_point) for test in self.tests)


CasesOf = Callable[[str], Task]
"""Returns a question's task with its cases, by the question's name."""


def read_task(sample: str, doc: str | None) -> Task:
    """Return the task in the column `doc`.

    Raises:
        SettingsError: If there is none, or it is not a task; names the sample.
    """
    if doc is None:
        raise SettingsError(
            f"Scorer 'code' runs the tests of a question, but sample '{sample}' has none stored with its answers. Answers "
            "to `humaneval_plus`, `mbpp_plus` and `livecodebench` have them, and those to a dataset with tests or cases."
        )
    try:
        return _task(doc)
    except ValidationError as error:
        [problem, *_] = error.errors()
        place = ".".join(map(str, problem["loc"]))
        raise SettingsError(
            f"Scorer 'code' cannot use the tests of sample '{sample}': {place}: {problem['msg']}."
        ) from error


@lru_cache(maxsize=8)
def _task(doc: str) -> Task:
    return Task.model_validate_json(doc)


def sources(task: Task, program: str) -> list[str]:
    """Return the parts of the program to run: what belongs before it, and the answer's program.

    An answer that does not define the function continues the prompt.
    """
    if task.prompt and task.defined and not _is_whole(task, program):
        return [*_imports(task), f"{task.prompt}{program}"]
    return [*_imports(task), *([task.before] if task.before else []), program]


def _is_whole(task: Task, program: str) -> bool:
    from regrade.scorers.programs.reading import defines  # noqa: PLC0415

    return task.defined is not None and defines(program, task.defined)


def _imports(task: Task) -> Sequence[str]:
    if task.imports != "competition":
        return ()
    stars = "\n".join(f"from {name} import *" for name in COMPETITION_MODULES)
    return (f"{stars}\nimport {', '.join(COMPETITION_MODULES)}\nsys.setrecursionlimit(50000)\n",)


def doc_of(**task: object) -> Mapping[str, Any]:
    """Return a task as a benchmark stores it in `Sample.doc`, without the defaults.

    Raises:
        ValidationError: If it is not a task.
    """
    checked = Task.model_validate_json(json.dumps(task))
    stored: Mapping[str, Any] = checked.model_dump(mode="json", exclude_defaults=True)
    return stored

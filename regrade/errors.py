"""Everything regrade raises on purpose.

RegradeError
├── UserError                    what was asked for cannot be done as asked: change the input (exit code 2)
│   ├── SettingsError            settings that contradict each other or the model
│   │   ├── UnknownNameError     a benchmark, scorer or engine that does not exist
│   │   └── PluginError          a benchmark, scorer or engine that is installed and cannot be used
│   ├── ModelError               the model cannot be found or is not a whole model
│   ├── SourceError              a benchmark's data cannot be read or lacks what is needed
│   ├── RepositoryError          the answer repository cannot be used as asked (not one, no access, not there)
│   └── NotInstalledError        an optional part is not installed
└── OperationError               something outside failed while doing it (exit code 1)
    ├── EngineError              the engine did not start, or ended before its work
    ├── HubError                 the Hub or the folder refused or failed; `retryable` says which
    │   └── HeadMovedError       someone else committed in between: read the head and derive again
    ├── DamagedAnswersError      stored answers do not match their own manifest
    └── TrackingError            MLflow did not take what was logged

Each takes plain positional arguments and keeps them in `args`, because Prefect moves exceptions between
processes by pickling them.
"""

from collections.abc import Sequence
from difflib import get_close_matches

COULD_NOT_RUN = 3
"""Exit code of `regrade gate` and `regrade trigger` without a verdict; higher codes say why."""


class RegradeError(Exception):
    """Base of all errors that regrade raises on purpose."""


class UserError(RegradeError):
    """What was asked for cannot be done as asked."""


class OperationError(RegradeError):
    """Something outside of regrade failed."""


class SettingsError(UserError):
    """Settings that contradict each other or what the model allows."""


class UnknownNameError(SettingsError):
    """A name that is not among the known ones."""

    def __init__(self, kind: str, name: str, known: Sequence[str]) -> None:
        self.kind, self.name, self.known = kind, name, tuple(known)
        super().__init__(kind, name, self.known)

    def __str__(self) -> str:
        close = get_close_matches(self.name, self.known, n=1)
        hint = f" Did you mean '{close[0]}'?" if close else ""
        return f"Unknown {self.kind} '{self.name}'.{hint} Known: {', '.join(sorted(self.known))}."


class PluginError(SettingsError):
    """A benchmark, scorer or engine that is installed and cannot be used."""

    def __init__(self, kind: str, name: str, problem: str) -> None:
        self.kind, self.name, self.problem = kind, name, problem
        super().__init__(kind, name, problem)

    def __str__(self) -> str:
        return f"{self.kind.capitalize()} '{self.name}' cannot be used: {self.problem}."


class ModelError(UserError):
    """The model cannot be found, or is not a whole model."""

    def __init__(self, model: str, problem: str) -> None:
        self.model, self.problem = model, problem
        super().__init__(model, problem)

    def __str__(self) -> str:
        return f"Model '{self.model}': {self.problem}"


class SourceError(UserError):
    """The data of a benchmark cannot be read, or lacks what the benchmark needs."""

    def __init__(self, benchmark: str, source: str, problem: str) -> None:
        self.benchmark, self.source, self.problem = benchmark, source, problem
        super().__init__(benchmark, source, problem)

    def __str__(self) -> str:
        return f"Benchmark '{self.benchmark}', source '{self.source}': {self.problem}"


class RepositoryError(UserError):
    """The answer repository cannot be used as asked."""

    def __init__(self, uri: str, problem: str) -> None:
        self.uri, self.problem = uri, problem
        super().__init__(uri, problem)

    def __str__(self) -> str:
        return f"Answer repository '{self.uri}': {self.problem}"


class NotInstalledError(UserError):
    """An optional part of regrade is not installed."""

    def __init__(self, part: str, command: str) -> None:
        self.part, self.command = part, command
        super().__init__(part, command)

    def __str__(self) -> str:
        return f"{self.part} is not installed here. Install it with `{self.command}`."


class EngineError(OperationError):
    """The engine did not start, or ended before its work was done.

    `log` is the file that holds the engine's own output, or "" where there is none. `fresh_helps` is true where a
    fresh engine may well finish the work: this one was loaded and had answered.
    """

    def __init__(self, problem: str, log: str = "", fresh_helps: bool = False) -> None:
        self.problem, self.log, self.fresh_helps = problem, log, fresh_helps
        super().__init__(problem, log, fresh_helps)

    def __str__(self) -> str:
        return (
            f"{self.problem} The engine's own output is in '{self.log}'."
            if self.log
            else self.problem
        )


class HubError(OperationError):
    """The Hub, or the folder of an answer repository, failed.

    `retryable` is true where the same call may succeed later (429, 5xx, timeouts, a moved head).
    """

    def __init__(self, uri: str, operation: str, problem: str, retryable: bool) -> None:
        self.uri, self.operation, self.problem, self.retryable = uri, operation, problem, retryable
        super().__init__(uri, operation, problem, retryable)

    def __str__(self) -> str:
        return f"'{self.uri}', while {self.operation}: {self.problem}"


class HeadMovedError(HubError):
    """Someone else committed between reading the head and committing on top of it."""

    def __init__(self, uri: str, operation: str, problem: str, retryable: bool = True) -> None:
        super().__init__(uri, operation, problem, retryable)


class DamagedAnswersError(OperationError):
    """Stored answers do not match their manifest."""

    def __init__(self, path: str, problem: str) -> None:
        self.path, self.problem = path, problem
        super().__init__(path, problem)

    def __str__(self) -> str:
        return f"'{self.path}' is damaged: {self.problem}"


class TrackingError(OperationError):
    """MLflow did not take what was logged."""

    def __init__(self, uri: str, problem: str) -> None:
        self.uri, self.problem = uri, problem
        super().__init__(uri, problem)

    def __str__(self) -> str:
        return f"MLflow at '{self.uri}': {self.problem}"

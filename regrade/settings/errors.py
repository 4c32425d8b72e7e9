"""Exceptions of regrade.

RegradeError
├── UserError                    invalid input: the user has to change it (exit code 2)
│   ├── SettingsError            settings contradict each other or the model
│   │   ├── UnknownNameError     no benchmark, scorer or engine has this name
│   │   ├── PluginError          an installed benchmark, scorer or engine cannot be used
│   │   └── SandboxError         the sandbox for untrusted programs cannot be set up here
│   ├── ModelError               the model is missing or incomplete
│   ├── SourceError              a benchmark's data cannot be read, or lacks a column or value
│   ├── RepositoryError          the answer repository is missing, not accessible, or no answer repository
│   │   └── IncompleteError      a model has no complete answers to what is asked for
│   └── NotInstalledError        an optional part is not installed
└── OperationError               something outside regrade failed (exit code 1)
    ├── EngineError              the engine did not start, or ended before its work was done
    ├── HubError                 the Hub, or the folder of a repository, failed; `retryable` if it may recover
    │   └── HeadMovedError       commit conflict: another commit came first
    ├── DamagedAnswersError      stored answers do not match their manifest
    └── TrackingError            MLflow rejected a request or was not reachable

Each takes plain positional arguments and keeps them in `args`, because Prefect pickles exceptions to send them
between processes.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from difflib import get_close_matches

COULD_NOT_RUN = 3
"""Exit code of `regrade gate` and `regrade trigger` without a verdict; the docs list the higher codes."""


class RegradeError(Exception):
    """Base of all exceptions of regrade."""


class UserError(RegradeError):
    """Invalid input, which the user has to change."""


class OperationError(RegradeError):
    """Failure of something outside regrade, such as the engine or the Hub."""


class SettingsError(UserError):
    """Settings contradict each other, or the model does not support them."""


_OWN = {
    "scorer": " Or a function in a file: `path/to/file.py:name`.",
    "benchmark": " Or a dataset of your own, given with its description (docs/add-a-benchmark.md).",
}
"""Ends of messages about an unknown name, by kind: further names that are taken."""


class UnknownNameError(SettingsError):
    """No benchmark, scorer or engine has this name."""

    def __init__(self, kind: str, name: str, known: Sequence[str]) -> None:
        self.kind, self.name, self.known = kind, name, tuple(known)
        super().__init__(kind, name, self.known)

    def __str__(self) -> str:
        close = get_close_matches(self.name, self.known, n=1)
        hint = f" Did you mean '{close[0]}'?" if close else ""
        own = _OWN.get(self.kind, "")
        return (
            f"Unknown {self.kind} '{self.name}'.{hint} Known: {', '.join(sorted(self.known))}.{own}"
        )


@contextmanager
def of_setting(setting: str) -> Iterator[None]:
    """Begin the message of a value that the block refuses with the setting, as messages name it: "`engine.dtype`"."""
    try:
        yield
    except SettingsError as error:
        raise SettingsError(f"{setting}: {error}") from error


class PluginError(SettingsError):
    """An installed benchmark, scorer or engine cannot be used."""

    def __init__(self, kind: str, name: str, problem: str) -> None:
        self.kind, self.name, self.problem = kind, name, problem
        super().__init__(kind, name, problem)

    def __str__(self) -> str:
        return f"{self.kind.capitalize()} '{self.name}' cannot be used: {self.problem}."


class SandboxError(SettingsError):
    """The sandbox for untrusted programs cannot be set up on this machine, or failed."""


class ModelError(UserError):
    """The model is missing or incomplete."""

    def __init__(self, model: str, problem: str) -> None:
        self.model, self.problem = model, problem
        super().__init__(model, problem)

    def __str__(self) -> str:
        return f"Model '{self.model}': {self.problem}"


class AdapterError(ModelError):
    """The LoRA adapter is missing, incomplete, or of a kind that vLLM does not apply."""

    def __str__(self) -> str:
        return f"Adapter '{self.model}': {self.problem}"


class SourceError(UserError):
    """The data of a benchmark cannot be read, or lacks a required column or value."""

    def __init__(self, benchmark: str, source: str, problem: str) -> None:
        self.benchmark, self.source, self.problem = benchmark, source, problem
        super().__init__(benchmark, source, problem)

    def __str__(self) -> str:
        return f"Benchmark '{self.benchmark}', source '{self.source}': {self.problem}"


class RepositoryError(UserError):
    """The answer repository is missing, not accessible, or no answer repository."""

    def __init__(self, uri: str, problem: str) -> None:
        self.uri, self.problem = uri, problem
        super().__init__(uri, problem)

    def __str__(self) -> str:
        return f"Answer repository '{self.uri}': {self.problem}"


class IncompleteError(RepositoryError):
    """A model has answers, and no complete ones to what is asked for."""


class NotInstalledError(UserError):
    """An optional part of regrade is not installed."""

    def __init__(self, part: str, command: str) -> None:
        self.part, self.command = part, command
        super().__init__(part, command)

    def __str__(self) -> str:
        return f"{self.part} is not installed here. Install it with `{self.command}`."


class EngineError(OperationError):
    """The engine did not start, or ended before its work was done.

    `log` is the file with the engine's output, or "". `fresh_helps` is true if a new engine may finish the work,
    because this engine had loaded and answered before it failed.
    """

    def __init__(self, problem: str, log: str = "", fresh_helps: bool = False) -> None:
        self.problem, self.log, self.fresh_helps = problem, log, fresh_helps
        super().__init__(problem, log, fresh_helps)

    def __str__(self) -> str:
        return (
            f"{self.problem} The engine's output is in '{self.log}'." if self.log else self.problem
        )


class HubError(OperationError):
    """The Hub, or the folder of an answer repository, failed.

    `retryable` is true if the same call may succeed later (status 429 or 5xx, timeout, commit conflict).
    """

    def __init__(self, uri: str, operation: str, problem: str, retryable: bool) -> None:
        self.uri, self.operation, self.problem, self.retryable = uri, operation, problem, retryable
        super().__init__(uri, operation, problem, retryable)

    def __str__(self) -> str:
        return f"'{self.uri}', while {self.operation}: {self.problem}"


class HeadMovedError(HubError):
    """Commit conflict: another commit came between reading the head and committing on top of it."""

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
    """MLflow rejected a request or was not reachable."""

    def __init__(self, uri: str, problem: str) -> None:
        self.uri, self.problem = uri, problem
        super().__init__(uri, problem)

    def __str__(self) -> str:
        return f"MLflow at '{self.uri}': {self.problem}"


def may_pass(error: object) -> bool:
    """Return True for a temporary error of the Hub or an error of MLflow: the same call may succeed later."""
    return (isinstance(error, HubError) and error.retryable) or isinstance(error, TrackingError)

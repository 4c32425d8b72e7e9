"""Cases that are not stored with the answers, because they are too large: the benchmark reads them again."""

from functools import lru_cache
from typing import Protocol, runtime_checkable

from regrade.records.specification import BenchmarkIdentity
from regrade.scorers.programs.task import CasesOf, Task
from regrade.scorers.sessions import ScoringContext
from regrade.settings import registry
from regrade.settings.errors import SettingsError

_TASKS_KEPT = 16
"""Tasks with their cases that are kept: answers to the same question follow each other."""


@runtime_checkable
class HiddenCases(Protocol):
    """Benchmark that reads the cases of its questions when they are scored."""

    @classmethod
    def cases_of(cls, identity: BenchmarkIdentity, path: str | None) -> CasesOf:
        """Return the function that gives the task of a question, with its cases.

        Args:
            identity: Identity of the questions: the cases come from the same revision.
            path: File or folder with the questions, if they did not come from the Hub.

        Raises:
            SourceError: If the source is missing, or holds other questions.
        """


def hidden_cases(context: ScoringContext) -> CasesOf:
    """Return the function that gives the task of a question whose cases are not stored with the answers."""
    opened: list[CasesOf] = []

    @lru_cache(maxsize=_TASKS_KEPT)
    def cases(question: str) -> Task:
        if not opened:
            opened.append(_opened(context))
        return opened[0](question)

    return cases


def _opened(context: ScoringContext) -> CasesOf:
    identity = context.specification.benchmark
    benchmark = registry.load("benchmark", identity.name)
    if not isinstance(benchmark, HiddenCases):
        raise SettingsError(
            f"The tests of benchmark '{identity.name}' are not stored with its answers, and the benchmark that is "
            "installed under this name does not have them."
        )
    paths = [source.path for source in context.options.sources if source.benchmark == identity.name]
    return benchmark.cases_of(identity, paths[0] if paths else None)

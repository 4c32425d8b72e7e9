"""Benchmarks, one a file: source, prompt, default scorer, version, paper. Any dataset can be one as well."""

from typing import TYPE_CHECKING

from regrade import registry
from regrade.benchmarks.base import Benchmark, BenchmarkCard
from regrade.errors import SettingsError
from regrade.settings import DatasetBenchmark, PromptSettings

if TYPE_CHECKING:
    from regrade.benchmarks.questions.standard import PublishedBenchmark

AS_SET = PromptSettings()


def open_benchmark(
    name: str,
    *,
    prompt: PromptSettings = AS_SET,
    limit: int | None = None,
    source: str | None = None,
) -> Benchmark:
    """Open a benchmark by its name. Nothing is read before it is needed.

    Args:
        name: Name of an installed benchmark, such as `gsm8k`.
        prompt: Changes to how questions become prompts.
        limit: Number of questions, spread evenly over the split; None: all.
        source: File with the questions, or folder with a file for each split, to read instead of the Hub.

    Raises:
        UnknownNameError: If no benchmark of that name is installed.
        PluginError: If it is installed and cannot be used.
        SettingsError: If the limit is below 1.
        SourceError: If `source` does not exist.
    """
    return _load(name)(prompt=prompt, limit=limit, source=source)


def open_dataset(
    settings: DatasetBenchmark, *, prompt: PromptSettings = AS_SET, limit: int | None = None
) -> Benchmark:
    """Open any dataset as a benchmark. Nothing is read before it is needed.

    Args:
        settings: Source of the questions, how they are asked and how they are graded.
        prompt: Changes to how questions become prompts; they win over `settings`.
        limit: Number of questions, spread evenly over the split; None: all.

    Raises:
        SettingsError: If settings contradict each other, a template is not valid, or the name is taken.
        SourceError: If a file does not exist.
    """
    if settings.name in registry.names("benchmark"):
        raise SettingsError(
            f"'{settings.name}' is the name of a benchmark that regrade has. Choose another name for the dataset."
        )
    from regrade.benchmarks.questions.dataset import (  # noqa: PLC0415 - Jinja is slow to import
        DatasetQuestions,
    )

    return DatasetQuestions(settings, prompt=prompt, limit=limit)


def benchmark_cards() -> tuple[BenchmarkCard, ...]:
    """Return the cards of all installed benchmarks that can be used; `registry.broken` names the others."""
    broken = {error.name for error in registry.broken("benchmark")}
    return tuple(_load(name).card() for name in registry.names("benchmark") if name not in broken)


def _load(name: str) -> "type[PublishedBenchmark]":
    benchmark: type[PublishedBenchmark] = registry.load("benchmark", name)
    return benchmark

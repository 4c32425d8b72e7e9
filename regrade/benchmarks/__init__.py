"""Benchmarks: a module for each, with its source, prompt, scorers, version and paper."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from regrade.benchmarks.base import Benchmark, BenchmarkCard
from regrade.settings import HARNESS, DatasetBenchmark, PromptSettings, registry
from regrade.settings.errors import SettingsError

if TYPE_CHECKING:
    from regrade.benchmarks.questions.standard import PublishedBenchmark

NO_CHANGES = PromptSettings()


def open_benchmark(
    name: str,
    *,
    prompt: PromptSettings = NO_CHANGES,
    limit: int | None = None,
    source: str | None = None,
) -> Benchmark:
    """Open a benchmark by its name. The data is read later, when it is needed.

    Args:
        name: Name of an installed benchmark, such as `gsm8k`.
        prompt: Changes to the benchmark's prompts.
        limit: Number of questions, spread evenly over the split; None: all.
        source: File with the questions, or folder with a file per split, to read instead of the Hub.

    Raises:
        UnknownNameError: If no benchmark of this name is installed.
        PluginError: If the benchmark is installed but cannot be used.
        SettingsError: If the limit is below 1.
        SourceError: If `source` does not exist.
    """
    if name.startswith(HARNESS):
        return open_harness_task(name, prompt=prompt, limit=limit, source=source)
    return _load(name)(prompt=prompt, limit=limit, source=source)


def open_dataset(
    settings: DatasetBenchmark, *, prompt: PromptSettings = NO_CHANGES, limit: int | None = None
) -> Benchmark:
    """Open any dataset as a benchmark. The data is read later, when it is needed.

    Args:
        settings: Source, prompt and scorer of the questions.
        prompt: Changes to the prompts; they take precedence over `settings`.
        limit: Number of questions, spread evenly over the split; None: all.

    Raises:
        SettingsError: If settings contradict each other, a template is not valid, or the name is taken.
        SourceError: If a file does not exist.
    """
    if registry.is_known("benchmark", settings.name):
        raise SettingsError(
            f"The name '{settings.name}' belongs to an installed benchmark. Choose another name for the dataset."
        )
    from regrade.benchmarks.questions.dataset import DatasetQuestions  # noqa: PLC0415 - Jinja is slow to import

    return DatasetQuestions(settings, prompt=prompt, limit=limit)


def open_harness_task(
    name: str,
    *,
    prompt: PromptSettings = NO_CHANGES,
    limit: int | None = None,
    source: str | None = None,
    path: str | None = None,
    arguments: Mapping[str, Any] | None = None,
) -> Benchmark:
    """Open a task, group or tag of lm-evaluation-harness as a benchmark. The data is read later, when it is needed.

    Args:
        name: `lm_eval:` and the name of the task, such as `lm_eval:arc_challenge`.
        prompt: Changes to the prompts.
        limit: Number of questions, spread evenly over all tasks; None: all.
        source: Folder to read instead of the datasets.
        path: Folder with yaml files of the user.
        arguments: Arguments of a function that makes the questions.

    Raises:
        NotInstalledError: If lm_eval is not installed.
        SettingsError: If there is no such task, it cannot be run, or the limit is below 1.
        SourceError: If a folder does not exist.
    """
    from regrade.benchmarks.questions.harness import HarnessBenchmark  # noqa: PLC0415 - yaml and numpy are slow to import

    return HarnessBenchmark(
        name, prompt=prompt, limit=limit, source=source, path=path, arguments=arguments
    )


def benchmark_cards() -> tuple[BenchmarkCard, ...]:
    """Cards of all installed benchmarks, except those that `registry.broken` lists."""
    broken = {error.name for error in registry.broken("benchmark")}
    return tuple(_load(name).card() for name in registry.names("benchmark") if name not in broken)


def _load(name: str) -> "type[PublishedBenchmark]":
    benchmark: type[PublishedBenchmark] = registry.load("benchmark", name)
    return benchmark

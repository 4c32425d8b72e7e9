"""Benchmarks: a module for each, with its source, prompt, scorers, version and paper."""

from typing import TYPE_CHECKING

from regrade.benchmarks.base import Benchmark, BenchmarkCard
from regrade.settings import HARNESS, DatasetBenchmark, HarnessTasks, PromptSettings, registry
from regrade.settings.errors import SettingsError

if TYPE_CHECKING:
    from regrade.benchmarks.questions.standard import PublishedBenchmark

NO_CHANGES = PromptSettings()
NO_TASKS = HarnessTasks()


def open_benchmark(
    name: str,
    *,
    prompt: PromptSettings = NO_CHANGES,
    limit: int | None = None,
    source: str | None = None,
    tasks: HarnessTasks = NO_TASKS,
) -> Benchmark:
    """Open a benchmark by its name. The data is read later, when it is needed.

    Args:
        name: Name of an installed benchmark, such as `gsm8k`, or `lm_eval:` and the name of a task, group or tag of
            lm-evaluation-harness, such as `lm_eval:arc_challenge`.
        prompt: Changes to the benchmark's prompts.
        limit: Number of questions, spread evenly over the split, or over all tasks; None: all.
        source: File with the questions, or folder with a file per split, to read instead of the Hub; of a task the folder.
        tasks: Files of the user and arguments for a task.

    Raises:
        UnknownNameError: If no benchmark of this name is installed.
        PluginError: If the benchmark is installed but cannot be used.
        NotInstalledError: If it is a task, and lm_eval is not installed.
        SettingsError: If the limit is below 1, or there is no such task, or it cannot be run.
        SourceError: If `source` does not exist.
    """
    if not name.startswith(HARNESS):
        return _load(name)(prompt=prompt, limit=limit, source=source)
    from regrade.benchmarks.questions.harness import HarnessBenchmark  # noqa: PLC0415 - yaml and numpy are slow to import

    return HarnessBenchmark(name, prompt=prompt, limit=limit, source=source, tasks=tasks)


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


def benchmark_cards() -> tuple[BenchmarkCard, ...]:
    """Cards of all installed benchmarks, except those that `registry.broken` lists."""
    broken = {error.name for error in registry.broken("benchmark")}
    return tuple(_load(name).card() for name in registry.names("benchmark") if name not in broken)


def _load(name: str) -> "type[PublishedBenchmark]":
    benchmark: type[PublishedBenchmark] = registry.load("benchmark", name)
    return benchmark

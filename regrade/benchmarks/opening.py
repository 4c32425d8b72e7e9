"""Benchmarks by name."""

from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING

from regrade.benchmarks.base import Benchmark, BenchmarkCard
from regrade.errors import SettingsError, UnknownNameError
from regrade.settings import DatasetBenchmark, PromptSettings

if TYPE_CHECKING:
    from regrade.benchmarks.questions.standard import PublishedBenchmark

BENCHMARKS: Mapping[str, str] = {
    "gsm8k": "regrade.benchmarks.gsm8k:Gsm8k",
    "gsm8k_chat": "regrade.benchmarks.gsm8k_chat:Gsm8kChat",
    "mmlu": "regrade.benchmarks.mmlu:Mmlu",
    "mmlu_generative": "regrade.benchmarks.mmlu_generative:MmluGenerative",
}
"""Name to `module:class`; `settings.BenchmarkName` lists the same names."""

AS_SET = PromptSettings()


def open_benchmark(
    name: str,
    *,
    prompt: PromptSettings = AS_SET,
    limit: int | None = None,
    source: str | None = None,
) -> Benchmark:
    """Open a benchmark of the literature. Nothing is read before it is needed.

    Args:
        name: One of `BENCHMARKS`.
        prompt: Changes to how questions become prompts.
        limit: Number of questions, spread evenly over the split; None: all.
        source: File with the questions, or folder with a file for each split, to read instead of the Hub.

    Raises:
        UnknownNameError: If there is no benchmark of that name.
        SettingsError: If the limit is below 1.
        SourceError: If `source` is not there.
    """
    return _load(name)(prompt=prompt, limit=limit, source=source)


def open_dataset(
    settings: DatasetBenchmark, *, prompt: PromptSettings = AS_SET, limit: int | None = None
) -> Benchmark:
    """Open any dataset as a benchmark. Nothing is read before it is needed.

    Args:
        settings: Where the questions are, how they are asked and how they are graded.
        prompt: Changes to how questions become prompts; they win over `settings`.
        limit: Number of questions, spread evenly over the split; None: all.

    Raises:
        SettingsError: If settings contradict each other, a template is not valid, or the name is taken.
        SourceError: If a file is not there.
    """
    if settings.name in BENCHMARKS:
        raise SettingsError(
            f"'{settings.name}' is the name of a benchmark that regrade has. Choose another name for the dataset."
        )
    module = import_module("regrade.benchmarks.questions.dataset")
    opened: Benchmark = module.DatasetQuestions(settings, prompt=prompt, limit=limit)
    return opened


def benchmark_cards() -> tuple[BenchmarkCard, ...]:
    """Return what there is, in the order of `BENCHMARKS`."""
    return tuple(_load(name).card() for name in BENCHMARKS)


def _load(name: str) -> "type[PublishedBenchmark]":
    if name not in BENCHMARKS:
        raise UnknownNameError("benchmark", name, tuple(BENCHMARKS))
    module, _, attribute = BENCHMARKS[name].partition(":")
    benchmark: type[PublishedBenchmark] = getattr(import_module(module), attribute)
    return benchmark

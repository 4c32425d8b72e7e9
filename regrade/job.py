"""A job: all parameters of one evaluation, with what was left open filled in and checked."""

import os
from typing import Self

from pydantic import Field, model_validator

from regrade.engine_settings import EngineSettings
from regrade.engines.vllm import VllmEngine
from regrade.settings import (
    BenchmarkName,
    DatasetBenchmark,
    PromptSettings,
    SamplingParams,
    Settings,
    SourceOverride,
)


class GenerationJob(Settings):
    """What is to be generated, and where the answers go."""

    model: str = Field(min_length=1)
    benchmarks: tuple[BenchmarkName, ...] = ()
    datasets: tuple[DatasetBenchmark, ...] = ()
    sources: tuple[SourceOverride, ...] = ()
    limit: int | None = Field(None, ge=1)
    repeats: int = Field(1, ge=1)
    sampling: SamplingParams | None = None
    prompt: PromptSettings = PromptSettings()
    engine: EngineSettings = VllmEngine()
    answers: str

    @model_validator(mode="after")
    def _has_work(self) -> Self:
        if not self.benchmarks and not self.datasets:
            raise ValueError("nothing to evaluate: choose a benchmark, or describe a dataset")
        known = {source.benchmark for source in self.sources}
        if unused := known - set(self.benchmarks):
            raise ValueError(
                f"a source is given for {sorted(unused)}, which is not among the benchmarks"
            )
        return self

    def source_of(self, benchmark: str) -> str | None:
        """Return the path that replaces a benchmark's source, if one does."""
        return next((source.path for source in self.sources if source.benchmark == benchmark), None)


def default_answers() -> str:
    """Return the answer repository where none is named: `REGRADE_ANSWERS`, else the folder `answers`."""
    return os.environ.get("REGRADE_ANSWERS") or "answers"

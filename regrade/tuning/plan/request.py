"""Parameters of a plan."""

from typing import TYPE_CHECKING, Literal, Self, TypeAlias

from pydantic import Field, model_validator

from regrade.engines.vllm import VllmEngine
from regrade.jobs.job import Answers, BenchmarkChoice, GenerationJob, default_answers
from regrade.settings import PromptSettings, SamplingSettings
from regrade.tuning.plan.gpus import MEMORY_MIB

if TYPE_CHECKING:
    GpuName: TypeAlias = str
else:  # the form offers the names
    GpuName = Literal[tuple(MEMORY_MIB)]


class PlanRequest(BenchmarkChoice):
    """The model and the GPUs to plan for, and what decides the length of requests."""

    model: str = Field(min_length=1)
    gpus: int | None = Field(None, ge=1, le=1024)
    gpu: str | None = None
    gpu_memory: str | None = None
    max_model_len: int | None = Field(None, ge=1)
    sampling: SamplingSettings | None = None
    prompt: PromptSettings = PromptSettings()
    engine: VllmEngine = VllmEngine()
    answers: Answers = Field(default_factory=default_answers)

    @model_validator(mode="after")
    def _is_consistent(self) -> Self:
        if self.gpu is not None and self.gpu_memory is not None:
            raise ValueError("give the GPU's name (gpu) or its memory (gpu_memory), not both")
        if self.max_model_len is not None and self.has_benchmarks:
            raise ValueError(
                "the benchmark's prompts decide the length: leave out max_model_len, or the benchmarks"
            )
        return self

    @property
    def has_benchmarks(self) -> bool:
        """The length is that of a benchmark's requests."""
        return bool(self.names)

    @property
    def job(self) -> GenerationJob:
        """The job whose requests decide the length."""
        return GenerationJob(
            model=self.model,
            benchmarks=self.benchmarks,
            datasets=self.datasets,
            lm_eval=self.lm_eval,
            sources=self.sources,
            limit=self.limit,
            sampling=self.sampling,
            prompt=self.prompt,
            engine=self.engine,
            answers=self.answers,
        )

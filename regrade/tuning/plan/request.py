"""Parameters of a plan."""

from typing import Annotated, Self

from pydantic import Field, WithJsonSchema, model_validator

from regrade.engines.vllm import VllmEngine
from regrade.jobs.job import Answers, BenchmarkChoice, GenerationJob, default_answers
from regrade.settings import PromptSettings, SamplingSettings
from regrade.settings.marks import FIRST, NAME, PATH, Option
from regrade.tuning.plan.gpus import MEMORY_MIB

MACHINE = Option(group="The machine (default: this one)")
GPU_NAMES = WithJsonSchema({"type": "string", "enum": list(MEMORY_MIB)})
"""The form offers the names."""


class PlanRequest(BenchmarkChoice):
    """The model and the GPUs to plan for, and what decides the length of requests."""

    option_group = "The length of requests (default: the model's limit)"

    model: Annotated[str, PATH, NAME] = Field(min_length=1)
    """Model on the Hub (`org/name` or `org/name@revision`), or a folder with at least its config.json."""
    gpus: Annotated[int | None, FIRST, MACHINE] = Field(None, ge=1, le=1024, title="Number of GPUs")
    """Number of GPUs. Default: 1, or all of the machine if no kind is given."""
    gpu: Annotated[str | None, FIRST, GPU_NAMES, MACHINE] = Field(None, title="Kind of GPU")
    """Kind of GPU, such as `h100` or `l40s`. Default: that of the machine, or any with the memory that is given."""
    gpu_memory: Annotated[str | None, FIRST, MACHINE] = Field(None, title="Memory of a GPU")
    """Memory of a GPU instead of its kind, such as `80GiB`."""
    max_model_len: Annotated[int | None, FIRST] = Field(None, ge=1, title="Tokens of a request")
    """Tokens of prompt and answer together. Default: decided by the benchmarks, else the model's limit."""
    sampling: SamplingSettings | None = None
    """Decoding settings, of which `max_tokens` counts. Default: those of each benchmark, or of the model."""
    engine: VllmEngine = VllmEngine()
    """Settings of vLLM; parallel sizes that are set are kept. Default: its defaults."""
    answers: Answers = Field(
        default_factory=default_answers,
        description="Answer repository with earlier starts, which replace the assumed margin. Default: `REGRADE_ANSWERS` where it "
        "runs, else `./answers`.",
    )
    prompt: PromptSettings = PromptSettings()
    """Prompts: format, examples, system message. Default: those of each benchmark."""

    @model_validator(mode="after")
    def _is_consistent(self) -> Self:
        if self.gpu is not None and self.gpu_memory is not None:
            raise ValueError("give the GPU's name (`gpu`) or its memory (`gpu_memory`), not both")
        if self.max_model_len is not None and self.names:
            raise ValueError(
                "the benchmark's prompts decide the length: leave out `max_model_len`, or `benchmarks`"
            )
        return self

    @property
    def job(self) -> GenerationJob:
        """The job whose requests decide the length."""
        return GenerationJob(**self.shared_with(GenerationJob))

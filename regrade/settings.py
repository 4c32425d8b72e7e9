"""What a person sets: the flows' parameters, the Prefect form, the YAML file and the command line are all these.

Sampling params and engine settings carry vLLM's own names (https://docs.vllm.ai).
"""

from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, GetJsonSchemaHandler
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from regrade import registry

if TYPE_CHECKING:
    BenchmarkName: TypeAlias = str
    ScorerName: TypeAlias = str
    EngineName: TypeAlias = str
else:  # validated, and choices of the form: what is installed
    BenchmarkName = Literal[registry.names("benchmark")]
    ScorerName = Literal[registry.names("scorer")]
    EngineName = Literal[registry.names("engine")]
StoredName = Annotated[str, Field(pattern=registry.NAME)]
"""Name of a scorer in stored data, which may be read where that scorer is not installed."""
PromptFormat = Literal["chat", "completion"]
Method = Literal["generate", "rank"]
Difference = Literal["prompt", "chat_template", "few_shot", "sampling", "questions", "overlap"]
"""What may differ between two answer sets beside the model: see docs/compare.md."""


class Settings(BaseModel):
    """Base of every settings model: frozen, strict about names, ordered in the Prefect form."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)

    @classmethod
    def __get_pydantic_json_schema__(
        cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        schema = handler(core_schema)
        fields = handler.resolve_ref_schema(schema).get("properties", {})
        for position, field in enumerate(fields.values()):
            field.setdefault("position", position)  # Prefect sorts the form by it
        return schema


class SamplingParams(Settings):
    """Decoding settings, under vLLM's own names. What is set here replaces the benchmark's own."""

    model_config = ConfigDict(title="Set by hand")

    temperature: float = Field(0.0, ge=0, le=2)
    """Softmax temperature; 0 is greedy."""
    max_tokens: int = Field(512, ge=1)
    """Upper limit on new tokens per answer."""
    top_p: float = Field(1.0, gt=0, le=1)
    """Probability mass of the tokens to sample from; 1 is all."""
    top_k: int = Field(0, ge=0)
    """Number of tokens to sample from; 0 is all."""
    min_p: float = Field(0.0, ge=0, le=1)
    """Least probability of a token, relative to the likeliest one."""
    stop: tuple[str, ...] = ()
    """Texts that end an answer; they are not part of it."""
    repetition_penalty: float = Field(1.0, gt=0, le=2)
    """Above 1 discourages tokens that occurred before."""
    presence_penalty: float = Field(0.0, ge=-2, le=2)
    """Above 0 discourages tokens that occurred in the answer."""
    frequency_penalty: float = Field(0.0, ge=-2, le=2)
    """Above 0 discourages tokens by how often they occurred in the answer."""
    seed: int = Field(0, ge=0)
    """Seed of sampling; every sample and repeat draws from a seed of its own that follows from it."""


class PromptSettings(Settings):
    """How questions become prompts. Default: as the benchmark does it."""

    model_config = ConfigDict(title="Set by hand")

    n_shots: int | None = Field(None, ge=0, le=64)
    """Number of worked examples before the question. Default: the benchmark's own number."""
    format: PromptFormat | None = None
    """`chat` goes through the model's chat template, `completion` is plain text. Default: the benchmark's own."""
    system: str | None = None
    """System message (chat), or text before everything (completion)."""
    chat_template: str | None = None
    """File with a Jinja chat template to use instead of the model's own."""
    chat_template_args: tuple[str, ...] = ()
    """Arguments of the chat template, one `name=value` each, such as `enable_thinking=false`."""
    truncate: bool = False
    """Cut prompts that are too long for the context from the left, instead of failing their rows."""


class DatasetBenchmark(Settings):
    """A benchmark made of any dataset: on the Hub, or a parquet, jsonl or csv file or folder."""

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9_-]{0,62}$")
    """Name of the benchmark, in lower case."""
    path: str
    """Hub dataset (`org/name`), file or folder."""
    config: str | None = None
    """Configuration of a Hub dataset."""
    split: str = "test"
    """Split with the questions. A single file is taken whole."""
    revision: str | None = None
    """Branch, tag or commit of a Hub dataset. Default: the newest."""
    prompt: str = "{{ question }}"
    """Jinja template of the prompt. It sees the row's columns, and `choices` as a list."""
    target_column: str = "answer"
    """Column with the right answer: a text, a number, or for choices the index (from 0), letter or text."""
    choices_column: str | None = None
    """Column with the list of choices, for multiple choice."""
    subset_column: str | None = None
    """Column by which results are broken down."""
    format: PromptFormat = "chat"
    """`chat` goes through the model's chat template, `completion` is plain text."""
    scorer: ScorerName = "exact"
    """How answers are graded. `choice_logprob` ranks the labels instead of generating text."""
    n_shots: int = Field(0, ge=0, le=64)
    """Worked examples before the question, from `shots_split`."""
    shots_split: str = "train"
    """Split with the worked examples."""
    shots_path: str | None = None
    """File with the worked examples, where the dataset is a single file."""
    shot_answer: str = "{{ target }}"
    """Jinja template of a worked example's answer. It sees the row's columns, `target` and, for choices, `label`."""
    sampling: SamplingParams = SamplingParams()
    """Decoding settings of this benchmark."""


class SourceOverride(Settings):
    """Read a benchmark's questions from a file or folder with the same columns, instead of the Hub."""

    benchmark: BenchmarkName
    """Benchmark whose source is replaced."""
    path: str
    """File with the questions, or folder with a file for each split (`test.*`, `train.*`, `dev.*`)."""


class GateSettings(Settings):
    """When a model counts as worse than a baseline."""

    model_config = ConfigDict(title="Gate")

    baseline: str = Field("baseline", min_length=1)
    """Answer set id, model, or alias (`regrade promote` moves the alias `baseline`)."""
    max_drop: float = Field(1.0, ge=0, lt=100)
    """Drop of accuracy that is accepted, in percentage points."""
    max_drop_of: tuple[str, ...] = ()
    """Other drops for single benchmarks, one `benchmark=points` each, such as `gsm8k=0.5`."""
    max_unparsed: float | None = Field(None, ge=0, le=100)
    """Percent of the candidate's answers in which nothing could be read. Default: any."""
    max_truncated: float | None = Field(None, ge=0, le=100)
    """Percent of the candidate's answers that were cut off. Default: any."""
    min_coverage: float | None = Field(None, ge=0, le=100)
    """Percent of the baseline's questions that have to be compared. Default: 90, unless `overlap` is allowed."""
    allow: tuple[Difference, ...] = ()
    """Differences between the two sides that are meant; others are refused."""
    error_rate: float = Field(5.0, gt=0, lt=50)
    """Percent: how often a model that is not worse may be called one, and one that is worse may pass."""
    base_answers: str | None = None
    """Answer repository of the baseline, if it is another one."""

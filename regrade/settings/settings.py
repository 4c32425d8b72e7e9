"""Settings of a user: shared by flow parameters, the Prefect form, YAML files and the command line.

Sampling params and engine settings have the same names as in vLLM (https://docs.vllm.ai).
"""

import re
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self, TypeAlias

from pydantic import (
    AfterValidator,
    AwareDatetime,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    PlainSerializer,
    WithJsonSchema,
    field_validator,
    model_validator,
)
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, PydanticKnownError
from pydantic_core.core_schema import no_info_before_validator_function

from regrade.settings import registry
from regrade.settings.errors import SettingsError, UnknownNameError
from regrade.settings.marks import (
    CODE,
    FREE_TEXT,
    INDECISIVE,
    NAME,
    NESTED,
    NO_OPTION,
    PATH,
    SAME_ANSWERS,
    SCORER,
    Mark,
    OnWorker,
    Option,
)
from regrade.settings.pairs import named_values
from regrade.settings.view_address import default_answers
from regrade.settings.worker_limits import check_path, check_tracking


def _known_scorer(name: str) -> str:
    """Refuse a name that is neither installed nor `path/to/file.py:name`; it may have arguments, which are checked later."""
    try:
        base, _ = registry.called(name)
    except SettingsError as error:
        raise ValueError(str(error)) from error
    if base in registry.names("scorer") or re.fullmatch(registry.IN_FILE, base):
        return name
    raise _unknown("scorer", base)


def _known_or_original(name: str) -> str:
    """Refuse as `_known_scorer` does; accept the scores that came with imported answers."""
    return name if name == registry.ORIGINAL else _known_scorer(name)


def _known_benchmark(name: str) -> str:
    """Refuse a name that is not installed."""
    if registry.is_known("benchmark", name):
        return name
    raise _unknown("benchmark", name)


def _unknown(kind: str, name: str) -> ValueError:
    """Return the error of pydantic for a name that is not installed here, which tells what it is by its cause."""
    problem = ValueError(str(error := UnknownNameError(kind, name, registry.names(kind))))
    problem.__cause__ = error
    return problem


if TYPE_CHECKING:
    BenchmarkName: TypeAlias = str
    ScorerName: TypeAlias = str
    ComparedScorer: TypeAlias = str
    EngineName: TypeAlias = str
else:  # Pydantic accepts, and the form offers, only installed names
    BenchmarkName = Annotated[
        str,
        AfterValidator(_known_benchmark),
        WithJsonSchema({"enum": list(registry.names("benchmark")), "type": "string"}),
    ]
    """Also LiveCodeBench between other months, which the form does not offer."""

    def _scorer_name(check: Callable[[str], str], *others: str) -> Any:  # noqa: ANN401 - a type
        """Return the type of a scorer's name, with other names that stand alone."""
        scorers = registry.names("scorer")
        pattern = rf"(?:{'|'.join(scorers)})(?:\(.*\))?"
        if others:
            pattern = f"(?:{'|'.join((pattern, *others))})"
        examples = [*scorers, *others]
        schema = {"examples": examples, "pattern": f"^{pattern}$", "type": "string"}
        return Annotated[str, AfterValidator(check), WithJsonSchema(schema), PATH, NAME, SCORER]

    ScorerName = _scorer_name(_known_scorer)
    """Also `path/to/file.py:name`, which the form does not take: a worker may lack the file. A scorer may have arguments, so that
    the form has an input for text, and no list to choose from."""
    ComparedScorer = _scorer_name(_known_or_original, registry.ORIGINAL)
    """Scorer of two sides: also the scores that came with imported answers."""
    EngineName = Literal[registry.names("engine")]
HARNESS = "lm_eval:"
"""Beginning of the name of a benchmark that is a task, group or tag of lm-evaluation-harness."""
HARNESS_TASK = r"^[A-Za-z0-9][\w.:+()-]{0,99}$"
"""Pattern of the name of such a task."""
HARNESS_NAME = HARNESS_TASK.replace("^", f"^{HARNESS}", 1)
"""Pattern of such a name."""
JUDGE_PREFIX = "judge:"
"""Beginning of the name of a judge run's benchmark: `judge:<rubric>:<judged benchmark>`."""
JUDGE_NAME = rf"^{JUDGE_PREFIX}[a-z0-9][a-z0-9_-]{{0,40}}:[A-Za-z0-9][A-Za-z0-9_.:+()-]{{0,120}}$"
"""Pattern of such a name."""
REPLAY_PREFIX = "replay:"
"""Beginning of the name of a replay's benchmark: `replay:<benchmark of the answers>`."""
REPLAY_NAME = rf"^{REPLAY_PREFIX}[A-Za-z0-9][A-Za-z0-9_.:+()-]{{0,170}}$"
"""Pattern of such a name."""
if TYPE_CHECKING:
    SourceName: TypeAlias = str
else:  # one field in the form: a union would be two buttons
    _NAMES = "|".join(registry.names("benchmark"))
    SourceName = Annotated[str, Field(pattern=rf"^(?:{_NAMES}|{registry.WINDOW})$|{HARNESS_NAME}")]
AnswerSetId = Annotated[str, Field(pattern=r"^[0-9a-f]{16}$")]
"""Id of an answer set in stored data."""
ANSWER_SET_START = re.compile(r"[0-9a-f]{4,16}")
"""Matches the id of an answer set, or its first digits."""
StoredName = Annotated[str, Field(pattern=registry.STORED_NAME)]
"""Name of a scorer in stored data. The scorer need not be installed to read it."""
Timestamp = Annotated[
    AwareDatetime, Field(ge=datetime(1970, 1, 1, tzinfo=UTC), lt=datetime(9999, 1, 1, tzinfo=UTC))
]
"""Time in stored data, with a time zone; in a range in which it can be converted to any other zone."""
Seconds = Annotated[float, Field(ge=0, le=1e9)]
"""Duration in stored data: at most 30 years, so that a sum of them is finite."""
ALIAS_NAME = r"^[a-z][a-z0-9_-]{0,62}$"
"""Pattern of the name of an alias of answer sets."""
PromptFormat = Literal["chat", "completion"]
Method = Literal["generate", "rank"]
Cut = Literal["start", "middle"]
"""Part of a prompt that is taken away if it does not fit."""
SamplingDefaults = Literal["auto", "benchmark", "model"]
Thinking = Literal["auto", "on", "off"]
SandboxName = Literal["bwrap", "landlock"]
Between = Literal["stay", "sleep", "deep-sleep", "end"]
Difference = Literal["prompt", "chat_template", "few_shot", "sampling", "questions", "overlap"]
"""Differences between two answer sets, other than the model, that can be allowed: see docs/compare.md."""


class StrictModel(BaseModel):
    """Base of settings and of stored data: frozen, rejects unknown names and NaN. Validators are made at the first use."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False, defer_build=True)


def _refusing_switches(schema: Any) -> Any:  # noqa: ANN401 - a part of a schema
    """Return a part of a model's schema whose numbers refuse true and false, which pydantic takes for 1 and 0.

    A model inside it is left as it is: its own class has changed its schema in the same way.
    """
    if type(schema) in (list, tuple):
        return type(schema)(map(_refusing_switches, schema))
    if not isinstance(schema, dict) or schema.get("type") == "model":
        return schema
    if (check := _NO_SWITCH.get(str(schema.get("type")))) is not None:
        return no_info_before_validator_function(check, schema)
    if (
        schema.get("type") == "function-before"
        and schema["function"]["function"] in _NO_SWITCH.values()
    ):  # made before
        return schema
    return {key: _refusing_switches(part) for key, part in schema.items()}


def _no_switch(kind: Literal["int_type", "float_type"]) -> Callable[[object], object]:
    """Return a check that refuses true and false with an error of pydantic."""

    def check(value: object) -> object:
        if isinstance(value, bool):
            raise PydanticKnownError(kind)
        return value

    return check


_NO_SWITCH = {"int": _no_switch("int_type"), "float": _no_switch("float_type")}
"""Type in a schema of pydantic -> check that its values are not true or false."""


class NoSwitches:
    """Mark of a type whose numbers refuse true and false, as those of settings do."""

    def __get_pydantic_core_schema__(
        self, source: object, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        schema: CoreSchema = _refusing_switches(handler(source))
        return schema


class Settings(StrictModel):
    """Base of all settings: the docstrings of fields are shown in help and in the Prefect form, which keeps their order.

    Pydantic reads the source file of each class to find these docstrings, a tenth of the start-up time: data that no form shows is a `StrictModel`.
    """

    model_config = ConfigDict(use_attribute_docstrings=True)
    option_prefix: ClassVar[str] = ""
    """Beginning of the names of options for fields of these settings, where they are a group."""
    option_group: ClassVar[str | None] = None
    """Title of these options in the help. None: that of the settings that have the group."""
    lacks: ClassVar[tuple[Mark, ...]] = ()
    """Marks of fields that the bases of a job have, and that are no parameters of it."""

    def shared_with(self, others: "type[Settings]") -> dict[str, Any]:
        """Return the values of the fields that other settings have too."""
        shared = type(self).model_fields.keys() & others.model_fields.keys()
        return {name: getattr(self, name) for name in shared}

    @classmethod
    def __get_pydantic_core_schema__(
        cls, source: type[BaseModel], handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        schema = handler(source)
        model: Any = handler.resolve_ref_schema(schema)
        while model["type"] != "model":  # in the validators of the whole
            model = model["schema"]
        model["schema"] = _refusing_switches(model["schema"])
        return schema

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
    """Decoding settings, named as in vLLM. A value set here replaces the benchmark's value."""

    model_config = ConfigDict(title="Set by hand")
    option_group = "Sampling params (default: see `--sampling`)"

    temperature: float = Field(0.0, ge=0, le=2)
    """Softmax temperature; 0 is greedy."""
    max_tokens: int = Field(512, ge=1)
    """Upper limit on new tokens per answer."""
    top_p: float = Field(1.0, gt=0, le=1)
    """Probability mass of the tokens to sample from; 1 means all tokens."""
    top_k: int = Field(0, ge=0)
    """Number of tokens to sample from; 0 means all tokens."""
    min_p: float = Field(0.0, ge=0, le=1)
    """Minimum probability of a token, relative to the most likely token."""
    stop: tuple[str, ...] = ()
    """Texts that end an answer; the answer does not include them."""
    repetition_penalty: float = Field(1.0, gt=0, le=2)
    """Above 1: discourages tokens that occurred in the prompt or the answer."""
    presence_penalty: float = Field(0.0, ge=-2, le=2)
    """Above 0: discourages tokens that occurred in the answer."""
    frequency_penalty: float = Field(0.0, ge=-2, le=2)
    """Above 0: discourages tokens in proportion to their count in the answer."""
    seed: int = Field(0, ge=0)
    """Base seed of sampling; each sample and repeat gets a different seed derived from it."""
    thinking_token_budget: int | None = Field(None, ge=1)
    """Most tokens of the reasoning before an answer; then it is ended. Default: no limit of its own."""


class SamplingSettings(SamplingParams):
    """Decoding settings, named as in vLLM. A value set here replaces the chosen default."""

    model_config = ConfigDict(title="Set by hand")

    defaults: Annotated[SamplingDefaults, Option(("--sampling",))] = "auto"
    """Values that are not set here. `model`: the checkpoint's `generation_config.json`; `benchmark`: the benchmark's;
    `auto`: the model's if it reasons before it answers, else the benchmark's."""

    @model_validator(mode="before")
    @classmethod
    def _from_word(cls, values: object) -> object:
        """Accept `sampling: model` for `sampling: {defaults: model}`."""
        return {"defaults": values} if isinstance(values, str) else values

    @field_validator("stop")
    @classmethod
    def _ends_something(cls, stop: tuple[str, ...]) -> tuple[str, ...]:
        if "" in stop:
            raise ValueError(
                "`sampling.stop` holds an empty text, which would end every answer before its first word: leave it out"
            )
        return stop


def _as_word(switch: object) -> object:
    """Return `on` or `off` for true and false, which YAML reads from these words."""
    return {True: "on", False: "off"}[switch] if isinstance(switch, bool) else switch


PromptsOf: TypeAlias = Literal["lm_eval", "inspect_evals", "evalplus"]
"""Package of a reference implementation that holds prompts."""


class PromptSettings(Settings):
    """Changes to a benchmark's prompts. Default: no changes."""

    model_config = ConfigDict(title="Set by hand")
    option_group = "Prompts (default: the benchmark's)"

    n_shots: int | None = Field(None, ge=0, le=64)
    """Number of worked examples before the question. Default: the benchmark's number."""
    format: PromptFormat | None = None
    """`chat` uses the model's chat template, `completion` is plain text. Default: the benchmark's format."""
    system: Annotated[str | None, FREE_TEXT] = None
    """System message (chat), or text at the start of the prompt (completion)."""
    prompts: PromptsOf | None = None
    """Prompts of a reference implementation, read from its installed package, for the benchmarks that have some. Default: the
    benchmark's own."""
    prefill: Annotated[str | None, FREE_TEXT] = Field(None, min_length=1)
    """Beginning of the model's turn in a chat, which its answer continues. Default: the model begins by itself."""
    chat_template: Annotated[str | None, PATH] = None
    """File with a Jinja chat template to use instead of the model's."""
    chat_template_args: tuple[str, ...] = ()
    """Arguments of the chat template, each `name=value`, such as `reasoning_effort=high`."""
    thinking: Annotated[Thinking, BeforeValidator(_as_word)] = "auto"
    """Reasoning before a chat answer, switched by the chat template. `auto`: as the model does it by default."""
    truncate: bool = False
    """Cut the start of prompts that are too long for the context, instead of recording an error."""


class DatasetBenchmark(Settings):
    """A benchmark from any dataset: on the Hub, or in parquet, jsonl, json or csv files."""

    option_prefix = "dataset."
    option_group = "A custom benchmark from any dataset (requires name and path)"

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9_-]{0,62}$")
    """Name of the benchmark, in lower case."""
    path: Annotated[str, PATH, NAME]
    """Hub dataset (`org/name`), file or folder."""
    config: str | None = None
    """Configuration of a Hub dataset."""
    split: str = "test"
    """Split with the questions. A single file is read whole."""
    revision: str | None = None
    """Branch, tag or commit of a Hub dataset. Default: the newest."""
    prompt: str = "{{ question }}"
    """Jinja template of the prompt. It can use the row's columns, `row['NAME']`, and `choices` as a list."""
    system: str | None = None
    """Jinja template of a system message (chat), or of text at the start of the prompt (completion); it can use the columns
    like the prompt. `--system` replaces it."""
    messages_column: str | None = None
    """Column with a conversation, a list of objects with `role` and `content`, which is sent as it is instead of `prompt`."""
    turns_column: str | None = None
    """Column with a list of the user's turns, which are sent one after the other, each with the model's answers before it. The
    target is a list with one for each turn."""
    target_column: str = "answer"
    """Column with the right answer: a text, a number, or the index (from 0), letter or text of the right choice. With the
    scorer `text` also a list of accepted texts. A judge needs none: leave it empty."""
    choices_column: str | None = None
    """Column with the list of choices, for multiple choice."""
    subset_column: str | None = None
    """Column that groups the questions; results are also shown for each group."""
    tools_column: str | None = None
    """Column with the functions that the model may call, a list or JSON text, in OpenAI's form, as JSON schemas or as in BFCL. The
    scorer `tool_calls` compares the calls with those in `target_column`."""
    doc_columns: tuple[str, ...] = ()
    """Columns that are stored with each question for its judge, such as `rubrics`, HealthBench's criteria."""
    images_stay: bool = False
    """Do not copy the images of the questions into the answer repository, as if their licence forbids it."""
    format: PromptFormat = "chat"
    """`chat` uses the model's chat template, `completion` is plain text."""
    scorer: ScorerName = "exact"
    """Scorer of the answers. With `choice_logprob`, the model ranks the labels instead of generating text."""
    n_shots: int = Field(0, ge=0, le=64)
    """Number of worked examples before the question, from `shots_split`."""
    shots_split: str = "train"
    """Split with the worked examples."""
    shots_path: Annotated[str | None, PATH] = None
    """File with the worked examples, if the dataset is a single file."""
    shot_answer: str = "{{ target }}"
    """Jinja template of a worked example's answer. It can use the row's columns, `target` and, with choices, `label`."""
    sampling: Annotated[SamplingParams, NESTED] = SamplingParams()
    """Decoding settings of this benchmark."""


def _check_texts(arguments: Sequence[str]) -> None:
    """Refuse a text that is a path outside of the folders of this worker, since a task may read it as a file."""
    for name, value in _metadata(arguments).items():
        for part in value if isinstance(value, list) else (value,):
            if not isinstance(part, int | float | None):
                check_path(f"`lm_eval.metadata`: {name}", str(part), may_be_name=True)


def _metadata(arguments: Sequence[str]) -> dict[str, Any]:
    values = named_values("`lm_eval.metadata`", arguments, "max_seq_lengths=[4096,8192]")
    if taken := sorted({"tokenizer", "pretrained"} & values.keys()):
        raise SettingsError(
            f"`lm_eval.metadata` has '{taken[0]}', by which the harness names a tokenizer. Give it as `lm_eval.tokenizer`."
        )
    return values


class HarnessTasks(Settings):
    """Tasks of lm-evaluation-harness (https://github.com/EleutherAI/lm-evaluation-harness) to run as benchmarks."""

    model_config = ConfigDict(title="Chosen")
    option_prefix = "lm-eval-"

    tasks: Annotated[tuple[Annotated[str, Field(pattern=HARNESS_TASK)], ...], NO_OPTION] = ()
    """Names of tasks, groups or tags, such as `arc_challenge`; `regrade benchmarks --lm-eval` lists them."""
    path: Annotated[str | None, PATH, CODE] = None
    """Folder with yaml files of tasks of your own."""
    tokenizer: Annotated[str | None, PATH, NAME] = None
    """Model, or folder, whose tokenizer measures questions that a task makes, as RULER's do. Default: the evaluated model's."""
    metadata: Annotated[tuple[str, ...], OnWorker(_check_texts)] = ()
    """Arguments of tasks that make their questions, each `name=value`, such as `max_seq_lengths=[4096,8192]`; `--metadata` of
    lm_eval."""

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the benchmarks."""
        return tuple(f"{HARNESS}{task}" for task in self.tasks)

    @property
    def arguments(self) -> dict[str, Any]:
        """Arguments of tasks that make their questions.

        Raises:
            SettingsError: If one is not `name=value`, a name is given twice, or names a tokenizer.
        """
        return _metadata(self.metadata)


class SourceOverride(Settings):
    """A file or folder to read a benchmark's questions from, instead of the Hub; with the same columns."""

    benchmark: SourceName
    """Benchmark whose source is replaced."""
    path: Annotated[str, PATH]
    """File with the questions, or folder with a file per split (`test.*`, `train.*`, `dev.*`)."""

    @model_validator(mode="before")
    @classmethod
    def _from_text(cls, values: object) -> object:
        """Accept `gsm8k=test.jsonl` for `{benchmark: gsm8k, path: test.jsonl}`."""
        if not isinstance(values, str):
            return values
        benchmark, equals, path = values.partition("=")
        if not equals or not path:
            raise ValueError(f"'{values}' should be `BENCHMARK=PATH`, such as `gsm8k=test.jsonl`")
        return {"benchmark": benchmark, "path": path}


class ShotsOverride(Settings):
    """Worked examples of one benchmark, whatever the others have."""

    benchmark: SourceName
    """Benchmark with this number of examples."""
    n_shots: int = Field(ge=0, le=64)
    """Number of worked examples."""

    @model_validator(mode="before")
    @classmethod
    def _from_text(cls, values: object) -> object:
        """Accept `mmlu=5` for `{benchmark: mmlu, n_shots: 5}`."""
        if not isinstance(values, str):
            return values
        benchmark, equals, number = values.rpartition("=")
        if not equals or not number.isdecimal():
            raise ValueError(f"'{values}' should be `BENCHMARK=NUMBER`, such as `mmlu=5`")
        return {"benchmark": benchmark, "n_shots": number}


class ScoringOptions(Settings):
    """Settings of scorers that need child processes or a sandbox. Other scorers ignore them."""

    model_config = ConfigDict(title="Scoring")
    option_group = "Scoring"

    sandbox: SandboxName = "bwrap"
    """Sandbox in which programs of answers run. `bwrap` needs bubblewrap and namespaces, which Docker does not allow by
    default; `landlock` needs neither and isolates less. The sandbox is part of the scoring's label."""
    processes: int | None = Field(None, ge=1)
    """Answers that are scored at the same time; all cores if it is not set."""
    lm_eval_path: Annotated[str | None, PATH, CODE] = None
    """Folder with yaml files of your own tasks of lm-evaluation-harness."""
    min_coverage: float = Field(0.95, ge=0, le=1)
    """Smallest share of judged answers with a verdict for which a judge's score is the headline number."""
    sources: Annotated[
        tuple[SourceOverride, ...], Option(("--source",), hint="Each as `BENCHMARK=PATH`.")
    ] = ()
    """Files with the tests of benchmarks whose questions came from a file and whose tests are too large to be stored with
    the answers; an evaluation uses the files of its questions."""


class TokenPrice(Settings):
    """Price of a model's tokens, in any currency, to show what answers cost."""

    model_config = ConfigDict(title="Price per million tokens")
    option_prefix = "price-"
    option_group = "Cost"

    input: float = Field(0.0, ge=0)
    """Price of a million tokens of prompts."""
    output: float = Field(0.0, ge=0)
    """Price of a million generated tokens, reasoning included."""

    def cost(self, prompt_tokens: int, completion_tokens: int) -> float:
        """Return the price of some tokens."""
        return (prompt_tokens * self.input + completion_tokens * self.output) / 1e6


class Reuse(Settings):
    """Use of stored answers. Default: answers are kept, and failed requests are sent again."""

    model_config = ConfigDict(title="Stored answers")
    option_group = "Stored answers"

    fresh: bool = False
    """Generate all answers again; the old ones stay readable at older commits."""
    heal: bool = False
    """Generate again what was in shards that are damaged or missing."""
    keep_failed: bool = False
    """Leave rows whose request failed as they are."""
    mix: bool = False
    """Continue answers although this engine computes something else, such as another precision; the answer set says so for
    ever."""


_UNITS = {"s": 1.0, "ms": 0.001}


def _seconds(limit: object) -> object:
    """Return the seconds of a limit with a unit, such as `2s` or `500ms`.

    vLLM's own `--goodput` has milliseconds without a unit, so that a bare number may mean either.
    """
    found = (
        re.fullmatch(r"(\d++(?:\.\d*+)?|\.\d++) *+(s|ms)", limit)
        if isinstance(limit, str)
        else None
    )
    if found is None:
        raise ValueError(f"'{limit}' should be a number with its unit, such as `2s` or `500ms`")
    return float(found[1]) * _UNITS[found[2]]


Limit = Annotated[
    Annotated[float, Field(gt=0)] | None,
    BeforeValidator(lambda limit: None if limit is None else _seconds(limit)),
    PlainSerializer(lambda limit: None if limit is None else f"{limit!r}s"),
    WithJsonSchema({"type": "string", "examples": ["2s", "500ms"]}),
]
"""Longest duration, in seconds; given and passed on as text with a unit."""


class _Limits(Settings):
    @property
    def given(self) -> dict[str, float]:
        """The limits that were given, in seconds."""
        return {name: value for name, value in self if value is not None}


class LatencyLimits(_Limits):
    """Largest accepted latencies, as 99th percentiles in seconds."""

    model_config = ConfigDict(title="Limits")
    option_group = "Search"

    ttft_p99: float | None = Field(None, gt=0)
    """Time to first token. Default: no limit."""
    tpot_p99: float | None = Field(None, gt=0)
    """Time per output token. Default: no limit."""
    e2el_p99: float | None = Field(None, gt=0)
    """Time until the last token. Default: no limit."""


class GoodputLimits(_Limits):
    """Longest latencies of an answer that counts as goodput; at least one. Also as text: `ttft=2s,tpot=50ms`."""

    model_config = ConfigDict(title="Limits")

    ttft: Limit = None
    """Time to first token."""
    tpot: Limit = None
    """Time per output token after the first, the mean of an answer."""
    e2el: Limit = None
    """End-to-end latency: time to the last token."""

    @model_validator(mode="before")
    @classmethod
    def _from_text(cls, values: object) -> object:
        """Accept `ttft=2s,tpot=50ms` for `{ttft: 2s, tpot: 50ms}`; also with `:`, as in vLLM."""
        if not isinstance(values, str):
            return values
        parts = [re.split("[=:]", part.strip(), maxsplit=1) for part in values.split(",")]
        limits = {part[0]: part[1] for part in parts if len(part) == 2}
        if len(limits) != len(parts):
            raise ValueError(
                f"'{values}' should be latencies with their limits, each once, such as `ttft=2s,tpot=50ms,e2el=30s`"
            )
        return limits

    @model_validator(mode="after")
    def _has_limit(self) -> Self:
        if not self.given:
            raise ValueError("`goodput` needs a limit: ttft, tpot or e2el, such as `ttft=2s`")
        return self


WHERE = Option(group="Storage and output")
Answers = Annotated[
    str,
    BeforeValidator(lambda answers: answers or default_answers()),
    Field(
        title="Answer repository",
        description="Answer repository, `hf://datasets/org/name` or a folder. Default: `REGRADE_ANSWERS` where it runs, else "
        "`./answers`.",
    ),
    PATH,
    SAME_ANSWERS,
    WHERE,
]
TrackingUri = Annotated[
    str | None,
    Field(
        title="MLflow",
        description="MLflow server or database. Default: `MLFLOW_TRACKING_URI` where it runs, else SQLite beside the answers.",
    ),
    PATH,
    OnWorker(check_tracking),
    INDECISIVE,
    SAME_ANSWERS,
    WHERE,
]
BASELINE_ANSWERS = Option(("--baseline-answers", "--base-answers"))


class GateSettings(Settings):
    """Rules that decide if a model is worse than a baseline."""

    model_config = ConfigDict(title="Gate")
    option_group = (
        "Gate: is the model worse than a baseline? (any of these options requests a verdict)"
    )

    baseline: Annotated[str, PATH, NAME] = Field("baseline", min_length=1)
    """Answer set id, model, or alias (`regrade promote` moves the alias `baseline`). With `follow`, `{model}` stands for the name of
    the model or training."""
    max_drop: float = Field(1.0, ge=0, lt=100)
    """Largest accepted drop of accuracy, in percentage points. Default: 1. If a fifth of its answers change, an unchanged model passes in
    80 % of the runs from 0.9 points on with 14,042 questions (mmlu), from 3.1 with 1,319 (gsm8k), from 5.5 with 400."""
    max_drop_of: tuple[str, ...] = ()
    """Different accepted drops for single benchmarks, each `benchmark=points`, such as `gsm8k=3`."""
    max_unparsed: float | None = Field(None, ge=0, le=100)
    """Largest accepted share of unparsed answers of the candidate, in percent. Default: no limit."""
    max_truncated: float | None = Field(None, ge=0, le=100)
    """Largest accepted share of truncated answers of the candidate, in percent. Default: no limit."""
    min_coverage: float | None = Field(None, ge=0, le=100)
    """Smallest accepted share of the baseline's questions compared, in percent. Default: 90, unless `overlap` is allowed."""
    allow: tuple[Difference, ...] = ()
    """Intended differences between candidate and baseline; any other difference is an error."""
    error_rate: float = Field(5.0, gt=0, lt=50)
    """Largest rate of false regressions, and of false passes, in percent."""
    base_answers: Annotated[str | None, PATH, BASELINE_ANSWERS] = None
    """Answer repository of the baseline, if it is not the candidate's."""
    promote: bool = False
    """Move the alias `baseline` to the model if the verdict is pass. An alias that does not exist yet is created without a
    verdict, because there is nothing to compare with."""
    stop_when_sure: bool = False
    """Ask the questions in a random order, and leave out the rest of a benchmark once its verdict is sure. The answers stay
    incomplete; the same evaluation without this setting completes them."""

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        for name in ("max_unparsed", "max_truncated"):
            if self.stop_when_sure and getattr(self, name) is not None:
                raise ValueError(
                    f"`gate.{name}` is a limit for all answers, and `gate.stop_when_sure` leaves some out: leave one of them out"
                )
        if self.stop_when_sure and self.promote:
            raise ValueError(
                "`gate.promote` moves an alias to complete answers only, and `gate.stop_when_sure` leaves them incomplete: leave one of "
                "them out"
            )
        if self.promote and self.base_answers is not None:
            raise ValueError(
                "`gate.promote` moves an alias of the candidate's own answer repository: leave `gate.base_answers` empty"
            )
        alias = self.baseline.replace("{model}", "model")
        if self.promote and re.fullmatch(ALIAS_NAME, alias) is None:
            raise ValueError(
                f"`gate.promote` moves an alias, and '{self.baseline}' cannot be one: up to 63 lower-case letters, digits, "
                "`-` and `_`, beginning with a letter"
            )
        return self

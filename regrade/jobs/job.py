"""Jobs: validated parameters of the flows that generate and score, with defaults filled in."""

from collections.abc import Mapping
from datetime import date
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self, TypeAlias, TypeVar, Union

from pydantic import BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from regrade.engines.vllm import VllmEngine
from regrade.jobs.shares import ShareText
from regrade.settings import (
    HARNESS,
    BenchmarkName,
    Between,
    DatasetBenchmark,
    GateSettings,
    GoodputLimits,
    HarnessTasks,
    PromptSettings,
    Reuse,
    SamplingSettings,
    ScorerName,
    ScoringOptions,
    Settings,
    ShotsOverride,
    SourceOverride,
    TokenPrice,
    registry,
)
from regrade.settings.errors import SettingsError
from regrade.settings.marks import (
    ABSENT,
    CODE,
    FILTER,
    FIRST,
    INDECISIVE,
    NAME,
    NO_OPTION,
    NOT_MEASURED,
    PATH,
    SAME_ANSWERS,
    VARIES,
    Absent,
    Mark,
    Option,
    marked,
)
from regrade.settings.model_pattern import is_pattern
from regrade.settings.problems import one_line, sentence
from regrade.settings.settings import Answers as Answers
from regrade.settings.settings import TrackingUri as TrackingUri
from regrade.settings.view_address import default_answers as default_answers
from regrade.settings.worker_limits import check_parameters


def of_kind(engine: object) -> object:
    """Accept `engine: openai` for `engine: {kind: openai}`."""
    return {"kind": engine} if isinstance(engine, str) else engine


if TYPE_CHECKING:
    from regrade.engines.openai import OpenAIEngine

    EngineSettings: TypeAlias = VllmEngine | OpenAIEngine
else:  # a broken engine raises an error only if its `kind` is given
    _broken = {error.name for error in registry.broken("engine")}
    _names = sorted(registry.names("engine"), key=lambda name: name != "vllm")
    EngineSettings = Annotated[
        Union[  # noqa: UP007 - any number of engines
            tuple(registry.load("engine", name) for name in _names if name not in _broken)
        ],
        BeforeValidator(of_kind),
    ]


Scoring = Annotated[
    ScoringOptions,
    Field(
        description="How scorers run that need processes or a sandbox. Default: on all cores, in bubblewrap.",
        examples=["{sandbox: landlock}"],
    ),
    SAME_ANSWERS,
]


def _several(names: object) -> object:
    """Accept `benchmarks: gsm8k` for `benchmarks: [gsm8k]`."""
    return (names,) if isinstance(names, str) else names


class EngineJob(Settings):
    """Answers of a model to generate, whatever it is asked."""

    option_group = "What to evaluate"

    model: Annotated[str, PATH, NAME, VARIES] = Field(min_length=1)
    """Model on the Hub (`org/name` or `org/name@revision`), or the folder of a checkpoint."""
    sampling: Annotated[SamplingSettings | None, VARIES] = Field(
        None, examples=["{temperature: 0.6}"]
    )
    """Decoding settings. Default: those of each benchmark, or the model's if it reasons before it answers."""
    engine: Annotated[EngineSettings, VARIES] = Field(VllmEngine(), examples=["{kind: openai}"])
    """Engine that generates the answers. Default: vLLM on this machine, or the worker's, with its defaults."""
    answers: Answers = Field(default_factory=default_answers)
    prompt: Annotated[PromptSettings, VARIES] = Field(PromptSettings(), examples=["{n_shots: 5}"])
    """Prompts: format, examples, system message. Default: those of each benchmark."""
    reuse: Annotated[Reuse, SAME_ANSWERS] = Field(Reuse(), examples=["{fresh: true}"])
    """Use of stored answers. Default: they are kept, and failed requests are sent again."""
    price: Annotated[TokenPrice | None, INDECISIVE, NOT_MEASURED] = Field(
        None, examples=["{input: 0.15, output: 0.60}"]
    )
    """Price of the model's tokens. Default: no cost is shown."""
    goodput: Annotated[GoodputLimits | None, INDECISIVE, Option(("--goodput",), group="Engine")] = (
        None
    )
    """Longest latencies of the answers that count as goodput, such as `ttft=2s,tpot=50ms,e2el=30s`. Default: it is not
    measured."""


class BenchmarkChoice(Settings):
    """Benchmarks to ask, and their questions."""

    benchmarks: Annotated[
        tuple[BenchmarkName, ...],
        FIRST,
        BeforeValidator(_several),
        Option(("--benchmark",), hint="`lm_eval:TASK` is a task of lm-evaluation-harness."),
    ] = Field((), examples=["[gsm8k, mmlu]"])
    """Benchmarks to run; at least one, here or among the benchmarks of your own."""
    limit: Annotated[int | None, FIRST] = Field(None, ge=1, title="Questions per benchmark")
    """Number of questions of each benchmark, spread evenly over it. Default: all."""
    datasets: tuple[DatasetBenchmark, ...] = Field(
        (), title="Benchmarks of your own", examples=["[{name: capitals, path: capitals.jsonl}]"]
    )
    """Further benchmarks: a dataset on the Hub or in a file, with a prompt template."""
    lm_eval: HarnessTasks = Field(
        HarnessTasks(),
        title="Tasks of lm-evaluation-harness",
        examples=["{tasks: [arc_challenge]}"],
    )
    """Tasks of lm-evaluation-harness to run as benchmarks. Default: none."""
    sources: Annotated[
        tuple[SourceOverride, ...], Option(("--source",), hint="Each as `BENCHMARK=PATH`.")
    ] = Field((), title="Questions from files", examples=["[{benchmark: gsm8k, path: test.jsonl}]"])
    """Files or folders to use instead of a benchmark's dataset on the Hub."""
    shots: Annotated[
        tuple[ShotsOverride, ...], Option(("--shots",), hint="Each as `BENCHMARK=NUMBER`.")
    ] = Field(
        (),
        title="Worked examples of single benchmarks",
        examples=["[{benchmark: mmlu, n_shots: 5}]"],
    )
    """Worked examples of single benchmarks, before `n_shots` of the prompts, which is for all. A suite sets those of its members."""

    @model_validator(mode="after")
    def _uses_all_overrides(self) -> Self:
        for what, given in (("a source is", self.sources), ("worked examples are", self.shots)):
            named = {override.benchmark for override in given}
            if unused := named - {*self.benchmarks, *self.lm_eval.names}:
                raise ValueError(
                    f"{what} given for {', '.join(map(repr, sorted(unused)))}, which is not among the benchmarks: "
                    f"add the benchmark, or leave the {what.split()[-2]} out"
                )
        return self

    @property
    def names(self) -> tuple[str, ...]:
        """Names of all benchmarks, including dataset benchmarks and tasks of lm-evaluation-harness."""
        return (*self.benchmarks, *self.lm_eval.names, *(dataset.name for dataset in self.datasets))

    def source_of(self, benchmark: str) -> str | None:
        """Return the path to read instead of a benchmark's source, or None."""
        return next((source.path for source in self.sources if source.benchmark == benchmark), None)

    def prompt_of(self, benchmark: str, prompt: PromptSettings) -> PromptSettings:
        """Return the changes to a benchmark's prompts: `prompt`, with the benchmark's own number of worked examples."""
        found = (shots.n_shots for shots in self.shots if shots.benchmark == benchmark)
        n_shots = next(found, prompt.n_shots)
        return prompt.model_copy(update={"n_shots": n_shots})


def harness_tasks(chosen: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters in which tasks of lm-evaluation-harness are chosen, given among all benchmarks."""
    given = _several(chosen.get("benchmarks"))
    names = [str(name) for name in given] if isinstance(given, list | tuple) else []
    tasks = [name.removeprefix(HARNESS) for name in names if name.startswith(HARNESS)]
    if not tasks:
        return {}
    group = dict(chosen.get("lm_eval") or {})
    own = _several(group.get("tasks")) or []
    group["tasks"] = [*own, *tasks] if isinstance(own, list | tuple) else own
    return {"lm_eval": group, "benchmarks": [n for n in names if not n.startswith(HARNESS)]}


def _some(name: str, of: dict[str, Any] | None = None) -> dict[str, Any]:
    """Return the schema of parameters with a list that is not empty, or with an object of schema `of`."""
    within = of or {"type": "array", "minItems": 1}
    return {"type": "object", "required": [name], "properties": {name: within}}


NEEDS_WORK: dict[str, Any] = {
    "if": {"not": {"anyOf": [_some("datasets"), _some("lm_eval", _some("tasks"))]}},
    "then": _some("benchmarks"),
}
"""Check of `GenerationJob` as JSON schema: a form that names no benchmark is refused at that field."""


class GenerationJob(BenchmarkChoice, EngineJob):
    """Answers to generate: models, benchmarks, settings and answer repository."""

    model_config = ConfigDict(json_schema_extra=NEEDS_WORK)
    lacks: ClassVar[tuple[Mark, ...]] = ()
    """Marks of the fields that are no parameters of the job."""

    model: Annotated[
        str,
        PATH,
        NAME,
        VARIES,
        Option(
            ("--model",),
            hint="May be given several times; `run/checkpoint-*` and `org/name@step*` name all that exist.",
            more="more_models",
        ),
    ] = Field(min_length=1)
    """Model on the Hub (`org/name` or `org/name@revision`), or the folder of a checkpoint."""
    more_models: Annotated[tuple[str, ...], PATH, NAME, NO_OPTION, NOT_MEASURED] = Field(
        (), title="Further models", examples=["[run/checkpoint-200, run/checkpoint-300]"]
    )
    """Models to evaluate after the first one, such as later checkpoints of a training: those with the same configuration and
    tokenizer share an engine."""
    repeats: Annotated[int | None, VARIES] = Field(None, ge=1, title="Answers per question")
    """Answers per question; more than one needs a temperature above 0. Default: the number of each benchmark."""
    share: Annotated[
        ShareText | None, Option(group="Several machines for the same answers"), NOT_MEASURED
    ] = Field(None, title="Share, if several machines work together")
    """Part of the questions with which this machine begins, such as `2/4`, if several machines generate the same answers; it
    then helps the others. `auto` takes it from a Slurm array, an indexed Job of Kubernetes, or SkyPilot. Default: it is
    alone."""

    @property
    def several_models(self) -> bool:
        """The job names more than one model, or a pattern."""
        return bool(self.more_models) or is_pattern(self.model)

    @model_validator(mode="after")
    def _can_be_generated(self) -> Self:
        if self.share is not None and (self.reuse.fresh or self.reuse.heal):
            raise ValueError(
                "`reuse.fresh` and `reuse.heal` replace stored answers, also those of other machines: run them once without "
                "`share`"
            )
        if NOT_MEASURED in self.lacks and self.several_models:
            raise ValueError(
                f"'{self.model}' names several models, but one is measured at a time. `regrade evaluate` takes them all, and a "
                "sweep takes each as a value of `model`"
            )
        if not self.names:
            raise ValueError(
                "nothing to evaluate: choose a benchmark (`benchmarks`) or a suite (`--suite`), or describe a dataset "
                "(`datasets.name`, `datasets.path`)"
            )
        return self


class JudgeSettings(Settings):
    """Judges of stored answers, and the rubric by which they grade."""

    model_config = ConfigDict(title="Judge")
    option_prefix = "judge."
    option_group = "Judges and rubric"

    judges: Annotated[tuple[str, ...], PATH, NAME, Option(("--judge",))] = Field(min_length=1)
    """Models that judge, one after the other; each makes an answer set of its own."""
    rubric: Annotated[str | None, PATH, NAME, CODE, Option(("--rubric",))] = None
    """`accuracy_style`, `correct`, `criteria`, `pairwise`, or the path of a Jinja file. Default: the benchmark's."""
    baseline: Annotated[str | None, PATH, NAME] = None
    """Other side of the rubric `pairwise`: answer set id, model or alias."""
    criteria: Annotated[str | None, PATH] = None
    """YAML or JSON file for the rubric `criteria`. Default: the criteria are stored with the questions."""
    limit: int | None = Field(None, ge=1, title="Questions per answer set")
    """Number of questions whose answers are judged, spread evenly. Default: all."""
    judge_repeats: int = Field(1, ge=1, title="Verdicts per answer")
    """Verdicts on each answer; more than one shows how often a judge changes its verdict."""
    engine: EngineSettings = VllmEngine()
    """Engine that runs the judges."""
    sampling: SamplingSettings | None = None
    """Decoding settings of the judges. Default: greedy, or the model's own if it reasons before it answers."""
    prompt: PromptSettings = PromptSettings()
    """Format, system message and reasoning of the judges."""
    price: TokenPrice | None = None
    """Price of the judges' tokens."""


class JudgeJob(JudgeSettings):
    """Stored answers to judge: answer sets, judges, rubric and answer repository."""

    answer_sets: Annotated[tuple[str, ...], PATH, NAME, FIRST, NO_OPTION] = ()
    """Answer sets: ids (the first digits are enough), models or aliases. Default: all answers that wait for a judge."""
    self_test: bool = Field(False, title="Self-test")
    """Judge answers of regrade's own, some of which tell the judge what to say."""
    answers: Answers = Field(default_factory=default_answers)
    reuse: Reuse = Reuse()
    """Use of stored verdicts. Default: they are kept, and failed requests are sent again."""
    scoring: Scoring = ScoringOptions()
    tracking_uri: TrackingUri = None

    def of(self, judge: str) -> EngineJob:
        """Return the job of one judge."""
        return EngineJob(**{**self.shared_with(EngineJob), "model": judge})


class EvaluationJob(GenerationJob):
    """Generation job whose answers are also scored and tracked; with `judge` and `gate`, judged and compared, too."""

    scorer: Annotated[ScorerName | None, SAME_ANSWERS] = None
    """Scorer, also with arguments, such as `number(last=true)`, or a function in a file (`path/to/file.py:name`). Default: the scorers
    of each benchmark."""
    judge: Annotated[JudgeSettings | None, NOT_MEASURED] = Field(
        None, examples=["{judges: [org/judge-32b]}"]
    )
    """Judges that grade the answers afterwards, once the model's engine has ended. Default: no judge."""
    gate: Annotated[GateSettings | None, INDECISIVE, NOT_MEASURED] = Field(
        None, examples=["{max_drop: 1}"]
    )
    """Baseline and limits for a verdict whether the model is worse. Default: no verdict."""
    scoring: Scoring = ScoringOptions()
    tracking_uri: TrackingUri = None
    machines: Annotated[int | None, INDECISIVE, NOT_MEASURED] = Field(
        None, ge=1, le=1000, title="Machines that generate"
    )
    """Number of machines that generate: as many runs of `generate-answers` start on its pool, and this run waits for them and
    scores. Default: this machine generates."""

    follow: Annotated[float | None, INDECISIVE, NOT_MEASURED, Option(group="What to evaluate")] = (
        Field(None, ge=0, allow_inf_nan=False, title="Seconds to wait for further models")
    )
    """Look for further models that the names stand for when all are done, such as the next checkpoint of a training, and evaluate
    each in the same engine; end when none came for this many seconds. Default: those that exist now are evaluated."""
    only_new: Annotated[bool, INDECISIVE, NOT_MEASURED, Option(group="What to evaluate")] = Field(
        False, title="Only new models"
    )
    """With `follow`: leave out revisions that an earlier run with `only_new` and the same parameters evaluated on this machine, or
    at which it failed."""
    between: Annotated[Between, INDECISIVE, NOT_MEASURED, Option(group="What to evaluate")] = Field(
        "stay", title="Engine between models"
    )
    """With `follow`: what the engine does while no model waits. It stays, ends, or sleeps: `sleep` keeps the weights in the machine's
    memory (vLLM's level 1), `deep-sleep` drops them (level 2). Asleep, it leaves the GPU to others."""

    def of(self, model: str, gate: GateSettings | None) -> "EvaluationJob":
        """Return the job of one of the models that come, with its gate."""
        alone = {"model": model, "more_models": (), "follow": None, "gate": gate}
        return self.model_copy(update=alone)

    def needs_judge(self, benchmark: str) -> str:
        """Return the reason why answers to a benchmark cannot be scored without a judge, and what to do."""
        return (
            f"A judge model grades the answers to '{benchmark}': name one with `judge.judges`, or keep the answers with "
            "`regrade generate` and run `regrade judge` later."
        )

    @property
    def decisive(self) -> dict[str, object]:
        """The parameters that were set, without those that change no answers."""
        return self.model_dump(
            mode="json",
            exclude_unset=True,
            exclude={*marked(type(self), INDECISIVE), "model", "more_models"},
        )

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if self.follow is None and (self.only_new or self.between != "stay"):
            name = "only_new" if self.only_new else "between"
            raise ValueError(f"`{name}` is for models that come later: set `follow`, too")
        if self.follow is None and self.gate is not None and "{model}" in self.gate.baseline:
            raise ValueError(
                "`{model}` in `gate.baseline` is for models that come later: set `follow`, too"
            )
        if self.machines is not None and self.follow is not None:
            raise ValueError(
                "`follow` keeps one engine, on this machine: do not set `machines` as well"
            )
        if self.machines is not None and self.share is not None:
            raise ValueError("`machines` gives each machine its share: do not set `share` as well")
        if self.machines is not None and (self.reuse.fresh or self.reuse.heal):
            raise ValueError(
                "`reuse.fresh` and `reuse.heal` replace stored answers, also those of other machines: run them once without `machines`"
            )
        if self.gate is not None and self.several_models and self.follow is None:
            raise ValueError(
                "a gate gives a verdict on one model: evaluate several models without it, and run `regrade gate` for each, or "
                "add `follow`, with which each model that comes has its verdict"
            )
        if self.share is not None and self.gate is not None:
            raise ValueError(
                "a gate needs the whole result, which only one of the machines has: use `machines` instead of `share`, or "
                "`regrade gate` afterwards"
            )
        if self.machines is not None and self.gate is not None and self.gate.stop_when_sure:
            raise ValueError(
                "`gate.stop_when_sure` needs one machine, which sees all answers as they come: leave it or `machines` out"
            )
        return self

    @property
    def generation_parameters(self) -> dict[str, object]:
        """Parameters of `generate-answers` for the same answers, as JSON values: those that were set."""
        names = {*GenerationJob.model_fields}
        chosen = self.model_dump(mode="json", include=names, exclude_unset=True)
        return {**chosen, "answers": self.answers}

    @property
    def scoring_options(self) -> ScoringOptions:
        """Options of scoring; the files of questions may also hold their tests, and those of tasks their code."""
        changes = {"sources": (*self.scoring.sources, *self.sources)}
        path = self.lm_eval.path or self.scoring.lm_eval_path
        return self.scoring.model_copy(update={**changes, "lm_eval_path": path})


class ScoringJob(Settings):
    """Stored answers to score: repository, filters and scorer."""

    option_group = "What to score"

    answers: Answers = Field(default_factory=default_answers)
    model: Annotated[str | None, PATH, NAME, FILTER] = None
    """Only answers of this model. Default: all models."""
    benchmark: Annotated[str | None, FILTER] = None
    """Only answers to this benchmark. Default: all benchmarks."""
    answer_set: Annotated[str | None, FILTER] = None
    """Only this answer set: id (the first digits are enough), model or alias. Default: all answer sets."""
    scorer: ScorerName | None = None
    """Scorer, also with arguments, such as `number(last=true)`, or a function in a file (`path/to/file.py:name`). Default: the scorers
    of each benchmark."""
    revision: str | None = None
    """Branch, tag or commit of the repository. Default: the newest commit."""
    since: Annotated[date | None, FILTER] = None
    """Only answer sets to which answers were added on this day (YYYY-MM-DD, UTC) or later."""
    until: Annotated[date | None, FILTER] = None
    """Only answer sets that were begun on this day (YYYY-MM-DD, UTC) or earlier."""
    stale: bool = False
    """Only stale scores: the scorer changed since, or answers were added."""
    force: bool = False
    """Score again even if the same version of the scorer has scored the answers."""
    intact: bool = False
    """Skip damaged shards instead of refusing their answer set; every result is then marked."""
    scoring: Scoring = ScoringOptions()
    tracking_uri: TrackingUri = None

    @model_validator(mode="after")
    def _is_consistent(self) -> Self:
        if self.since is not None and self.until is not None and self.since > self.until:
            raise ValueError(f"`since={self.since}` is after `until={self.until}`.")
        if self.stale and self.force:
            raise ValueError(
                "`force` scores all answers again, `stale` only those with outdated scores: choose one of the two."
            )
        return self


FILTERS = marked(ScoringJob, FILTER)
"""Parameters that choose stored answers."""


class RescoringJob(ScoringJob):
    """Stored answers to score again, because a scorer changed."""

    scorer: ScorerName | None = None
    """Only scores of this scorer. Default: all scorers."""
    stale: bool = True
    """Only stale scores: the scorer changed since, or answers were added. Otherwise: all answers again."""
    answer_set: Absent = None
    revision: Absent = None
    force: Annotated[bool, ABSENT] = False
    intact: Annotated[bool, ABSENT] = False


_Settings = TypeVar("_Settings", bound=Settings)


def make_job(kind: type[_Settings], parameters: Mapping[str, object]) -> _Settings:
    """Build a job from the parameters of a flow; None means the default.

    Raises:
        SettingsError: If a parameter is invalid, or two contradict each other. The message is one line.
        RefusedParameterError: If the worker that started this run does not allow a parameter.
    """
    try:
        job = kind.model_validate(
            {name: value for name, value in parameters.items() if value is not None}
        )
    except ValidationError as error:
        raise SettingsError(sentence(one_line(error, kind))) from error
    check_parameters(job)
    return job

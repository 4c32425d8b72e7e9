"""Facts about a judge run in the specification of its answer set; they decide how verdicts are read."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import orjson
from pydantic import Field, ValidationError

from regrade.records.rubrics.base import Kind, Rubric, Which
from regrade.records.specification import ModelIdentity, Specification, effective_sampling
from regrade.settings import JUDGE_PREFIX, Settings
from regrade.settings.errors import SettingsError


class FieldFacts(Settings):
    """A part of the verdict."""

    name: str
    values: dict[str, float]
    """Value of each label."""
    words: dict[str, str] = Field(default_factory=dict)
    """Label of other words, in lower case."""
    explained: int = 0
    """Longest explanation before the label, in characters; 0: none."""
    pattern: str = Field("", exclude_if=lambda pattern: not pattern)
    """Regular expression that finds the label in a free reply."""
    which: Which = Field("only", exclude_if=lambda which: which == "only")
    """Match that counts."""
    range: tuple[float, float] | None = Field(None, exclude_if=lambda bounds: bounds is None)
    """Smallest and largest number; None for labels."""
    weights: dict[str, float] = Field(default_factory=dict, exclude_if=lambda weights: not weights)
    """Weight of a label of a pair, if it is not 1."""

    def value(self, label: str) -> float:
        """Return the value of a label, or the number that it is."""
        return self.values[label] if self.range is None else float(label)


class RubricFacts(Settings):
    """A rubric, as far as its verdicts need it."""

    name: str
    sha256: str
    """Hash of template, labels in their order, values, form and need of a reference."""
    kind: Kind
    fields: tuple[FieldFacts, ...] = Field(min_length=1)
    shares: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    """Named values: 1 for a verdict with one of these labels, else 0."""
    low: float = 0.0
    """Worst value."""
    high: float = 1.0
    """Best value."""
    source: str = ""


class JudgedSet(Settings):
    """Answer set whose answers are judged."""

    answer_set_id: str
    benchmark: str
    model: str
    model_revision: str
    identity: ModelIdentity
    """Exact identity of the model that answered."""
    engine: dict[str, Any] = Field(default_factory=dict)
    """Settings of its engine that change what it computes."""
    repeats: int = Field(1, ge=1)
    """Answers to each question that are judged."""
    shards: str
    """sha256 over the sorted sha256 of its shards."""


class JudgeRun(Settings):
    """Facts about a judge run; the judge is the specification's model."""

    rubric: RubricFacts
    judged: JudgedSet | None
    """None: the texts of the self-test."""
    baseline: JudgedSet | None = None
    """Answer set to compare with, for rubrics of the kind `pairwise`."""
    criteria: str | None = None
    """sha256 over the criteria of all questions, for rubrics of this kind."""
    judge_repeats: int = Field(1, ge=1)
    """Verdicts on each answer, or on each order of a pair."""
    parts: int = Field(1, ge=1, le=2)
    """Prompts for each verdict: 2 for pairs, the candidate first and then the baseline first."""

    def place(self, repeat: int) -> tuple[int, int, int]:
        """Return repeat of the judged answer, repeat of the judge, and part, for a `repeat` of the judge run."""
        rest, part = divmod(repeat, self.parts)
        judged, judge = divmod(rest, self.judge_repeats)
        return judged, judge, part

    @property
    def repeats(self) -> int:
        """Rows for each question."""
        judged = self.judged.repeats if self.judged else 1
        return judged * self.judge_repeats * self.parts


def rubric_facts(rubric: Rubric) -> RubricFacts:
    """Return the facts of a rubric."""
    low, high = rubric.scale
    fields = tuple(
        FieldFacts(
            name=f.name,
            values=dict(f.values),
            words=dict(f.words),
            explained=f.explained,
            pattern=f.pattern,
            which=f.which,
            range=f.range,
            weights=dict(f.weights),
        )
        for f in rubric.fields
    )
    return RubricFacts(
        name=rubric.name,
        sha256=rubric.sha256,
        kind=rubric.kind,
        fields=fields,
        shares=dict(rubric.shares),
        low=low,
        high=high,
        source=rubric.source,
    )


class JudgeIdentity(NamedTuple):
    """Parts of a judge run's specification that decide its verdicts beside rubric and answers, as JSON."""

    model: str
    sampling: str
    prompt: str
    engine: str


def judge_identity(specification: Specification) -> JudgeIdentity:
    """Return the identity of a judge: two runs with equal ones have the same judge."""
    sampling = specification.sampling
    parts = (
        specification.model.model_dump(mode="json"),
        sampling and effective_sampling(sampling, specification.method).model_dump(mode="json"),
        specification.prompt.model_dump(mode="json"),
        specification.engine,
    )
    texts = (orjson.dumps(part, option=orjson.OPT_SORT_KEYS).decode() for part in parts)
    return JudgeIdentity(*texts)


def readable_judge_run(specification: Specification) -> JudgeRun | None:
    """Return the facts of a judge run; None for other answers, and for facts of a newer version."""
    try:
        return judge_run(specification)
    except SettingsError:
        return None


def answers_per_question(specification: Specification) -> int:
    """Return the answers to each question; of a judge run, those that are judged, however often the judge was asked."""
    run = judge_run(specification)
    if run is None:
        return specification.repeats
    return run.judged.repeats if run.judged else 1


def answering_model(specification: Specification) -> ModelIdentity:
    """Return the model that gave the answers; of a judge run the judged one."""
    run = judge_run(specification)
    return run.judged.identity if run and run.judged else specification.model


def model_title(specification: Specification) -> str:
    """Return the name of the model that gave the answers, with the judge beside it if there is one."""
    model, name = answering_model(specification).name, specification.model.name
    run = judge_run(specification)
    return f"{model} (judge {name})" if run and run.judged else name


def judge_run(specification: Specification) -> JudgeRun | None:
    """Return the facts of a judge run; None for other answers.

    Raises:
        SettingsError: If the specification says that it is one, but its facts cannot be read.
    """
    benchmark = specification.benchmark
    if not benchmark.name.startswith(JUDGE_PREFIX):
        return None
    facts: Mapping[str, Any] = benchmark.parameters
    try:
        return JudgeRun.model_validate(facts.get("judge_run"))
    except ValidationError as error:
        problem = error.errors()[0]
        raise SettingsError(
            f"The facts of judge run '{specification.answer_set_id}' cannot be read "
            f"({'.'.join(map(str, problem['loc']))}: {problem['msg']}). It may be of a newer regrade."
        ) from error

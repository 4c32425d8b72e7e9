"""Candidates of a trade-off: the stored set that stands for a model, and a name that tells it from the others."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from regrade.answers.opening import newest_revision, open_repository
from regrade.answers.sets import AnswerSet, readable_sets
from regrade.comparing.costs import UNKNOWN, Costs
from regrade.records.rubrics.facts import JudgeRun, judge_run
from regrade.records.specification import ModelIdentity, named_apart
from regrade.settings.errors import DamagedAnswersError, SettingsError


@dataclass(frozen=True, slots=True)
class Candidate:
    """A model with the stored set that stands for it on a benchmark."""

    name: str
    """The model with the settings that tell it from the others."""
    model: str
    answers: AnswerSet
    scorer: str
    costs: Costs
    """Costs of the model's own answers."""


@dataclass(frozen=True, slots=True)
class Made:
    """A set with the model that answered: of a judge run, the judged model."""

    answers: AnswerSet
    model: ModelIdentity
    engine: dict[str, Any]
    run: JudgeRun | None
    """None: the set holds answers, not verdicts on another set."""

    @property
    def benchmark(self) -> str:
        """Name of the benchmark."""
        return self.answers.manifest.specification.benchmark.name

    @property
    def judge(self) -> ModelIdentity | None:
        """Model that gave the verdicts."""
        return None if self.run is None else self.answers.manifest.specification.model


def complete_sets(uri: str) -> tuple[list[Made], list[DamagedAnswersError]]:
    """Return the complete answer sets of a repository, oldest first, and the errors of those that cannot be read.

    Raises:
        RepositoryError: If the repository does not exist, or is empty.
    """
    repository = open_repository(uri, create=False)
    sets, damaged = readable_sets(repository, newest_revision(repository))
    made = []
    for answers in sets:
        if answers.manifest.state == "complete":
            try:
                made.append(_made(answers))
            except SettingsError as error:  # a judge run with facts of a newer version
                damaged.append(DamagedAnswersError(answers.folder, str(error)))
    return made, damaged


def _made(answers: AnswerSet) -> Made:
    specification = answers.manifest.specification
    run = judge_run(specification)
    if run is None or run.judged is None:
        return Made(answers, specification.model, specification.engine, None)
    return Made(answers, run.judged.identity, run.judged.engine, run)


def key_of(answers: AnswerSet) -> tuple[str, str]:
    """Return repository and id of an answer set."""
    return answers.repository.uri, answers.manifest.answer_set_id


def candidates(
    sets: Sequence[Made], costs: Mapping[tuple[str, str], Costs], scorer: str | None
) -> list[list[Candidate]]:
    """Return the sets that may stand for each model, engine and judge: the fullest first, and of several the newest.

    Args:
        sets: Answer sets of a benchmark, oldest first.
        costs: Costs by `key_of`.
        scorer: Scorer. None: the one that gives the headline number.
    """
    alike: dict[bytes, list[Made]] = {}
    for made in sets:  # oldest first
        key = orjson.dumps(
            [
                made.answers.repository.uri,
                made.model.model_dump(mode="json"),
                made.engine,
                made.judge and made.judge.model_dump(mode="json"),
            ],
            option=orjson.OPT_SORT_KEYS,
        )
        alike.setdefault(key, []).insert(0, made)
    ranked = [
        sorted(group, key=lambda made: -made.answers.manifest.n_samples) for group in alike.values()
    ]
    kept = [fullest for fullest, *_ in ranked]
    shared = _shared([made.engine for made in kept])
    models = _revisions(made.model for made in kept)
    judges = _revisions(made.judge for made in kept if made.judge is not None)
    names = [_name(made, shared, models, judges) for made in kept]
    return [
        [
            Candidate(
                name if names.count(name) == 1 else f"{name} in {_place(made.answers)}",
                made.model.name,
                made.answers,
                scorer or made.answers.manifest.scorers[0],
                costs.get(_answered(made), UNKNOWN),
            )
            for made in group
        ]
        for name, group in zip(names, ranked, strict=True)
    ]


def _answered(made: Made) -> tuple[str, str]:
    """Return repository and id of the set with the model's own answers."""
    uri, set_id = key_of(made.answers)
    judged = None if made.run is None else made.run.judged
    return uri, set_id if judged is None else judged.answer_set_id


def _revision(model: ModelIdentity) -> str:
    """Return the revision that tells models of one name apart, which with an adapter is the adapter's."""
    return model.revision if model.adapter is None else model.adapter.revision


def _revisions(models: Iterable[ModelIdentity]) -> dict[str, set[str | None]]:
    found: dict[str, set[str | None]] = {}
    for model in models:
        found.setdefault(model.name, set()).add(_revision(model))
    return found


def _shared(engines: Sequence[dict[str, Any]]) -> set[str]:
    """Return the names of the settings that are equal in all engines."""
    return {name for name in engines[0] if all(e.get(name) == engines[0][name] for e in engines)}


def _name(
    made: Made,
    shared: Collection[str],
    models: Mapping[str, set[str | None]],
    judges: Mapping[str, set[str | None]],
) -> str:
    """Return the model with the settings that tell it from the others, and its judge."""
    model = made.model
    parts = [] if model.quantization is None else [model.quantization]
    parts += [
        f"{name}={value}"
        for name, value in sorted(made.engine.items())
        if name not in shared and value != model.quantization
    ]
    if (judge := made.judge) is not None:
        parts.append(f"judge {named_apart(judge.name, _revision(judge), judges[judge.name])}")
    name = named_apart(model.name, _revision(model), models[model.name])
    return f"{name} ({', '.join(parts)})" if parts else name


def _place(answers: AnswerSet) -> str:
    return answers.repository.uri.rstrip("/").rpartition("/")[2]

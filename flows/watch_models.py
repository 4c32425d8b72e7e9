"""Flow `watch-models`: evaluate every new revision of models on the Hub and in folders, once."""

import logging
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Self

from prefect import flow
from prefect.runtime import deployment
from pydantic import BaseModel, Field, model_validator

from flows import parameters as p
from regrade.answers.aliases import alias_names
from regrade.answers.opening import open_repository
from regrade.checkpoints.watching.folders import checkpoints, in_folder
from regrade.checkpoints.watching.found import Found, alias_of, check_aliases
from regrade.checkpoints.watching.hub import of_organisation, on_hub
from regrade.comparing.sides import find_side
from regrade.jobs.job import EvaluationJob, make_job
from regrade.orchestration.artifacts import WATCHED_KEY, show
from regrade.orchestration.form import form
from regrade.orchestration.remote.client import connected
from regrade.orchestration.watched_runs import Watched, start_runs
from regrade.settings import GateSettings
from regrade.settings.errors import OperationError, RegradeError, RepositoryError, SettingsError
from regrade.text.markdown import markdown_table

logger = logging.getLogger("regrade.watch")
PATIENCE = 60.0
"""Seconds for which requests to the Prefect server are retried."""
COLUMNS = ("model", "revision", "state", "note", "run")


class WatchGate(GateSettings):
    """Verdict on each new revision, against the last good one."""

    baseline: str = Field("last-good-{model}", min_length=1)
    """Alias of the last good revision. `{model}` is replaced by the model's name. As long as the alias does not exist,
    revisions are evaluated without a verdict."""
    promote: bool = False
    """Move the alias to a revision whose verdict is pass. The first revision becomes the alias without a verdict."""

    @model_validator(mode="after")
    def _can_promote(self) -> Self:
        """Check the alias with a model's name instead of the placeholder."""
        self.of("model")
        return self

    def of(self, name: str) -> GateSettings:
        """Return the settings for a model."""
        return GateSettings(**self.model_dump() | {"baseline": alias_of(self.baseline, name)})


@form(
    models={"title": "Models"},
    organisations={"title": "Organisations on the Hub"},
    pattern={"title": "Pattern of an organisation's models"},
    folders={"title": "Folders of checkpoints"},
    settle={"title": "Seconds without a change", "minimum": 0},
    at_a_time={"title": "Runs at a time", "minimum": 1},
)
@flow(name="watch-models")
def watch_models(
    models: tuple[str, ...] = (),
    organisations: tuple[str, ...] = (),
    pattern: str = "*",
    folders: tuple[str, ...] = (),
    settle: float = 60.0,
    at_a_time: int = 4,
    gate: WatchGate = WatchGate(),  # noqa: B008 - frozen
    benchmarks: p.Benchmarks = (),
    limit: p.Limit = None,
    sampling: p.Sampling = None,
    engine: p.Engine = None,
    answers: p.Answers = None,
    prompt: p.Prompt = None,
    repeats: p.Repeats = None,
    datasets: p.Datasets = None,
    lm_eval: p.LmEval = None,
    sources: p.Sources = None,
    reuse: p.Reuse = None,
    goodput: p.Goodput = None,
    scorer: p.Scorer = None,
    scoring: p.Scoring = None,
    judge: p.Judge = None,
    price: p.Price = None,
    tracking_uri: p.TrackingUri = None,
    machines: p.Machines = None,
) -> dict[str, int]:
    """Start `evaluate-model` for every revision that was not seen yet, once, and move the alias of the last good one.

    Looks once and ends: a schedule repeats it. Waits for no run.

    Args:
        models: Models on the Hub (`org/name` or `org/name@branch`), or folders with a model.
        organisations: Organisations or users on the Hub, all of whose models are watched.
        pattern: Pattern of the names of an organisation's models, such as `*-instruct`.
        folders: Folders of checkpoints, as this worker and the one that evaluates see them.
        settle: Seconds without a change after which a complete folder counts as written.
        at_a_time: Most runs that wait or run, also of revisions that are gone; other revisions are started later.
        gate: Verdict on each new revision against the last good one.
        machines: Number of machines that generate the answers of a revision. None: one.
    """
    given = {name: value for name, value in locals().items() if name in _PASSED}
    if not (models or organisations or folders):
        raise SettingsError("Nothing to watch: name models, organisations or folders.")
    job = make_job(EvaluationJob, given | {"model": "any"})  # fails before anything is started
    passed = {name: _plain(value) for name, value in given.items() if value not in (None, ())}
    found, problems = _look(models, organisations, pattern, folders, settle)
    check_aliases(gate.baseline, found)

    known = set() if gate.promote else _baselines(gate, job)

    def parameters(revision: Found) -> Mapping[str, Any]:
        settings = gate.of(revision.name)
        evaluation = {**passed, "model": revision.model}
        if not gate.promote and settings.baseline not in known:
            return evaluation  # nothing to compare with yet
        chosen = settings.model_dump(mode="json", exclude_defaults=True)
        return {**evaluation, "gate": {**chosen, "baseline": settings.baseline}}

    with connected(PATIENCE) as server:
        watched = start_runs(
            server, found, parameters, at_a_time=at_a_time, watcher=f"watched by {_watcher()}"
        )
    _report(watched)
    if problems:
        raise OperationError("; ".join(str(problem) for problem in problems))
    return {
        status: sum(revision.status == status for revision in watched)
        for status in {revision.status for revision in watched}
    }


_PASSED = EvaluationJob.model_fields.keys() - {"model", "gate"}


def _watcher() -> str:
    """Return the name of the deployment that looks; `watch-models` without one."""
    return str(deployment.name or "watch-models")


def _baselines(gate: WatchGate, job: EvaluationJob) -> set[str]:
    """Return the aliases in the baseline's answer repository, which need not exist yet, and a model or id that has answers."""
    address = gate.base_answers or job.answers
    repository = open_repository(address, create=False, empty=True)
    head = repository.head()
    known = set() if head is None else alias_names(repository, head)
    if "{model}" not in gate.baseline and gate.baseline not in known:
        try:
            known.add(find_side(gate.baseline, address, job.names).name)
        except RepositoryError as error:
            logger.info("no verdicts yet: %s", error)
    return known


def _plain(value: object) -> object:
    """Return a parameter as JSON, as it was given: a later version may have other defaults."""
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json", exclude_unset=True)
    return [_plain(member) for member in value] if isinstance(value, tuple) else value


def _look(
    models: tuple[str, ...],
    organisations: tuple[str, ...],
    pattern: str,
    folders: tuple[str, ...],
    settle: float,
) -> tuple[list[Found], list[RegradeError]]:
    """Return all revisions, and the errors of what could not be read: they must not stop the others."""
    found: dict[str, Found] = {}
    problems: list[RegradeError] = []
    looks: list[Iterator[Found]] = [
        *(_model(name, settle) for name in models),
        *(of_organisation(name, pattern) for name in organisations),
        *(checkpoints(Path(folder).expanduser(), settle=settle) for folder in folders),
    ]
    for look in looks:
        try:
            found |= {revision.model: revision for revision in look}
        except RegradeError as error:
            logger.error("%s", error)  # noqa: TRY400 - raised at the end
            problems.append(error)
    return list(found.values()), problems


def _model(name: str, settle: float) -> Iterator[Found]:
    folder = Path(name).expanduser()
    yield in_folder(folder, settle=settle) if folder.is_dir() else on_hub(name)


def _report(watched: list[Watched]) -> None:
    for revision in watched:
        if revision.status in ("started", "not written"):
            note = f": {revision.note}" if revision.note else ""
            logger.info("%s %s%s", revision.found.short, revision.status, note)
    rows = [
        (
            revision.found.title,
            revision.found.revision[:12],
            revision.status,
            revision.note,
            revision.url or "",
        )
        for revision in watched
    ]
    started = sum(revision.status == "started" for revision in watched)
    show(
        WATCHED_KEY,
        "\n".join(markdown_table(COLUMNS, rows, text=COLUMNS)),
        f"{len(watched):,} revisions, {started:,} started",
    )

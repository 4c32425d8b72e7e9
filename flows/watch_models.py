"""Flow `watch-models`: evaluate every new revision of models on the Hub and in folders, once."""

import logging
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Self

from prefect import flow
from prefect.runtime import deployment
from pydantic import Field, model_validator

from regrade.answers.aliases import alias_names
from regrade.answers.opening import open_repository
from regrade.checkpoints.watching.folders import checkpoints
from regrade.checkpoints.watching.following import newest
from regrade.checkpoints.watching.found import Found, alias_of, check_aliases
from regrade.checkpoints.watching.hub import of_organisation
from regrade.comparing.sides import find_side
from regrade.jobs.job import EvaluationJob
from regrade.orchestration.artifacts import WATCHED_KEY, show
from regrade.orchestration.form import form, takes
from regrade.orchestration.remote.client import connected
from regrade.orchestration.watched_runs import Watched, start_runs
from regrade.settings import GateSettings
from regrade.settings.errors import OperationError, RegradeError, RepositoryError, SettingsError
from regrade.settings.marks import ABSENT, FIRST, NAME, PATH, Absent, parameters_of
from regrade.text.blocks import Table
from regrade.text.markdown import markdown

logger = logging.getLogger("regrade.watch")
PATIENCE = 60.0
"""Seconds for which requests to the Prefect server are retried."""
COLUMNS = ("model", "revision", "state", "note", "run")


class WatchGate(GateSettings):
    """Verdict on each new revision, against the last good one."""

    baseline: Annotated[str, PATH, NAME] = Field("last-good-{model}", min_length=1)
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


class WatchJob(EvaluationJob):
    """Models and folders to look at, and the evaluation of their new revisions."""

    models: Annotated[tuple[str, ...], FIRST, PATH, NAME] = ()
    """Models on the Hub (`org/name` or `org/name@branch`), or folders with a model."""
    organisations: Annotated[tuple[str, ...], FIRST] = Field((), title="Organisations on the Hub")
    """Organisations or users on the Hub, all of whose models are watched."""
    pattern: Annotated[str, FIRST] = Field("*", title="Pattern of an organisation's models")
    """Pattern of the names of an organisation's models, such as `*-instruct`."""
    folders: Annotated[tuple[str, ...], FIRST, PATH] = Field((), title="Folders of checkpoints")
    """Folders of checkpoints, as this worker and the one that evaluates see them."""
    settle: Annotated[float, FIRST] = Field(60.0, ge=0, title="Seconds without a change")
    """Seconds without a change after which a complete folder counts as written."""
    at_a_time: Annotated[int, FIRST] = Field(4, ge=1, title="Runs at a time")
    """Most runs that wait or run, also of revisions that are gone; other revisions are started later."""
    gate: Annotated[WatchGate, FIRST] = WatchGate()
    """Verdict on each new revision against the last good one."""
    model: Annotated[str, ABSENT] = "each that is found"
    more_models: Annotated[tuple[str, ...], ABSENT] = ()
    share: Absent = None
    follow: Absent = None

    @property
    def evaluation(self) -> dict[str, Any]:
        """Parameters of `evaluate-model` for each revision, as they were given: a later version may have other defaults."""
        passed = {*parameters_of(EvaluationJob)} & self.model_fields_set - {"gate"}
        given = self.model_dump(mode="json", include=passed, exclude_unset=True)
        return {name: value for name, value in given.items() if value != []}


@form
@flow(name="watch-models")
@takes(WatchJob)
def watch_models(job: WatchJob) -> dict[str, int]:
    """Start `evaluate-model` for every revision that was not seen yet, once, and move the alias of the last good one.

    Looks once and ends: a schedule repeats it. Waits for no run.
    """
    if not (job.models or job.organisations or job.folders):
        raise SettingsError("Nothing to watch: name models, organisations or folders.")
    gate = job.gate
    found, problems = _look(job)
    check_aliases(gate.baseline, found)
    known = set() if gate.promote else _baselines(gate, job)

    def parameters(revision: Found) -> Mapping[str, Any]:
        settings = gate.of(revision.name)
        evaluation = {**job.evaluation, "model": revision.model}
        if not gate.promote and settings.baseline not in known:
            return evaluation  # nothing to compare with yet
        chosen = settings.model_dump(mode="json", exclude_defaults=True)
        return {**evaluation, "gate": {**chosen, "baseline": settings.baseline}}

    with connected(PATIENCE) as server:
        watched = start_runs(
            server, found, parameters, at_a_time=job.at_a_time, watcher=f"watched by {_watcher()}"
        )
    _report(watched)
    if problems:
        raise OperationError("; ".join(str(problem) for problem in problems))
    return {
        status: sum(revision.status == status for revision in watched)
        for status in {revision.status for revision in watched}
    }


def _watcher() -> str:
    """Return the name of the deployment that looks; `watch-models` without one."""
    return str(deployment.name or "watch-models")


def _baselines(gate: WatchGate, job: WatchJob) -> set[str]:
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


def _look(job: WatchJob) -> tuple[list[Found], list[RegradeError]]:
    """Return all revisions, and the errors of what could not be read: they must not stop the others."""
    found: dict[str, Found] = {}
    problems: list[RegradeError] = []
    looks: list[Iterator[Found]] = [
        *(map(partial(newest, settle=job.settle), [name]) for name in job.models),
        *(of_organisation(name, job.pattern) for name in job.organisations),
        *(checkpoints(Path(folder).expanduser(), settle=job.settle) for folder in job.folders),
    ]
    for look in looks:
        try:
            found |= {revision.model: revision for revision in look}
        except RegradeError as error:
            logger.error("%s", error)  # noqa: TRY400 - raised at the end
            problems.append(error)
    return list(found.values()), problems


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
        markdown([Table(COLUMNS, rows, COLUMNS)]),
        f"{len(watched):,} revisions, {started:,} started",
    )

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from prefect import flow, task
from prefect.cache_policies import NO_CACHE
from prefect.settings import PREFECT_API_URL, temporary_settings

from flows.scoring import unscored
from regrade.answers.local import LocalRepository
from regrade.answers.spool import Spool
from regrade.comparing.checking import plans_to_score
from regrade.jobs.generate import Progress, generate
from regrade.jobs.job import GenerationJob, JudgeJob, make_job
from regrade.jobs.plans_of_job import begin
from regrade.jobs.shares import Share
from regrade.settings import Reuse
from tasks.generate import ProgressArtifact
from tasks.judge import plan_judging, plans_of_judge
from tasks.plan import plan_answers
from tasks.step import hidden
from tasks.work import Work
from tests.command_line import DEMO
from tests.hub_server.fixtures import Hub
from tests.limited_engine import questions
from tests.sums import Answering, plan_of


@dataclass
class Large:
    """Count reads of a field; Prefect reads it if it visits the dataclass."""

    samples: list[int]
    title = "large"
    reads = 0

    def __getattribute__(self, name: str) -> Any:
        if name == "samples":
            Large.reads += 1
        return super().__getattribute__(name)


@task(task_run_name="take {given.title}", cache_policy=NO_CACHE)
def take(given: Large) -> str:
    return type(given).__name__


@pytest.mark.prefect
def test_prefect_does_not_walk_through_what_is_hidden(prefect_server: str) -> None:
    @flow
    def give() -> list[str]:
        large = Large([1])
        return [take(hidden(large)), take.submit(hidden(large)).result()]

    with temporary_settings({PREFECT_API_URL: prefect_server}):
        assert give() == ["Large", "Large"]

    assert Large.reads == 0


def test_the_state_for_prometheus_follows_the_answers_the_spool_and_the_commits(
    tmp_path: Path,
) -> None:
    plan = plan_of(5)
    with Spool(tmp_path / "spool") as spool:
        work = Work(plan, LocalRepository(tmp_path / "answers"), spool, Reuse())
        work.requests = plan.requests(plan.missing({("id-1", 0)}))
        before = work.state
        states = []

        def advance(progress: Progress) -> None:
            work.made = [progress]
            states.append(work.state)

        generate(work.requests, Answering(), spool, advance)
        work.count_commit(published=False)
        work.count_commit(published=True)
        spool.release(file.path for file in spool.seal())
        after = work.state

    assert (before.planned, before.stored, before.answers, before.left) == (5, 1, 0, 4)
    assert [(s.stored, s.answers, s.left, s.spool_rows) for s in states] == [
        (1, 2, 2, 2),
        (1, 4, 0, 4),
    ]
    assert states[-1].completion_tokens == 12
    assert states[-1].spool_bytes > 0
    assert (after.spool_rows, after.spool_bytes) == (0, 0)
    assert (after.commits, after.failed_commits, before.last_commit) == (1, 1, None)
    assert after.last_commit is not None


def test_answers_that_other_machines_published_are_not_left_to_this_one(tmp_path: Path) -> None:
    plan = plan_of(5)
    with Spool(tmp_path / "spool") as spool:
        work = Work(plan, LocalRepository(tmp_path / "answers"), spool, Reuse(), Share(1, 2))
        work.requests = plan.requests(plan.missing({("id-1", 0)}))
        work.requests.withdraw({("id-3", 0), ("id-4", 0)})
        work.made = [generate(work.requests, Answering(), spool, lambda _: None)]

    assert (work.state.planned, work.state.stored, work.state.answers) == (5, 3, 2)
    assert work.state.left == 0


def test_the_result_of_a_run_that_published_nothing_counts_what_is_missing(tmp_path: Path) -> None:
    with Spool(tmp_path / "spool") as spool:
        work = Work(plan_of(5), LocalRepository(tmp_path / "answers"), spool, Reuse())
        (answers,) = unscored([work]).answer_sets

    assert (answers.revision, answers.url) == (None, None)
    assert (answers.rows, answers.expected_rows, answers.unanswered) == (0, 5, 5)
    assert answers.answer_set_id == work.plan.specification.answer_set_id


def test_progress_that_prefect_does_not_take_is_told_without_the_password(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: object, **__: object) -> None:
        request = httpx.Request("GET", "http://ann:s3cret@prefect.test/api")
        httpx.Response(500, request=request).raise_for_status()

    monkeypatch.setattr("tasks.generate.create_progress_artifact", fail)
    repository, spool = LocalRepository(tmp_path / "answers"), Spool(tmp_path / "spool")

    ProgressArtifact(Work(plan_of(5), repository, spool, Reuse())).update(Progress(5))

    assert "progress not shown in Prefect" in caplog.text
    assert "s3cret" not in caplog.text


def test_the_hub_is_asked_for_write_access_once_whether_or_not_a_flow_takes_what_was_begun(
    hub: Hub, spool_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("HF_TOKEN", hub.token)
    monkeypatch.setenv("HF_ENDPOINT", hub.endpoint)
    data = questions(tmp_path, 2)
    answers, model = f"hf://datasets/{hub.repo_id}", str(DEMO / "regrade-demo")
    dataset = {"name": "one", "path": str(data), "scorer": "number"}
    given = {"model": model, "datasets": [dataset], "answers": answers}
    job = make_job(GenerationJob, given)
    judging = JudgeJob(judges=(model,), self_test=True, rubric="correct", answers=answers)

    def asked(plan: Callable[[], object]) -> int:
        hub.server.forget()
        plan()
        return hub.requests("POST", "/repos/create") + hub.requests("GET", "/auth-check/write")

    assert asked(lambda: (begin(plans_to_score, job), plan_answers.fn(job))) == 1
    assert asked(lambda: plan_answers.fn(job)) == 1
    assert (
        asked(lambda: (begin(plans_of_judge, judging, model), plan_judging.fn(judging, model))) == 1
    )

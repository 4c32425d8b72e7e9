"""Judge runs without Prefect: plan, generate with the scripted judge's server, publish, score."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

from regrade.answers.local import LocalRepository
from regrade.answers.origin import begin_session
from regrade.answers.publishing import publish_answers
from regrade.answers.scorefile import ScoreFile
from regrade.answers.sets import AnswerSet
from regrade.answers.spool import Spool
from regrade.engines.base import PromptRendering
from regrade.engines.openai import OpenAIEngine
from regrade.jobs.generate import generate, session_of
from regrade.jobs.job import JudgeJob
from regrade.judging.readings import run_of
from regrade.scoring.score import score_answers
from tasks.judge import plans_of_judge, take_known
from tasks.plan import find_missing
from tasks.work import Work
from tests.judging.scripted import ScriptedJudge


def run_judge(judge: ScriptedJudge, folder: Path, **parameters: Any) -> AnswerSet:
    """Judge answers in the repository `folder`/answers; `parameters` are those of the job."""
    with judge.served() as url:
        return run_judge_at(url, folder, **parameters)


def run_judge_at(
    url: str, folder: Path, *, revision: str | None = "r1", **parameters: Any
) -> AnswerSet:
    """Judge with the server at an address; see `run_judge`."""
    repository = LocalRepository(folder / "answers")
    engine = OpenAIEngine(base_url=url, max_retries=0, model_revision=revision, max_concurrency=2)
    given = {"judges": ("judge-7b",), "answers": repository.uri, "engine": engine}
    job = JudgeJob(**{**given, **parameters})
    [plan] = plans_of_judge(job, job.judges[0])
    with Spool(folder / "spool" / plan.specification.answer_set_id) as spool:
        work = Work(plan, repository, spool, job.reuse)
        find_missing(work)
        take_known(work)
        requests = work.requests
        opened = engine.open(
            plan.model, requests=[requests], rendering=PromptRendering(), log=folder / "log"
        )
        with opened as client:
            begin_session(spool, repository.uri, plan.description, session_of(client, engine))
            generate(requests, client, spool, lambda _: None)
        return publish_answers(repository, spool, plan.description)


def verdicts(judge_set: AnswerSet) -> list[SimpleNamespace]:
    """Rows of the scoring of verdicts, with the repeats of the judged answer and of the judge."""
    run = run_of(judge_set)
    found = []
    for row in score_answers(judge_set, "judge").scores.to_pylist():
        repeat, judge_repeat, _ = run.place(row["repeat"])
        places = {"repeat": repeat, "judge_repeat": judge_repeat, "label": row["extracted"]}
        found.append(SimpleNamespace(**row | places))
    return found


def scored(judge_set: AnswerSet) -> ScoreFile:
    """Score verdicts, without storing the scores."""
    return score_answers(judge_set, "judge", force=True).file


def others(file: ScoreFile) -> dict[str, float]:
    """Results beside the headline, by name."""
    return {result.name: result.value for result in file.other_results}

"""Flow `judge-answers`: let judge models grade stored answers."""

from prefect import flow
from prefect.runtime import flow_run

from flows.judging import judge_sets
from flows.scoring import finish, score
from regrade.jobs import plans_of_job
from regrade.jobs.job import JudgeJob
from regrade.orchestration.form import form, takes
from regrade.orchestration.worker import engine_no_longer_needed
from regrade.results.display import timed
from regrade.results.results import Evaluation, check_answered
from regrade.tracking.process import prepare
from tasks.judge import plans_of_judge


def run_name() -> str:
    """Name of the flow run: `<judges>: <answer sets>`."""
    parameters = flow_run.parameters
    what = parameters.get("answer_sets") or ()
    if parameters.get("self_test"):
        what = ("self-test",)
    return (
        f"{', '.join(parameters['judges'])}: {', '.join(what) or 'answers that wait for a judge'}"
    )


def begin(job: JudgeJob) -> None:
    """Check and plan what each judge is asked, before anything starts."""
    for judge in dict.fromkeys(job.judges):
        plans_of_job.begin(plans_of_judge, job, judge)


@form
@flow(name="judge-answers", flow_run_name=run_name)
@takes(JudgeJob)
@timed()
def judge_answers(job: JudgeJob) -> Evaluation:
    """Let judge models grade stored answers: generate the missing verdicts, then publish, score and track them."""
    prepare()  # imports MLflow while the engine loads
    chosen, works = judge_sets(job)
    engine_no_longer_needed()
    evaluation = finish(score(chosen, works=works, options=job.scoring), job.tracking_uri)
    check_answered(evaluation)
    return evaluation

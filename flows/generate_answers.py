"""Flow `generate-answers`: generate and publish missing answers, without scoring."""

from typing import Any

from prefect import flow
from prefect.client.schemas.objects import State

from flows.gating import completed
from flows.generating import (
    answered,
    check_failures,
    finish_unscored,
    generate,
    is_to_be_scored,
    plan,
    publish,
    run_name,
)
from regrade.jobs.job import GenerationJob
from regrade.orchestration.events import answers_published
from regrade.orchestration.form import form, takes
from regrade.results.display import timed
from regrade.results.tables import headline


@form
@flow(name="generate-answers", flow_run_name=run_name)
@takes(GenerationJob)
@timed()
def generate_answers(job: GenerationJob) -> State[Any]:
    """Generate the missing answers of a model and publish them. Nothing is scored."""
    with plan(job) as works:
        generate(job, works)
        done = answered(works)
        published = publish(done)
    answers_published([answers for answers in published if is_to_be_scored(answers, done)])
    evaluation = finish_unscored(done)
    check_failures(works)
    return completed(headline(evaluation), evaluation)

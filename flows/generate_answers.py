"""Flow `generate-answers`: generate and publish missing answers, without scoring."""

from typing import Any

from prefect import flow
from prefect.client.schemas.objects import State

from flows import parameters as p
from flows.gating import completed
from flows.generating import finish_unscored, generate, is_to_be_scored, plan, publish, run_name
from regrade.jobs.job import GenerationJob, make_job
from regrade.orchestration.events import answers_published
from regrade.orchestration.form import form
from regrade.results.tables import headline


@form()
@flow(name="generate-answers", flow_run_name=run_name)
def generate_answers(
    model: p.Model,
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
    price: p.Price = None,
    share: p.Share = None,
    goodput: p.Goodput = None,
) -> State[Any]:
    """Generate the missing answers of a model and publish them. Nothing is scored."""
    job = make_job(GenerationJob, locals())
    with plan(job) as works:
        generate(job, works)
        published = publish(works)
    answers_published([answers for answers in published if is_to_be_scored(answers, works)])
    evaluation = finish_unscored(works)
    return completed(headline(evaluation), evaluation)

"""Flow `judge-answers`: let judge models grade stored answers."""

from prefect import flow
from prefect.runtime import flow_run

from flows import parameters as p
from flows.judging import judge_stored
from regrade.jobs.job import JudgeJob, make_job
from regrade.orchestration.form import form
from regrade.results.results import Evaluation, check_answered
from regrade.tracking.process import prepare


def run_name() -> str:
    """Name of the flow run: `<judges>: <answer sets>`."""
    parameters = flow_run.parameters
    what = parameters.get("answer_sets") or ()
    if parameters.get("self_test"):
        what = ("self-test",)
    return (
        f"{', '.join(parameters['judges'])}: {', '.join(what) or 'answers that wait for a judge'}"
    )


@form(
    judges={"minItems": 1},
    answer_sets={"title": "Answer sets"},
    limit={"title": "Questions per answer set", "minimum": 1},
    judge_repeats={"title": "Verdicts per answer", "minimum": 1},
    self_test={"title": "Self-test"},
)
@flow(name="judge-answers", flow_run_name=run_name)
def judge_answers(
    judges: tuple[str, ...],
    answer_sets: tuple[str, ...] = (),
    rubric: str | None = None,
    answers: p.Answers = None,
    baseline: str | None = None,
    criteria: str | None = None,
    limit: int | None = None,
    judge_repeats: int = 1,
    engine: p.Engine = None,
    sampling: p.Sampling = None,
    prompt: p.Prompt = None,
    price: p.Price = None,
    self_test: bool = False,
    reuse: p.Reuse = None,
    scoring: p.Scoring = None,
    tracking_uri: p.TrackingUri = None,
) -> Evaluation:
    """Let judge models grade stored answers: generate the missing verdicts, then publish, score and track them.

    Args:
        judges: Models that judge, one after the other; each makes an answer set of its own.
        answer_sets: Ids of answer sets, models or aliases. Empty: all answers whose headline number comes from a judge.
        rubric: accuracy_style, correct, criteria, pairwise, or the path of a Jinja file. None: the benchmark's.
        baseline: Other side of the rubric `pairwise`: answer set id, model or alias. None: no other side.
        criteria: YAML or JSON file for the rubric `criteria`. None: the criteria are stored with the questions.
        limit: Number of questions whose answers are judged, spread evenly. None: all.
        judge_repeats: Verdicts on each answer; more than one shows how often a judge changes its verdict.
        engine: Engine that runs the judges. None: vLLM on the worker's machine with its defaults.
        sampling: Decoding settings. None: greedy, or the model's own if it reasons before it answers.
        prompt: Format, system message and reasoning of the judges. None: the defaults.
        price: Price of the judges' tokens. None: no cost is shown.
        self_test: Judge answers of regrade's own, some of which tell the judge what to say.
        reuse: Use of stored verdicts. None: they are kept, and failed requests are sent again.
        scoring: Options of scoring, such as the smallest share of answers with a verdict. None: the defaults.
    """
    job = make_job(JudgeJob, locals())
    prepare()  # imports MLflow while the engine loads
    evaluation = judge_stored(job)
    check_answered(evaluation)
    return evaluation

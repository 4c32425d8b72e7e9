"""`regrade evaluate`, `generate` and `score`: run a flow in this process."""

import os
from functools import partial

from regrade.cli.checking import job_of
from regrade.cli.command_list import command
from regrade.cli.flow_run import print_result, run_flow
from regrade.cli.job_options import JobOptions
from regrade.cli.options import MetricsPort
from regrade.cli.output import TABLE, Output, open_answers
from regrade.cli.verdict_files import NO_FILES, VerdictFiles
from regrade.comparing.checking import begin_evaluation, plans_to_score
from regrade.comparing.gate_report import GateReport
from regrade.comparing.sides import named_id
from regrade.jobs.job import EvaluationJob, GenerationJob, ScoringJob
from regrade.jobs.plans_of_job import begin
from regrade.processes.metrics_endpoint import PORT_VARIABLE
from regrade.results.results import Evaluation, NotPassedError
from regrade.settings import ANSWER_SET_START
from regrade.settings.errors import SettingsError


class EvaluateOptions(JobOptions, job=EvaluationJob, without=("machines",)):
    """Options of `regrade evaluate`: machines that share the work need workers of a server."""


class GenerateOptions(JobOptions, job=GenerationJob):
    """Options of `regrade generate`."""


class ScoreOptions(JobOptions, job=ScoringJob):
    """Options of `regrade score`."""


@command(
    group="Get answers",
    runs_flow=True,
    codes="0 done, and with `--baseline` the verdict is pass; 1 failed, or another verdict; 2 bad usage or input, 130 interrupted, 143 stopped",
)
def evaluate(
    options: EvaluateOptions | None = None,
    *,
    metrics_port: MetricsPort = None,
    files: VerdictFiles = NO_FILES,
    output: Output = TABLE,
) -> None:
    """Evaluate a model: generate missing answers, publish, score and track them.

    Examples:
        evaluate --model org/model --benchmark gsm8k --limit 50
        evaluate --model org/model --benchmark mmlu --temperature 0.7 --repeats 4
        evaluate --model served --engine openai --base-url http://127.0.0.1:8000/v1 --benchmark gsm8k_chat
        evaluate --model run/checkpoint-* --benchmark gsm8k
        evaluate --model ./checkpoint-500 --benchmark mmlu --benchmark gsm8k --answers hf://datasets/ORG/NAME
        evaluate --model org/model --benchmark mmlu --baseline baseline --max-drop 1 --stop-when-sure
        evaluate --config evaluation.yaml
    """
    job = job_of(EvaluationJob, options or EvaluateOptions())
    if "sleep" in job.between:
        job.engine.able_to_sleep()
    _serve_metrics(metrics_port)
    check = partial(begin_evaluation, job)
    gate = job.gate if job.follow is None else None  # a followed model has a gate of its own
    if gate is None:
        if chosen := files.chosen():
            raise SettingsError(
                f"`{chosen[0]}` is for a verdict: name a baseline with `--baseline`, and leave out `--follow`, "
                "with which each model has its own."
            )
        found = run_flow("evaluate_model", Evaluation, job, output, check, job)
    else:
        with files.written("evaluate") as verdicts:
            found = run_flow("evaluate_model", Evaluation, job, output, check, job, verdicts)
            if not verdicts:  # these answers are the first baseline
                files.write_first(gate.baseline, found)
        if verdicts and isinstance(judged := verdicts[-1], GateReport):
            files.write_html(judged)
    if job.follow is None:  # otherwise each was printed when it was done
        print_result(found, output)
    if found.gate is not None and found.gate.verdict != "pass":
        raise NotPassedError(found.gate.summary)


@command(group="Get answers", noun="answers", runs_flow=True)
def generate(
    options: GenerateOptions | None = None,
    *,
    metrics_port: MetricsPort = None,
    output: Output = TABLE,
) -> None:
    """Generate and publish missing answers, without scoring them.

    Examples:
        generate --model org/model --benchmark gsm8k --temperature 0.7 --repeats 8
        generate --model org/model --benchmark mmlu --limit 50 --max-tokens 2048
    """
    job = job_of(GenerationJob, options or GenerateOptions())
    _serve_metrics(metrics_port)
    check = partial(begin, plans_to_score, job)
    print_result(run_flow("generate_answers", Evaluation, job, output, check, job), output)


@command(group="Grade and read")
def score(options: ScoreOptions | None = None, *, output: Output = TABLE) -> None:
    """Score stored answers at one pinned commit, without a model.

    Examples:
        score --scorer my_scorer.py:score
        score --stale
        score --answer-set 1f0c6a2b --force
        score --benchmark gsm8k --since 2026-09-01
        score --answers hf://datasets/ORG/NAME --model org/model
    """
    job = job_of(ScoringJob, options or ScoreOptions())
    if job.answer_set is not None and ANSWER_SET_START.fullmatch(job.answer_set) is None:
        repository, revision = open_answers(job.answers)
        found = named_id(repository, revision, job.answer_set)
        job = job.model_copy(update={"answer_set": found})
    print_result(run_flow("score_answers", Evaluation, job, output, lambda: None), output, job)


def _serve_metrics(port: int | None) -> None:
    """Set the port of the metrics; the flow begins to serve them once it has planned."""
    if port is not None:
        if not 0 <= port <= 65535:
            raise SettingsError(f"`--metrics-port {port}` should be a port from 1 to 65535.")
        os.environ[PORT_VARIABLE] = str(port)

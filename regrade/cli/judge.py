"""`regrade judge`: let judge models grade stored answers."""

from regrade.cli.checking import job_of
from regrade.cli.command_list import command
from regrade.cli.flow_run import print_result, run_flow
from regrade.cli.job_options import JobOptions
from regrade.cli.output import TABLE, Output
from regrade.jobs.job import JudgeJob
from regrade.results.results import Evaluation


class JudgeOptions(JobOptions, job=JudgeJob):
    """Options of `regrade judge`."""


@command(group="Grade and read", noun="judges", runs_flow=True)
def judge(*answer_set: str, options: JudgeOptions | None = None, output: Output = TABLE) -> None:
    """Let judge models grade stored answers, and keep their verdicts as answer sets of their own.

    Args:
        answer_set: Id of an answer set (the first digits are enough), model or alias. Default: all answers that wait for a judge.

    Examples:
        judge --judge org/judge-32b
        judge 1f0c6a2b --judge org/judge-32b --rubric accuracy_style --judge-repeats 3
        judge 1f0c6a2b --judge served --rubric pairwise --baseline baseline --engine openai --base-url http://127.0.0.1:8000/v1
        judge --judge org/judge-32b --self-test
    """
    job = job_of(JudgeJob, options or JudgeOptions(), answer_sets=answer_set)
    print_result(run_flow("judge_answers", Evaluation, job, output), output)

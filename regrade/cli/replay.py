"""`regrade replay`: read stored answers again, with another model or other settings."""

from regrade.cli.checking import job_of
from regrade.cli.command_list import command
from regrade.cli.flow_run import run_flow
from regrade.cli.job_options import JobOptions
from regrade.cli.output import TABLE, Output
from regrade.comparing.replay import Replay, blocks
from regrade.jobs.replay import ReplayJob


class ReplayOptions(JobOptions, job=ReplayJob):
    """Options of `regrade replay`."""


@command(group="Compare and decide", noun="answers", runs_flow=True)
def replay(
    answer_set: str, *, options: ReplayOptions | None = None, output: Output = TABLE
) -> None:
    """Read stored answers with another model, and say whether it is the same up to noise.

    Nothing is generated: each answer is one pass. The model that answered reads them, too, as the measure.

    Args:
        answer_set: Answer set id (the first digits are enough), model or alias.

    Examples:
        replay 1f0c6a2b --model org/model-fp8
        replay 1f0c6a2b --limit 200 --engine.kv-cache-dtype fp8
        replay 1f0c6a2b --own-model run/checkpoint-500 --model run/checkpoint-500-awq --json
    """
    job = job_of(ReplayJob, options or ReplayOptions(), answer_set=answer_set)
    result = run_flow("replay_answers", Replay, job, output)
    document = {"verdict": result.verdict, **result.model_dump(mode="json")}
    output.show(document, lambda: blocks(result))

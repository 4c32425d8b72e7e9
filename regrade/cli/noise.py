"""`regrade noise`: ask a model the same questions again, and measure what an unchanged model changes."""

from functools import partial

from regrade.cli.checking import job_of
from regrade.cli.command_list import command
from regrade.cli.flow_run import run_flow
from regrade.cli.job_options import JobOptions
from regrade.cli.output import TABLE, Output
from regrade.comparing.checking import begin_evaluation
from regrade.comparing.job import NoiseJob
from regrade.comparing.noise import NoiseReport
from regrade.comparing.noise_text import blocks


class NoiseOptions(JobOptions, job=NoiseJob, without=("model",)):
    """Options of `regrade noise`."""


@command(group="Compare and decide", noun="settings", runs_flow=True)
def noise(
    model: str | None = None, *, options: NoiseOptions | None = None, output: Output = TABLE
) -> None:
    """Ask a model the same questions again, and measure what an unchanged model changes.

    The first answers are those that are stored, or they are generated as `regrade evaluate` does. The others are kept beside them and
    are no result. On another machine, or with another `--in-flight` or `--order`, the questions are asked once more.

    Args:
        model: Model on the Hub (`org/name` or `org/name@revision`), or the folder of a checkpoint. Required, here or in the
            `--config` file.

    Examples:
        noise org/model --benchmark gsm8k
        noise org/model --benchmark gsm8k --in-flight 1 --limit 200
    """
    job = job_of(NoiseJob, options or NoiseOptions(), model=model)
    job.check_invariance()
    check = partial(begin_evaluation, job)
    report = run_flow("measure_noise", NoiseReport, job, output, check, job)
    output.show(report, lambda: blocks(report))

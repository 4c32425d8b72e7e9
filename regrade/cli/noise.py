"""`regrade noise`: ask a model the same questions again, and measure what an unchanged model changes."""

from functools import partial
from typing import TYPE_CHECKING

from regrade.cli.checking import job_of
from regrade.cli.flow_run import run_flow
from regrade.cli.job_options import JobOptions, options_for
from regrade.cli.output import TABLE, Output
from regrade.cli.short_help import RUN_OPTIONS, short_help
from regrade.cli.terminal import print_blocks
from regrade.comparing.checking import begin_evaluation
from regrade.comparing.job import NoiseJob
from regrade.comparing.noise import NoiseReport
from regrade.comparing.noise_text import blocks

if TYPE_CHECKING:
    NoiseOptions = JobOptions
else:
    NoiseOptions = options_for(NoiseJob, without=("model",))


@short_help(
    "--benchmark", "--suite", "--limit", "--in-flight", "--order", "--examples", *RUN_OPTIONS
)
def noise(
    model: str | None = None, *, options: NoiseOptions | None = None, output: Output = TABLE
) -> None:
    """Ask a model the same questions again, and measure what an unchanged model changes.

    The first answers are those that are stored, or they are generated as `regrade evaluate` does. The others are kept beside them and
    are no result. On another machine, or with another `--in-flight` or `--order`, the questions are asked once more.

    Args:
        model: Model on the Hub (`org/name` or `org/name@revision`), or the folder of a checkpoint. Required, here or in the
            `--config` file.
    """
    job = job_of(NoiseJob, options or NoiseOptions(), model=model)
    job.check_invariance()
    check = partial(begin_evaluation, job)
    report = run_flow("measure_noise", NoiseReport, job, output, check, job)
    output.show(report, lambda: print_blocks(blocks(report)))

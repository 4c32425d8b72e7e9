"""`regrade tune`: find the fastest engine settings."""

from functools import partial

from regrade.cli.checking import job_of
from regrade.cli.command_list import command
from regrade.cli.flow_run import run_flow
from regrade.cli.job_options import JobOptions
from regrade.cli.output import TABLE, Output
from regrade.tuning.search.job import TuneJob, begin_tuning
from regrade.tuning.search.result import TuneResult, blocks


class TuneOptions(JobOptions, job=TuneJob):
    """Options of `regrade tune`."""


@command(group="Get answers", noun="settings", runs_flow=True)
def tune(options: TuneOptions | None = None, *, output: Output = TABLE) -> None:
    """Find the fastest engine settings for a model, this machine and a kind of workload; the answers made are kept.

    Examples:
        tune --model org/model --benchmark gsm8k
        tune --model org/model --benchmark gsm8k --limit 200 --max-tokens 512 --ttft-p99 2 --tpot-p99 0.05
    """
    job = job_of(TuneJob, options or TuneOptions())
    result = run_flow("tune_settings", TuneResult, job, output, partial(begin_tuning, job), job)
    output.show(result, lambda: blocks(result))

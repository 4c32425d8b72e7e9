"""`regrade tune`: find the fastest engine settings."""

from typing import Annotated

from cyclopts import Group, Parameter

from regrade.cli.checking import check_generation, checked_job
from regrade.cli.flow_run import run_flow
from regrade.cli.generation_options import GenerationOptions
from regrade.cli.output import TABLE, Output
from regrade.cli.terminal import plain, print_table, stdout
from regrade.tuning.search.job import TuneJob, TuneResult
from regrade.tuning.search.text import COLUMNS, TEXT_COLUMNS, lines, trial_rows

SEARCH = Group("Search", sort_key=0)


def tune(
    options: GenerationOptions | None = None,
    *,
    ttft_p99: Annotated[float | None, Parameter(group=SEARCH)] = None,
    tpot_p99: Annotated[float | None, Parameter(group=SEARCH)] = None,
    e2el_p99: Annotated[float | None, Parameter(group=SEARCH)] = None,
    starts: Annotated[int | None, Parameter(group=SEARCH)] = None,
    most_in_flight: Annotated[int | None, Parameter(group=SEARCH)] = None,
    output: Output = TABLE,
) -> None:
    """Find the fastest engine settings for a model, this machine and a kind of workload; the answers made are kept.

    Args:
        ttft_p99: Largest accepted time to first token, as 99th percentile in seconds.
        tpot_p99: Largest accepted time per output token, as 99th percentile in seconds.
        e2el_p99: Largest accepted time until the last token, as 99th percentile in seconds.
        starts: Most engine starts; 4 if not given.
        most_in_flight: Most requests in flight to try; as many as fit if not given.
    """
    chosen = (options or GenerationOptions()).parameters()
    limits = {"ttft_p99": ttft_p99, "tpot_p99": tpot_p99, "e2el_p99": e2el_p99}
    if given := {name: value for name, value in limits.items() if value is not None}:
        chosen["limits"] = {**(chosen.get("limits") or {}), **given}
    numbers = {"starts": starts, "most_in_flight": most_in_flight}
    chosen |= {name: value for name, value in numbers.items() if value is not None}
    for name in ("tracking_uri", "scorer", "scoring"):  # a file may serve `evaluate` too
        chosen.pop(name, None)
    check_generation(checked_job(TuneJob, chosen, options.config if options else None))
    result = run_flow("tune_settings", TuneResult, chosen, quiet=output.quiet)
    output.show(result, lambda: print_tuning(result))


def print_tuning(result: TuneResult) -> None:
    """Print the measurements and the result on stdout."""
    text = (COLUMNS[0], *TEXT_COLUMNS)  # also the parts below begin with the start
    print_table(COLUMNS, trial_rows(result.tuning), text=text, lists=("settings",))
    stdout.print()
    for line in lines(result):
        stdout.print(plain(line))

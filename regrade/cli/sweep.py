"""`regrade sweep`: an evaluation at each point of a grid of settings."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from cyclopts import App

from regrade.cli.checking import check_generation, checked_job
from regrade.cli.flow_run import run_flow
from regrade.cli.generation_options import GenerationOptions
from regrade.cli.options import Processes, Sandbox, TrackingUri, scoring_options
from regrade.cli.output import TABLE, Output
from regrade.cli.terminal import plain, print_table, print_wrapped, stdout
from regrade.cli.values import VALUES, several_values
from regrade.errors import SettingsError
from regrade.reporting.sweeps import (
    LATENCY_COLUMNS,
    RESULT_COLUMNS,
    latency_rows,
    notes,
    result_rows,
    sentences,
    setting_columns,
)
from regrade.sweeping.axes import Axis
from regrade.sweeping.points import SweepJob, check_address
from regrade.sweeping.results import SweepResult


def sweep(*arguments: VALUES) -> None:
    """Evaluate at each point of a grid of settings: speed and accuracy, compared with the first point.

    Takes the options of `regrade evaluate`. Those of models, sampling, prompts and engines may have several values,
    separated by commas, or given repeatedly if they are names, paths or texts. All combinations are measured.

    `--in-flight N,N,...`: requests at a time, all with one engine start. The value `default` leaves an option out.
    `--in-flight` and `axes` may also be in the `--config` file. The same command continues a sweep that was stopped.
    """
    fixed, axes, in_flight = several_values(arguments)
    app = App(name="regrade sweep", help_flags=(), version_flags=())

    @app.default
    def run(
        options: GenerationOptions | None = None,
        *,
        scorer: str | None = None,
        sandbox: Sandbox = None,
        processes: Processes = None,
        tracking_uri: TrackingUri = None,
        output: Output = TABLE,
    ) -> None:
        chosen = (options or GenerationOptions()).parameters()
        given = {"scorer": scorer, "tracking_uri": tracking_uri}
        chosen |= {name: value for name, value in given.items() if value is not None}
        if scoring := scoring_options(sandbox, processes):
            chosen["scoring"] = {**(chosen.get("scoring") or {}), **scoring}
        if in_flight:
            chosen["in_flight"] = in_flight
        chosen["axes"] = _merged(chosen.get("axes") or (), axes)
        _check(chosen, options.config if options else None)
        result = run_flow("sweep_settings", SweepResult, chosen, quiet=output.quiet)
        output.show(result, lambda: print_sweep(result))

    app(fixed, exit_on_error=False, print_error=False, result_action="return_none")


def _merged(of_file: Any, given: Sequence[Axis]) -> tuple[dict[str, Any], ...]:  # noqa: ANN401
    """Return the axes of a file and of the command line, which replace those of the same setting."""
    if not isinstance(of_file, list | tuple):
        raise SettingsError("`axes:` should be a list of `setting:` and `values:`.")
    named = {axis.setting for axis in given}
    kept = [
        entry
        for entry in of_file
        if not (isinstance(entry, dict) and entry.get("setting") in named)
    ]
    for entry in kept:
        if isinstance(entry, dict) and isinstance(entry.get("values"), list):
            entry["values"] = [_word(value) for value in entry["values"]]
    return (*kept, *(axis.model_dump() for axis in given))


def _word(value: object) -> str:
    """Return a value of a YAML file as its text: YAML 1.1 reads `on` and `off` as true and false."""
    return {True: "on", False: "off"}[value] if isinstance(value, bool) else str(value)


def _check(parameters: dict[str, Any], file: Path | None) -> None:
    """Refuse what the flow would refuse, before a server for it is started."""
    job = checked_job(SweepJob, parameters, file)
    check_address(job)
    for point in job.points():
        try:
            first = point.job()
        except SettingsError:
            continue  # a row of the result
        check_generation(first)
        return


def print_sweep(sweep: SweepResult) -> None:
    """Print the tables of a sweep on stdout."""
    names = setting_columns(sweep)
    for benchmark in sweep.benchmarks:
        stdout.print(f"[bold]{plain(benchmark)}[/]")
        rows = result_rows(sweep, benchmark)
        print_table((*names, *RESULT_COLUMNS), rows, text=names, settings=names)
        if latencies := list(latency_rows(sweep, benchmark)):
            stdout.print()
            columns = (*names, *LATENCY_COLUMNS)
            print_table(columns, latencies, text=(*names, "ms"), settings=names)
        _print_lines(sentences(sweep, benchmark), "")
        _print_lines(notes(sweep, benchmark), "yellow")
        stdout.print()
    if sweep.folder is not None:
        stdout.print(plain(f"page and plots: {sweep.folder}/sweep.md"))


def _print_lines(lines: Iterable[str], style: str) -> None:
    for line in lines:
        print_wrapped(line, style)

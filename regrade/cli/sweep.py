"""`regrade sweep`: an evaluation at each point of a grid of settings."""

import shlex
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Annotated, Any

from cyclopts import App, Parameter
from pydantic import ValidationError

from regrade.cli.checking import checked_job
from regrade.cli.command_list import command
from regrade.cli.commands import without_rounding
from regrade.cli.flow_run import run_flow
from regrade.cli.job_options import JobOption, JobOptions, options_of, words_of
from regrade.cli.output import TABLE, Output
from regrade.comparing.checking import begin_evaluation
from regrade.jobs.job import EvaluationJob
from regrade.jobs.plan import Plan
from regrade.jobs.plans_of_job import check_model
from regrade.settings.errors import SettingsError
from regrade.settings.marks import FREE_TEXT, PATH
from regrade.settings.problems import one_line
from regrade.text.blocks import Block, Line, Link
from regrade.tuning.sweep.axes import DEFAULT, Axis, settings_that_vary
from regrade.tuning.sweep.points import SweepJob, check_address
from regrade.tuning.sweep.results import SweepResult
from regrade.tuning.sweep.text import blocks

# Options with several values: axes of a sweep, split off the arguments before the rest is parsed.

VALUES = Annotated[str, Parameter(show=False, allow_leading_hyphen=True)]
IN_FLIGHT = "--in-flight"


class SweepOptions(JobOptions, job=SweepJob):
    """Options of `regrade sweep`."""


def several_values(arguments: Sequence[str]) -> tuple[list[str], list[Axis], list[int]]:
    """Split the options with several values off.

    Returns:
        The other arguments, with the first value of each axis; the axes in the order given; the requests in flight.

    Raises:
        SettingsError: If requests in flight are no numbers, or a value is given twice.
    """
    options = dict(_options())
    values: dict[JobOption, list[str]] = {}
    in_flight: list[int] = []
    others: list[str] = []
    left = list(arguments)
    while left:
        argument = left.pop(0)
        name, equals, value = argument.partition("=")
        name = name.replace("_", "-")
        known = name in options or name == IN_FLIGHT
        if not known or (not equals and (not left or left[0].startswith("--"))):
            others.append(argument)
            continue
        text = value if equals else left.pop(0)
        if name == IN_FLIGHT:
            in_flight += whole_numbers(IN_FLIGHT, text)
            continue
        option = options[name]
        parts = [text] if _holds_commas(option) else [part.strip() for part in text.split(",")]
        values.setdefault(option, []).extend(parts)
    axes = []
    for option, given in values.items():
        if len(given) > 1:
            axes.append(_axis(option.setting, given))
        if given[0] != DEFAULT:
            others.append(f"{option.names[0]}={given[0]}")
    return others, axes, in_flight


def whole_numbers(option: str, text: str) -> list[int]:
    """Return the numbers of a list such as `1,4,16`.

    Raises:
        SettingsError: If one is not a whole number above 0.
    """
    numbers = [part.strip() for part in text.split(",")]
    if any(not number.isdecimal() or int(number) < 1 for number in numbers):
        raise SettingsError(f"`{option} {text}` should be whole numbers above 0, such as `1,4,16`.")
    return [int(number) for number in numbers]


def _axis(setting: str, values: Sequence[str]) -> Axis:
    try:
        return Axis(setting=setting, values=tuple(values))
    except ValidationError as error:
        raise SettingsError(f"Axis '{setting}': {one_line(error)}") from error


def _options() -> Iterator[tuple[str, JobOption]]:
    """Yield the options of everything that may have several values."""
    known = settings_that_vary()
    for option in options_of(SweepJob):
        if option.setting in known and not option.is_list:
            yield from ((name, option) for name in option.names)


def _holds_commas(option: JobOption) -> bool:
    """Return True for names, paths and texts, which are given repeatedly."""
    return any(mark in option.info.metadata for mark in (PATH, FREE_TEXT))


@command(group="Get answers", noun="settings", runs_flow=True)
def sweep(*arguments: VALUES) -> None:
    """Evaluate at each point of a grid of settings: speed and accuracy, compared with the first point.

    Takes the options of `regrade evaluate`. Those of models, sampling, prompts and engines may have several values,
    separated by commas, or given repeatedly if they are names, paths or texts. All combinations are measured.

    The value `default` leaves an option out. `--in-flight` and `axes` may also be in the `--config` file. The same command continues a sweep that was stopped.

    Examples:
        sweep --model org/model --benchmark gsm8k --in-flight 1,4,16
        sweep --model org/model --model org/other --benchmark gsm8k --engine.quantization default,fp8
    """
    fixed, axes, in_flight = several_values(arguments)
    app = App(
        name="regrade sweep",
        help_flags=(),
        version_flags=(),
        suppress_keyboard_interrupt=False,
        default_parameter=Parameter(converter=without_rounding),
    )

    @app.default
    def run(options: SweepOptions | None = None, *, output: Output = TABLE) -> None:
        options = options or SweepOptions()
        chosen = options.parameters()
        if in_flight:
            chosen["in_flight"] = in_flight
        chosen["axes"] = _merged(chosen.get("axes") or (), axes)
        job = checked_job(SweepJob, chosen, options.config)
        first = job.points()[0].job()
        result = run_flow(
            "sweep_settings", SweepResult, job, output, partial(_begin, job, first), first
        )
        output.show(result, lambda: _page(result))

    app(fixed, exit_on_error=False, print_error=False, result_action="return_none")


def with_options(
    options: SweepOptions | None = None,
    *,
    in_flight: Annotated[
        str | None,
        Parameter(
            help="Numbers of requests at a time, such as `1,4,16`, all with one engine start."
        ),
    ] = None,
    output: Output = TABLE,
) -> None:
    """Stand for `sweep` in its help, which lists options that `sweep` splits off itself."""


with_options.__doc__ = sweep.__doc__


def command_of(job: SweepJob) -> str:
    """Return the command that makes a sweep."""
    of_file = ["--config", "FILE"] if job.datasets else []  # several datasets have no options
    words = [*of_file, *words_of(job, {"folder", *(axis.setting for axis in job.axes)})]
    options = {option.setting: (name, option) for name, option in _options()}
    for axis in job.axes:
        name, option = options[axis.setting]
        values = axis.values if _holds_commas(option) else [",".join(axis.values)]
        words += [word for value in values for word in (name, value)]
    if job.in_flight:
        words += ["--in-flight", ",".join(map(str, job.in_flight))]
    return shlex.join(["regrade", "sweep", *words])


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


def _begin(job: SweepJob, first: EvaluationJob) -> list[Plan] | None:
    """Check the models of all points, and plan the first one."""
    check_address(job)
    for point in job.points():
        check_model(job.engine, point.parameters["model"])
    return begin_evaluation(first)


def _page(sweep: SweepResult) -> list[Block]:
    place = (
        []
        if sweep.folder is None
        else [Line(("page and plots: ", Link(f"{sweep.folder}/sweep.md", None)))]
    )
    return [*blocks(sweep, {}), *place]

"""`regrade sweep`: an evaluation at each point of a grid of settings."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

from cyclopts import App, Parameter
from pydantic import ValidationError

from regrade.cli.checking import check_generation, checked_job
from regrade.cli.flow_run import run_flow
from regrade.cli.generation_options import GenerationOptions
from regrade.cli.options import Processes, Sandbox, TrackingUri, scoring_options
from regrade.cli.output import TABLE, Output
from regrade.cli.terminal import plain, print_table, print_wrapped, stdout
from regrade.engines.openai_api.settings import ServerSettings
from regrade.engines.vllm_process.settings import VllmSettings
from regrade.settings import PromptSettings, SamplingParams, Settings
from regrade.settings.errors import SettingsError
from regrade.settings.problems import one_line
from regrade.tuning.sweep.axes import DEFAULT, Axis
from regrade.tuning.sweep.points import SweepJob, check_address
from regrade.tuning.sweep.results import SweepResult
from regrade.tuning.sweep.text import (
    LATENCY_COLUMNS,
    RESULT_COLUMNS,
    latency_rows,
    notes,
    result_rows,
    sentences,
    setting_columns,
)

# Options with several values: axes of a sweep, split off the arguments before the rest is parsed.

VALUES = Annotated[str, Parameter(show=False, allow_leading_hyphen=True)]
IN_FLIGHT = "--in-flight"
_TEXTS = ("model", "engine.lora", "prompt.system", "prompt.chat_template")
"""Settings whose values may contain commas: they are given repeatedly."""
_LISTS = ("sampling.stop", "prompt.chat_template_args", "engine.extra", "engine.base_url")
"""Settings that are lists: several values are a single setting."""

_NOT_VARIED = ("engine.max_concurrency", "engine.more_base_urls", "engine.tuned")


def several_values(arguments: Sequence[str]) -> tuple[list[str], list[Axis], list[int]]:
    """Split the options with several values off.

    Returns:
        The other arguments, with the first value of each axis; the axes in the order given; the requests in flight.

    Raises:
        SettingsError: If requests in flight are no numbers, or a value is given twice.
    """
    options = dict(_options())
    values: dict[str, list[str]] = {}
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
        setting = options[name]
        parts = [text] if setting in _TEXTS else [part.strip() for part in text.split(",")]
        values.setdefault(name, []).extend(parts)
    axes = []
    for name, given in values.items():
        if len(given) > 1:
            axes.append(_axis(options[name], given))
        if given[0] != DEFAULT:
            others.append(f"{name}={given[0]}")
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


def _options() -> Iterator[tuple[str, str]]:
    """Yield option and setting of everything that may have several values."""
    yield from (("--model", "model"), ("--repeats", "repeats"), ("--lora", "engine.lora"))
    yield "--sampling", "sampling.defaults"
    groups: tuple[tuple[str, str, type[Settings]], ...] = (
        ("--", "sampling", SamplingParams),
        ("--", "prompt", PromptSettings),
        ("--engine.", "engine", VllmSettings),
        ("--", "engine", ServerSettings),
    )
    for prefix, group, fields in groups:
        for name in fields.model_fields:
            if f"{group}.{name}" not in (*_LISTS, *_NOT_VARIED):
                yield f"{prefix}{_dashed(name)}", f"{group}.{name}"


def _dashed(name: str) -> str:
    return name.replace("_", "-")


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

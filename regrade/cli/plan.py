"""`regrade plan`."""

from pathlib import Path
from typing import Annotated

from cyclopts import Group, Parameter

from regrade.cli.checking import check_names, checked_job
from regrade.cli.generation_options import GenerationOptions, VllmOptions
from regrade.cli.options import ENGINE, PROMPT, SAMPLING, WHERE
from regrade.cli.output import TABLE, Output
from regrade.cli.terminal import log_to, plain, print_table, stderr, stdout
from regrade.jobs.job import EvaluationJob
from regrade.results.display import log_file
from regrade.settings import PromptSettings, SamplingDefaults, SamplingParams
from regrade.tuning.plan.plan import MemoryPlan
from regrade.tuning.plan.planner import make_memory_plan
from regrade.tuning.plan.request import PlanRequest
from regrade.tuning.plan.text import (
    COLUMNS,
    TEXT_COLUMNS,
    fact_lines,
    headline,
    plan_rows,
    refused_lines,
)

_GPUS = Group("The machine (default: this one)", sort_key=1)
_LENGTH = Group("The length of requests (default: the model's limit)", sort_key=1.5)


def plan(
    model: str | None = None,
    *,
    config: Annotated[
        Path | None,
        Parameter(
            group=_LENGTH,
            help="YAML file with parameters, as for `evaluate`; model, benchmarks, sampling, prompt and engine are used.",
        ),
    ] = None,
    gpus: Annotated[
        int | None,
        Parameter(group=_GPUS, help="Number of GPUs. Default: all of this machine, else 1."),
    ] = None,
    gpu: Annotated[
        str | None, Parameter(group=_GPUS, help="Kind of GPU, such as `h100` or `l40s`.")
    ] = None,
    gpu_memory: Annotated[
        str | None,
        Parameter(group=_GPUS, help="Memory of a GPU instead of its kind, such as `80GiB`."),
    ] = None,
    max_model_len: Annotated[
        int | None, Parameter(group=_LENGTH, help="Tokens of prompt and answer together.")
    ] = None,
    benchmark: Annotated[
        tuple[str, ...],
        Parameter(
            group=_LENGTH,
            help="Benchmark whose longest prompt and answer decide the length. May be given several times.",
        ),
    ] = (),
    source: Annotated[
        tuple[str, ...],
        Parameter(
            group=_LENGTH,
            help="`BENCHMARK=PATH`: read a benchmark's questions from a file or folder instead of the Hub.",
        ),
    ] = (),
    sampling: Annotated[
        SamplingDefaults | None,
        Parameter(
            name="--sampling",
            group=SAMPLING,
            help="Defaults: of the model, of the benchmark, or `auto`.",
        ),
    ] = None,
    sampling_params: Annotated[
        SamplingParams | None, Parameter(name="*", group=SAMPLING, show_default=False)
    ] = None,
    prompt: Annotated[
        PromptSettings | None, Parameter(name="*", group=PROMPT, show_default=False)
    ] = None,
    vllm: Annotated[
        VllmOptions | None, Parameter(name="--engine", negative_bool="no-", group=ENGINE)
    ] = None,
    answers: Annotated[
        str | None,
        Parameter(
            group=WHERE,
            help="Answer repository with earlier starts, which replace the assumed margin. Default: REGRADE_ANSWERS, else "
            "`./answers`.",
        ),
    ] = None,
    output: Output = TABLE,
) -> None:
    """Plan a model's memory: the splits of GPUs that fit, and how many requests they hold.

    No weights are read, and no GPU is needed: vLLM builds its own model from `config.json`, without weights. The exit code is 1
    if nothing fits.

    Args:
        model: Model on the Hub (`org/name` or `org/name@revision`), or a folder with at least its config.json. Required, here or in
            the `--config` file.
    """
    options = GenerationOptions(
        model=model,
        config=config,
        benchmark=benchmark,
        source=source,
        sampling=sampling,
        sampling_params=sampling_params,
        prompt=prompt,
        vllm=vllm,
        answers=answers,
    )
    chosen = options.parameters()
    known = PlanRequest.model_fields.keys() | EvaluationJob.model_fields.keys()
    check_names(chosen, known, config)  # a file may serve `evaluate` too
    if max_model_len is not None and not benchmark and not source:
        for name in ("benchmarks", "datasets", "lm_eval", "sources"):  # of the file
            chosen.pop(name, None)
    given = {"gpus": gpus, "gpu": gpu, "gpu_memory": gpu_memory, "max_model_len": max_model_len}
    chosen |= {name: value for name, value in given.items() if value is not None}
    of_plan = {name: value for name, value in chosen.items() if name in PlanRequest.model_fields}
    job = checked_job(PlanRequest, of_plan, config)
    log_to(log_file("regrade"), quiet=True)
    with stderr.status("planning") as status:
        if output.quiet:
            status.stop()
        made = make_memory_plan(
            job,
            log=log_file("plan"),
            on_progress=lambda stage: status.update(plain(stage)),
        )
    output.show(made, lambda: _print(made))
    raise SystemExit(0 if made.choice else 1)


def _print(made: MemoryPlan) -> None:
    for line in fact_lines(made):
        stdout.print(plain(line))
    rows = list(plan_rows(made))
    if rows:
        stdout.print()
        print_table(COLUMNS, rows, text=TEXT_COLUMNS)
    if refused := refused_lines(made):
        stdout.print()
        for line in refused:
            stdout.print(plain(line))
    stdout.print()
    style = "green" if made.choice else "red"
    stdout.print(f"[bold {style}]{plain(headline(made))}[/]: {plain(made.advice)}")

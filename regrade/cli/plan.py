"""`regrade plan`."""

from rich.text import Text

from regrade.cli.checking import checked_job
from regrade.cli.command_list import command
from regrade.cli.job_options import JobOptions
from regrade.cli.output import TABLE, Output
from regrade.cli.terminal import log_to, stderr
from regrade.jobs.job import BenchmarkChoice
from regrade.settings.files import log_file
from regrade.text.text import visible
from regrade.tuning.plan.planner import make_memory_plan
from regrade.tuning.plan.request import PlanRequest
from regrade.tuning.plan.text import blocks


class PlanOptions(JobOptions, job=PlanRequest, without=("model",)):
    """Options of `regrade plan`."""


@command(
    group="Get answers",
    noun="settings",
    codes="0 it fits, 1 nothing fits or failed, 2 bad usage or input, 130 interrupted, 143 stopped",
)
def plan(
    model: str | None = None, *, options: PlanOptions | None = None, output: Output = TABLE
) -> None:
    """Plan a model's memory: the splits of GPUs that fit, and how many requests they hold.

    No weights are read, and no GPU is needed: vLLM builds its own model from `config.json`, without weights. The exit code is 1
    if nothing fits.

    Args:
        model: Model on the Hub (`org/name` or `org/name@revision`), or a folder with at least its config.json. Required, here or in
            the `--config` file.

    Examples:
        plan org/model --gpus 8 --gpu h100 --benchmark gsm8k_chat
        plan ./checkpoint --gpu-memory 24GiB --max-model-len 8192 --json
    """
    options = options or PlanOptions()
    chosen = options.parameters()
    if model is not None:
        chosen["model"] = model
    if (
        options.has("max_model_len")
        and not options.has("benchmarks")
        and not options.has("sources")
    ):
        for name in BenchmarkChoice.model_fields:  # of the file
            chosen.pop(name, None)
    job = checked_job(PlanRequest, chosen, options.config)
    log_to(log_file("regrade"), quiet=True)
    with stderr.status("planning") as status:
        if output.quiet:
            status.stop()
        made = make_memory_plan(
            job, log=log_file("plan"), on_progress=lambda stage: status.update(Text(visible(stage)))
        )
    output.show(made, lambda: blocks(made))
    raise SystemExit(0 if made.choice else 1)

"""`regrade harness`."""

from regrade.cli.checking import job_of
from regrade.cli.command_list import command
from regrade.cli.flow_run import run_flow
from regrade.cli.import_answers import show_imports
from regrade.cli.job_options import JobOptions
from regrade.cli.output import TABLE, Output
from regrade.exchange.harness import HarnessJob
from regrade.exchange.importing.importer import Imports


class HarnessOptions(JobOptions, job=HarnessJob, without=("model", "arguments")):
    """Options of `regrade harness`."""


@command(group="Get answers", noun="answers", runs_flow=True)
def harness(
    model: str | None = None,
    arguments: tuple[str, ...] = (),
    /,
    *,
    options: HarnessOptions | None = None,
    output: Output = TABLE,
) -> None:
    """Serve a model, run an external harness against it, and import its results.

    The harness runs on this machine, with the rights of this user. Its files are imported as `regrade import` imports them.

    Args:
        model: Model on the Hub (`org/name` or `org/name@revision`), or a checkpoint's folder. Required, here or in the `--config`
            file.
        arguments: After `--`, what follows the command of `--harness`, such as a task; without it, program and arguments.
            `{base_url}`, `{model}` and `{output}` stand for the server's address, the model's name there, and the folder whose
            files are imported.

    Examples:
        harness org/model --harness inspect --engine.tool-parser hermes -- inspect_evals/gaia --limit 20
        harness org/model --harness harbor -- --dataset terminal-bench@2.0 --agent terminus-2
        harness org/model -- my-agent --url {base_url} --model {model} --out {output}
    """
    job = job_of(HarnessJob, options or HarnessOptions(), model=model, arguments=arguments)
    show_imports(run_flow("run_harness", Imports, job, output), job.answers, output)

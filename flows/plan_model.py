"""Flow `plan-model`: which splits of GPUs a model fits on, and how many requests they hold."""

from pathlib import Path

from prefect import flow
from prefect.runtime import flow_run

from flows import parameters as p
from regrade.engines.vllm import VllmEngine
from regrade.jobs.job import make_job
from regrade.orchestration.form import form
from regrade.tuning.plan.plan import MemoryPlan
from regrade.tuning.plan.request import GpuName, PlanRequest
from tasks.plan_memory import plan_memory


def run_name() -> str:
    """Name of the flow run: `<model> on <GPUs>`; a folder is shortened to its last two parts."""
    parameters = flow_run.parameters
    model = str(parameters["model"])
    if Path(model).is_absolute():
        model = "/".join(Path(model).parts[-2:])
    memory = parameters.get("gpu_memory")
    kind = parameters.get("gpu") or (f"GPUs of {memory}" if memory else "this machine")
    gpus = parameters.get("gpus")
    return f"{model} on {f'{gpus} x ' if gpus else ''}{kind}"


@form(
    gpus={"title": "Number of GPUs", "minimum": 1},
    gpu={"title": "Kind of GPU"},
    gpu_memory={"title": "Memory of a GPU"},
    max_model_len={"title": "Tokens of a request", "minimum": 1},
)
@flow(name="plan-model", flow_run_name=run_name)
def plan_model(
    model: p.Model,
    gpus: int | None = None,
    gpu: GpuName | None = None,
    gpu_memory: str | None = None,
    max_model_len: int | None = None,
    benchmarks: p.Benchmarks = (),
    limit: p.Limit = None,
    datasets: p.Datasets = None,
    lm_eval: p.LmEval = None,
    sources: p.Sources = None,
    sampling: p.Sampling = None,
    prompt: p.Prompt = None,
    engine: VllmEngine | None = None,
    answers: p.Answers = None,
) -> MemoryPlan:
    """Plan a model's memory, without its weights and without a GPU: what fits, and how many requests at a time.

    Args:
        model: Model on the Hub (`org/name` or `org/name@revision`), or a folder with at least its config.json.
        gpus: Number of GPUs. None: 1, or all GPUs of the worker's machine if no kind is given.
        gpu: Kind of GPU. None: that of the worker's machine, or any with the memory below.
        gpu_memory: Memory of a GPU instead of its kind, such as `80GiB`.
        max_model_len: Tokens of prompt and answer together. None: decided by the benchmarks, else the model's limit.
        benchmarks: Benchmarks whose longest prompt and answer decide the length.
        datasets: Benchmarks of your own that decide the length too: a dataset on the Hub or in a file, with a prompt template.
        lm_eval: Tasks of lm-evaluation-harness that decide the length too. None: none.
        sampling: Decoding settings, of which `max_tokens` counts. None: the defaults of each benchmark or of the model.
        engine: Settings of vLLM; parallel sizes that are set are kept. None: its defaults.
        answers: Answer repository with earlier starts, which replace the assumed margin. None: the worker's default.
    """
    return plan_memory(make_job(PlanRequest, locals()))

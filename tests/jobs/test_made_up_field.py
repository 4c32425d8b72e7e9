"""A field of a job is declared once, and every flow, form, command, file, trigger and notebook has it.

`python -m tests.jobs.test_made_up_field FOLDER` prints, as JSON, where a field is found that is a line more in `regrade/jobs/job.py`.
A process of its own, because commands and flows are made of the jobs when they are imported.
"""

import json
import sys
from functools import cache
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from inspect import signature
from pathlib import Path
from typing import Any
from unittest.mock import patch

import yaml
from prefect.utilities.callables import parameter_schema

from tests.command_line import ROOT, regrade, run

CLASS = '    option_group = "What to evaluate"\n'
FIELD = '''
    mood: Annotated[str | None, PATH, VARIES] = Field(None, pattern="^[./a-z]+$", title="State of mind")
    """Mood of the model."""
    team: Annotated[str | None, NOT_MEASURED] = None
    """Machines that help."""
'''
NAME = "regrade.jobs.job"
FLOWS = (
    "evaluate_model",
    "generate_answers",
    "score_answers",
    "sweep_settings",
    "tune_settings",
    "measure_noise",
)
COMMANDS = ("evaluate", "generate", "score", "trigger", "tune")


def declare(folder: Path) -> None:
    """Import the module of the jobs with the field, which is declared nowhere else."""
    source = (ROOT / "regrade" / "jobs" / "job.py").read_text()
    assert source.count(CLASS) == 1
    file = folder / "job.py"
    file.write_text(source.replace(CLASS, CLASS + FIELD))
    spec = spec_from_file_location(NAME, file)
    assert spec is not None
    assert spec.loader is not None
    sys.modules[NAME] = module = module_from_spec(spec)
    spec.loader.exec_module(module)


def of_flow(name: str, parameter: str = "mood") -> Any:
    """Return the field's input in the form of a flow; None if the flow has no such parameter."""
    names, form = _inputs(name)
    assert (parameter in names) == (parameter in form)
    return form.get(parameter)


@cache
def _inputs(flow_name: str) -> tuple[set[str], dict[str, Any]]:
    """Parameters of a flow, and the inputs of its form."""
    flow = getattr(import_module(f"flows.{flow_name}"), flow_name)
    return {*signature(flow.fn).parameters}, parameter_schema(flow).properties


def job_of(*words: str | Path, module: str = "run") -> Any:
    """Return the job with which a command calls its flow."""
    jobs = []

    def run_flow(_name: str, _kind: type, job: Any, *_: object) -> object:
        jobs.append(job)
        sys.exit(0)

    with patch(f"regrade.cli.{module}.run_flow", run_flow):
        ran = regrade(*words)
    assert ran.code == 0, ran.err
    return jobs[0]


def triggered(*words: str) -> Any:
    """Return the parameters that `regrade trigger` sends for a run of `evaluate-model`."""
    sent: list[Any] = []
    with patch("regrade.cli.trigger.run.trigger_run", lambda _, chosen, *__: sent.append(chosen)):
        ran = regrade("trigger", "evaluate-model", *words)
    assert ran.code == 0, ran.err
    return sent[0]


def from_notebook(**parameters: object) -> Any:
    """Return the parameters that `regrade.evaluate` gives to its command."""
    given: list[Any] = []

    def read(words: list[str], _: Path) -> None:
        given.append(yaml.safe_load(Path(words[-1]).read_text()))

    running = import_module("regrade.notebook.running")
    with patch.object(running, "_run_command", read):
        running.evaluate("m", ["gsm8k"], **parameters)
    return given[0]


def found(folder: Path) -> dict[str, Any]:
    """Return where the field is found."""
    file = folder / "job.yaml"
    file.write_text("model: m\nbenchmarks: [gsm8k]\nmood: calm\n")
    what = ("--model", "m", "--benchmark", "gsm8k")
    sweep = job_of("sweep", *what, "--mood", "calm", "--mood", "wild", module="sweep")
    return {
        "flows": {name: of_flow(name) for name in FLOWS},
        "not measured": [name for name in FLOWS if of_flow(name, "team")],
        "help": [
            name for name in COMMANDS if "Mood of the model." in regrade(name, "--help-all").out
        ],
        "option": job_of("evaluate", *what, "--mood", "./calm").mood,
        "file": job_of("generate", "--config", file).mood,
        "refused": regrade("evaluate", *what, "--mood", "7").err,
        "sweep": [point.job().mood for point in sweep.points()],
        "tune": job_of("tune", *what, "--mood", "calm", module="tune").mood,
        "trigger": triggered(*what, "--mood", "./calm")["mood"],
        "notebook": from_notebook(mood="./calm")["mood"],
        "machines": job_of("evaluate", *what, "--mood", "calm").generation_parameters["mood"],
    }


def test_a_field_is_everywhere_that_jobs_are(tmp_path: Path):
    ran = run([sys.executable, "-m", "tests.jobs.test_made_up_field", str(tmp_path)], 280, {})
    assert ran.code == 0, ran.err
    found = ran.document

    field = {"title": "State of mind", "description": "Mood of the model.", "x-path": True}
    for name, shown in found.pop("flows").items():
        assert (shown is None) == (name == "score_answers"), name
        assert shown is None or field.items() <= shown.items()
    assert found.pop("refused").startswith("regrade: `--mood` should be of the form")
    assert found == {
        "not measured": ["evaluate_model", "generate_answers"],
        "help": [name for name in COMMANDS if name != "score"],
        "option": "./calm",
        "file": "calm",
        "sweep": ["calm", "wild"],
        "tune": "calm",
        "trigger": f"{ROOT}/calm",  # a worker runs in another folder
        "notebook": f"{ROOT}/calm",
        "machines": "calm",
    }


if __name__ == "__main__":
    declare(Path(sys.argv[1]))
    json.dump(found(Path(sys.argv[1])), sys.stdout)

"""Benchmark, scorer and engine of other packages, installed with pip beside the wheel: the template of `examples/`, and an engine."""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from tests.benchmarks.files import write_parquet
from tests.command_line import ROOT
from tests.packaging.conftest import Installed, install
from tests.prefect_login import Login
from tests.scorers.instructions.nltk_folder import write_nltk_data

TEMPLATE = ROOT / "examples" / "template"
ENGINE = '''
from typing import Literal
from regrade.engines.base import BaseEngineSettings, EngineInfo
from regrade.models.base import ResolvedModel
from regrade.records import Completion
from regrade.records.specification import ModelIdentity


class OneAnswer(BaseEngineSettings):
    """Always gives the same answer."""

    kind: Literal["one_answer"] = "one_answer"
    text: str = "Answer: 3,000 m"
    """The answer."""

    def resolve(self, model_name):
        return ResolvedModel(ModelIdentity(name=model_name, kind="served", revision="1"), model_name)

    def open(self, model, *, requests, rendering, log, on_progress=None):
        return Running(self.text)


class Running:
    info = EngineInfo("one_answer", "1", None, None, None, None, 0.0)

    def __init__(self, text):
        self.text = text

    def __enter__(self):
        return self

    def __exit__(self, *error):
        return None

    def generate(self, requests):
        for request in requests:
            yield [Completion(request.key, str(request.prompt), text=self.text, finish_reason="stop")]
'''
PROJECT = """
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[project]
name = "one-answer"
version = "1.0"

[project.entry-points."regrade.engines"]
one_answer = "one_answer:OneAnswer"
"""


@pytest.fixture(scope="module")
def equipped(installed: Installed, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """An environment with the wheel of regrade, the template, and an engine."""
    home = tmp_path_factory.mktemp("plugins")
    shutil.copytree(TEMPLATE, home / "template")
    engine = home / "engine"
    engine.mkdir()
    (engine / "one_answer.py").write_text(ENGINE)
    (engine / "pyproject.toml").write_text(PROJECT)
    install(home / "venv", str(installed.wheel), str(home / "template"), str(engine))
    return replace(installed, environment=home / "venv", user_project=home / "template")


def test_the_tests_of_the_template_pass(equipped: Installed):
    done = equipped.run([equipped.python, "-m", "pytest", "-q", "-p", "no:cacheprovider"], {})

    assert done.code == 0, done.out
    assert "7 passed" in done.out


@pytest.mark.slow
@pytest.mark.prefect
def test_a_deployment_offers_what_is_installed_where_it_was_made(
    equipped: Installed, prefect_server: str
):
    deployed = equipped.regrade("deploy", "--json", PREFECT_API_URL=prefect_server)
    assert deployed.code == 0, deployed.err

    path = f"{prefect_server}/deployments/name/evaluate-model/evaluate-model"
    found = httpx.get(path, auth=Login(), timeout=60).raise_for_status().json()
    form = found["parameter_openapi_schema"]
    properties, definitions = form["properties"], form["definitions"]
    assert "unit_conversion" in json.dumps(properties["benchmarks"])
    assert "quantity" in json.dumps(properties["scorer"])
    assert "quantity" in definitions["DatasetBenchmark"]["properties"]["scorer"]["examples"]
    assert definitions["OneAnswer"]["properties"]["kind"]["const"] == "one_answer"
    assert "#/definitions/OneAnswer" in json.dumps(properties["engine"])


def job_in(folder: Path, **parameters: Any) -> Path:
    """Write parameters of a job that asks the engine of the package."""
    given = {"model": "org/model", "engine": {"kind": "one_answer"}} | parameters
    path = folder / "job.yaml"
    path.write_text(yaml.safe_dump(given | {"answers": str(folder / "answers")}))
    return path


@pytest.mark.slow
@pytest.mark.prefect
def test_a_model_is_evaluated_with_all_three(equipped: Installed, prefect_api: str, tmp_path: Path):
    job = job_in(tmp_path, benchmarks=["unit_conversion"])
    environment = {"REGRADE_SPOOL": str(tmp_path / "spool"), "REGRADE_CACHE": str(tmp_path / "c")}

    done = equipped.regrade("evaluate", "--config", job, "--json", **environment)

    assert done.code == 0, done.err
    (answer_set,) = done.document["answer_sets"]
    (score,) = answer_set["scores"]
    assert (score["scorer"], score["metrics"]["accuracy"]) == ("quantity", 0.25)
    listed = equipped.regrade("benchmarks", "--json", **environment).document["benchmarks"]
    took = {entry["name"]: entry["last_run"] for entry in listed}
    assert (took["unit_conversion"]["rows"], took["unit_conversion"]["engine"]) == (4, "one_answer")
    scored = equipped.regrade("score", "--answers", tmp_path / "answers", "--json")
    assert scored.document["answer_sets"][0]["scores"][0]["source_hash"] == score["source_hash"]


REQUEST: dict[str, Any] = {
    "key": 1,
    "prompt": "Give a length, without commas.",
    "instruction_id_list": ["punctuation:no_comma", "detectable_content:postscript"],
    "kwargs": [{"postscript_marker": None}, {"postscript_marker": "P.S."}],
}
FACT = {"problem": "How long is it?", "answer": "3000 m", "topic": "Other"}


@pytest.mark.slow
@pytest.mark.prefect
def test_instructions_are_scored_and_answers_for_a_judge_are_kept(
    equipped: Installed, prefect_api: str, tmp_path: Path
):
    sources = {
        "ifeval": write_parquet(tmp_path / "train.parquet", [REQUEST]),
        "simpleqa_verified": write_parquet(tmp_path / "eval.parquet", [FACT]),
    }
    job = job_in(
        tmp_path,
        benchmarks=list(sources),
        sources=[{"benchmark": name, "path": str(path)} for name, path in sources.items()],
        engine={"kind": "one_answer", "text": "3 km\n\nP.S. That is all."},
    )
    environment = {
        "REGRADE_SPOOL": str(tmp_path / "spool"),
        "NLTK_DATA": str(write_nltk_data(tmp_path / "nltk")),
    }

    refused = equipped.regrade("evaluate", "--config", job, **environment)
    kept = equipped.regrade("generate", "--config", job, "--json", **environment)
    place = ("--answers", tmp_path / "answers", "--json")
    done = equipped.regrade("score", *place, **environment)

    assert refused.code == 2
    assert (
        "A judge model grades the answers to 'simpleqa_verified': name one with `--judge`"
        in refused.err
    )
    assert [entry["rows"] for entry in kept.document["answer_sets"]] == [1, 1], kept.err
    assert done.code == 0, done.err
    (answer_set,) = done.document["answer_sets"]
    (score,) = answer_set["scores"]
    assert (score["scorer"], score["metrics"]["accuracy"]) == ("ifeval", 1.0)
    assert "waits for a judge: `regrade judge`" in done.err

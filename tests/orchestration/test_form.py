"""The form of each flow in the Prefect UI, as JSON schema; tests/browser opens it."""

import inspect
from pathlib import Path
from typing import Annotated, Any

import pytest
import yaml
from prefect import flow
from prefect.exceptions import ParameterTypeError
from prefect.flows import load_flow_from_entrypoint
from prefect.utilities.callables import parameter_schema
from prefect.utilities.schema_tools.validation import build_error_obj, validate
from pydantic import Field

from flows.evaluate_model import evaluate_model
from regrade.jobs.job import GenerationJob
from regrade.orchestration.form import form, form_schema, takes
from regrade.scorers import scorer_names
from regrade.settings import SamplingSettings
from regrade.settings.errors import SettingsError
from regrade.settings.marks import FIRST, PATH, Absent
from regrade.settings.worker_limits import RefusedParameterError
from tests.command_line import ROOT

ENTRYPOINTS = [
    deployment["entrypoint"]
    for deployment in yaml.safe_load((ROOT / "prefect.yaml").read_text())["deployments"]
]


@pytest.fixture
def schema() -> dict[str, Any]:
    return parameter_schema(evaluate_model).model_dump_for_openapi()


def refusals(schema: dict[str, Any], **parameters: object) -> list[str]:
    return [error.message for error in validate(parameters, schema)]


@pytest.mark.parametrize("entrypoint", ENTRYPOINTS)
def test_an_optional_input_is_one_field_and_no_pair_of_buttons(entrypoint: str):
    schema = parameter_schema(load_flow_from_entrypoint(entrypoint, use_placeholder_flow=False))
    models = [definition.get("properties", {}) for definition in schema.definitions.values()]
    for fields in (schema.properties, *models):
        for name, field in fields.items():
            choices = [choice for choice in field.get("anyOf", []) if choice != {"type": "null"}]
            assert all("$ref" in choice for choice in choices), name
            assert {"type", "anyOf", "$ref", "enum"} & set(field), name
            assert field.get("description"), name
            assert "None:" not in field["description"] or choices, name


def test_a_form_without_model_or_benchmark_is_refused_at_that_field():
    schema = form_schema(evaluate_model)

    def refused(**parameters: object) -> dict[str, list[str]]:
        found = build_error_obj(validate(parameters, schema))
        return {error["property"]: error["errors"] for error in found["errors"]}

    dataset = {"name": "d", "path": "d.jsonl"}
    missing = {"benchmarks": ["'benchmarks' is a required property"]}
    assert refused() == {"model": ["'model' is a required property"], **missing}
    for nothing in ({}, {"datasets": []}, {"lm_eval": None}, {"lm_eval": {"path": "tasks"}}):
        assert refused(model="m", **nothing) == missing
    assert refused(model="m", benchmarks=[]) == {"benchmarks": ["[] should be non-empty"]}
    for work in (
        {"benchmarks": ["gsm8k"]},
        {"benchmarks": [], "datasets": [dataset]},
        {"lm_eval": {"tasks": ["arc_challenge"]}},
    ):
        assert refused(model="m", **work) == {}


def test_a_deployment_may_lack_what_its_runs_are_given():
    """Prefect checks the parameters of a deployment itself without what is required."""
    schema = form_schema(evaluate_model)
    assert validate({}, schema, ignore_required=True) == []
    assert validate({"follow": 0}, schema, ignore_required=True) == []


def test_only_the_decoding_settings_that_were_filled_in_are_sent(schema: dict[str, Any]):
    for name, field in schema["definitions"]["SamplingSettings"]["properties"].items():
        assert "default" not in field, name
    assert refusals(schema, model="m", sampling={"temperature": 0.7}) == []
    sent = SamplingSettings.model_validate({"temperature": 0.7})
    assert sent.model_dump(exclude_unset=True) == {"temperature": 0.7}


def test_wrong_values_are_refused_by_their_own_name(schema: dict[str, Any]):
    assert refusals(schema) == ["'model' is a required property"]
    assert refusals(schema, model="") == ["'' should be non-empty"]
    assert refusals(schema, model="m", limit=0) == ["0 is less than the minimum of 1"]
    assert refusals(schema, model="m", sampling={"temperature": 5})
    assert refusals(schema, model="m", engine={"tensor_parallel_size": 0})
    assert refusals(schema, model="m", engine={"gpu_memory": 0.5})


def test_a_scorer_may_have_arguments_and_the_form_names_all_scorers(schema: dict[str, Any]):
    for name in ("number", "number(last=true)", "choice_letter(statement=first)"):
        assert refusals(schema, model="m", scorer=name) == []
        dataset = {"name": "d", "path": "d.jsonl", "scorer": name}
        assert refusals(schema, model="m", datasets=[dataset]) == []
    for name in ("numbr", "number(", "numbers(last=true)", "scoring.py:found"):
        assert "does not match" in refusals(schema, model="m", scorer=name)[0]
    for fields in (schema, schema["definitions"]["DatasetBenchmark"]):
        description = fields["properties"]["scorer"]["description"]
        assert f"For example: {', '.join(scorer_names())}." in description


def test_the_kind_of_an_engine_is_not_asked_and_may_be_given(schema: dict[str, Any]):
    assert "kind" not in schema["definitions"]["VllmEngine"]["properties"]
    assert refusals(schema, model="m", engine={"kind": "vllm", "enforce_eager": True}) == []


class MadeUpJob(GenerationJob):
    """A job with a field of its own, and without one of its base."""

    mood: Annotated[Path, FIRST, PATH] = Field(Path("calm"), title="State of mind")
    """Mood of the model."""
    share: Absent = None


@form
@flow(name="made-up")
@takes(MadeUpJob)
def made_up(job: MadeUpJob) -> Path:
    """Return the mood."""
    return job.mood


def test_a_field_of_a_job_is_a_parameter_of_its_flow_and_an_input_of_its_form():
    parameters = inspect.signature(made_up.fn).parameters
    assert list(parameters)[:3] == ["model", "mood", "benchmarks"]
    assert "share" not in parameters
    shown = parameter_schema(made_up).properties
    assert "share" not in shown
    assert shown["mood"] == {
        "title": "State of mind",
        "description": "Mood of the model.",
        "default": "calm",
        "type": "string",
        "format": "path",
        "x-path": True,
        "position": 1,
    }


def test_a_flow_gets_a_job_with_the_defaults_of_what_was_not_given():
    given = {"model": "m", "benchmarks": ("gsm8k",)}
    assert made_up.fn(**given, mood=None, limit=None) == Path("calm")
    assert made_up.fn("m", mood="wild", benchmarks=["gsm8k"]) == Path("wild")
    with pytest.raises(SettingsError, match="nothing to evaluate"):
        made_up.fn("m")
    with pytest.raises(TypeError, match="share"):
        made_up.fn(**given, share="1/2")


def test_a_parameter_that_its_worker_does_not_allow_fails_a_flow_like_other_wrong_settings(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setenv("PREFECT__FLOW_RUN_ID", "x")
    monkeypatch.setenv("REGRADE_FOLDERS", "")
    with pytest.raises(RefusedParameterError, match="none of the folders"):
        made_up.fn("/etc", benchmarks=["gsm8k"])


def test_the_flow_itself_still_takes_what_it_took():
    given = {"model": "m", "limit": None, "engine": {"kind": "vllm"}, "sampling": None}
    checked = evaluate_model.validate_parameters(given)
    assert checked["limit"] is None
    assert checked["engine"].kind == "vllm"


@pytest.mark.parametrize(
    ("name", "value"), [("limit", True), ("limit", False), ("sampling", {"max_tokens": True})]
)
def test_a_flow_refuses_true_and_false_where_a_parameter_is_a_number(name: str, value: object):
    with pytest.raises(ParameterTypeError, match=f"{name}.*Input should be a valid integer"):
        evaluate_model.validate_parameters({"model": "m", name: value})

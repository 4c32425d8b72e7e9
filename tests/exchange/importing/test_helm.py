"""Files built after HELM's `RequestState` and `PerInstanceStats`; no real file was available."""

from pathlib import Path
from typing import Any

import pytest

from regrade.exchange.importing import helm
from regrade.exchange.importing.base import RowScore, TableOptions
from regrade.exchange.importing.files import ImportFileError, SourceFile
from tests.exchange.importing.writing import document, read

RUN = "mmlu:subject=anatomy,method=multiple_choice_joint,model=openai_gpt-4"


def state(number: int = 0, **changes: Any) -> dict[str, Any]:
    return {
        "instance": {
            "input": {"text": f"Which bone {number}?"},
            "references": [
                {"output": {"text": "femur"}, "tags": []},
                {"output": {"text": "tibia"}, "tags": ["correct"]},
            ],
            "split": "test",
            "id": f"id{number}",
        },
        "train_trial_index": 0,
        "output_mapping": {"A": "femur", "B": "tibia"},
        "request": {"prompt": "Question: ...", "max_tokens": 5},
        "result": {
            "success": True,
            "completions": [{"text": " B", "finish_reason": {"reason": "endoftext"}}],
            "request_time": 0.5,
        },
    } | changes


def scenario_of(*states: dict[str, Any], **spec: Any) -> dict[str, Any]:
    adapter = {"method": "multiple_choice_joint", "model": "openai/gpt-4", "max_train_instances": 5}
    return {"adapter_spec": adapter | spec, "request_states": list(states)}


def scenario(folder: Path, *states: dict[str, Any], **spec: Any) -> Path:
    return document(folder / RUN / "scenario_state.json", scenario_of(*states, **spec))


def test_a_run_tells_model_task_and_choices(tmp_path: Path):
    found = read(scenario(tmp_path, state()))

    [row] = found.rows
    assert (found.model, found.benchmark, found.n_shots) == ("openai/gpt-4", "mmlu", 5)
    assert found.config == "subject=anatomy,method=multiple_choice_joint"
    assert (row.choices, row.target, row.text) == (("femur", "tibia"), 1, " B")
    assert (row.question, row.prompt, row.latency) == ("Which bone 0?", "Question: ...", 0.5)
    assert row.finish_reason == "stop"


def test_metrics_of_each_answer_lie_beside_it(tmp_path: Path):
    path = scenario(tmp_path, state(0), state(1))
    stats = [
        {
            "instance_id": f"id{number}",
            "train_trial_index": 0,
            "stats": [
                {"name": {"name": "exact_match", "split": "test"}, "mean": 1.0 - number},
                {"name": {"name": "num_output_tokens"}, "mean": 3.0},
            ],
        }
        for number in (0, 1)
    ]
    document(path.with_name("per_instance_stats.json"), stats)
    document(path.with_name("run_spec.json"), {"name": "gsm:model=x"})

    file = SourceFile(path)
    found = helm.read(file, TableOptions())

    assert "metric num_output_tokens" in file.unread
    assert "metric exact_match" not in file.unread
    assert [row.scores for row in found.rows] == [
        {"exact_match": RowScore(1.0)},
        {"exact_match": RowScore(0.0)},
    ]
    assert ([score.name for score in found.originals], found.benchmark) == (["exact_match"], "gsm")


def test_a_run_whose_specification_has_no_name_has_that_of_its_folder(tmp_path: Path):
    path = scenario(tmp_path, state())
    document(path.with_name("run_spec.json"), {})
    assert read(path).benchmark == "mmlu"


def test_trials_with_other_worked_examples_are_answers_to_the_same_question(tmp_path: Path):
    two = {"completions": [{"text": " A"}, {"text": " B"}]}
    states = [state(0, result=two), state(1), state(0, train_trial_index=1)]
    found = read(scenario(tmp_path, *states)).rows
    assert [(row.index, row.repeat) for row in found] == [(0, 0), (0, 1), (1, 0), (0, 2)]


def test_perturbed_copies_are_left_out_and_counted(tmp_path: Path):
    perturbed = {**state()["instance"], "perturbation": {"name": "typos"}}

    found = read(scenario(tmp_path, state(), state(instance=perturbed)))

    assert len(found.rows) == 1
    assert found.recorded["perturbed_left_out"] == 1


def test_a_generated_answer_has_one_target_and_a_failed_request_none(tmp_path: Path):
    chat = [{"role": "user", "content": "Who?"}]
    failed = {"success": False, "completions": [], "error": "busy"}
    several = [{"output": {"text": name}, "tags": ["correct"]} for name in ("Paris", "paris")]
    first = state(output_mapping=None, request={"prompt": "", "messages": chat})
    second = state(1, output_mapping=None, result=failed)
    second["instance"] = {**second["instance"], "references": several}

    one, two = read(scenario(tmp_path, first, second)).rows

    assert (one.target, one.prompt_kind, one.error) == ("tibia", "messages", None)
    assert (two.target, two.text, two.error) == (None, None, "busy")


@pytest.mark.parametrize(
    ("changes", "spec"), [({"reference_index": 0}, {}), ({}, {"method": "language_modeling"})]
)
def test_a_run_without_generated_answers_is_refused(
    tmp_path: Path, changes: dict[str, Any], spec: dict[str, Any]
):
    with pytest.raises(ImportFileError, match="row 0: the method .* generates no answers"):
        read(scenario(tmp_path, state(**changes), **spec))

from pathlib import Path
from typing import Any

import pytest

from regrade.exchange.importing.files import ImportFileError
from tests.exchange.importing.writing import document, read

ROW = {
    "session_id": "gsm8k-main-test-#0",
    "model_input": "<user>2+2?",
    "output": ['{"reasoning": "...", "answer": "4"}'],
    "generator": "org/model",
    "configs": {"engine": "vllm", "temperature": 0.0},
    "dataset": "gsm",
    "question": "2+2?",
    "answer": "# 4",
}


def test_model_benchmark_and_sampling_are_in_the_rows(tmp_path: Path):
    found = read(document(tmp_path / "a.json", [ROW]))
    [row] = found.rows
    assert (found.model, found.benchmark, found.originals) == ("org/model", "gsm", ())
    assert found.recorded["sampling"] == {"engine": "vllm", "temperature": 0.0}
    assert (row.question, row.content) == ("2+2?", "2+2?")
    assert (row.text, row.target, row.prompt) == (ROW["output"][0], "4", "<user>2+2?")


def test_a_prompt_that_was_not_recorded_is_not_known(tmp_path: Path):
    [row] = read(document(tmp_path / "a.json", [ROW | {"model_input": "n/a"}])).rows
    assert row.prompt is None


def test_a_target_that_is_no_number_stays_as_it_is(tmp_path: Path):
    [row] = read(document(tmp_path / "a.json", [ROW | {"answer": "B # not A"}])).rows
    assert row.target == "B # not A"


@pytest.mark.parametrize(
    ("dataset", "fields", "read_as"),
    [
        ("math-l5", {"problem": "2+2?", "answer": "4"}, ("2+2?", "4", (), "math")),
        ("crux", {"question": "f(1)?", "answer": "[1, 'a']"}, ("f(1)?", "[1, 'a']", (), "literal")),
        (
            "mmlu-redux",
            {"question": "Which?", "choices": ["x", "y"], "correct_answer": "y"},
            ("Which?", "y", ("x", "y"), None),
        ),
        ("zebra-grid", {"puzzle": "Who?", "size": "5*6"}, ("Who?", None, (), None)),
        ("alpaca_eval", {"instruction": "Write."}, ("Write.", None, (), None)),
    ],
)
def test_each_dataset_has_its_own_names_of_question_and_answer(
    tmp_path: Path, dataset: str, fields: dict[str, Any], read_as: tuple[Any, ...]
):
    shared = {name: value for name, value in ROW.items() if name not in {"question", "answer"}}

    found = read(document(tmp_path / "a.json", [shared | {"dataset": dataset} | fields]))

    [row] = found.rows
    assert (row.question, row.target, row.choices, found.scorer) == read_as


def test_a_row_without_the_name_of_the_others_is_named(tmp_path: Path):
    other = {name: value for name, value in ROW.items() if name != "answer"}
    with pytest.raises(ImportFileError, match="row 1: there is no field 'answer'"):
        read(document(tmp_path / "a.json", [ROW, other]))

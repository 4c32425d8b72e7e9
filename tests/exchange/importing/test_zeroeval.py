from pathlib import Path

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

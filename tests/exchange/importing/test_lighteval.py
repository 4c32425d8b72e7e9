"""Files built after lighteval's classes `Doc` and `ModelResponse`; no real file was available."""

from pathlib import Path
from typing import Any

import pytest

from regrade.exchange.importing.base import Reported
from regrade.exchange.importing.files import ImportFileError
from tests.exchange.importing.writing import document, parquet, read

TIME = "2026-01-02T03-04-05.678901"


def detail(text: list[str], **changes: Any) -> dict[str, Any]:
    row: dict[str, Any] = {
        "doc": {
            "query": "What is 2+2?",
            "choices": [" It is.\n#### 4"],
            "gold_index": [0],
            "id": "0",
            "task_name": "sums|5",
            "num_samples": 1,
        },
        "metric": {"extractive_match": 1.0},
        "model_response": {"input": "Q: What is 2+2?\nA:", "text": text, "logprobs": []},
    }
    return row | changes


def results(path: Path) -> None:
    content = {
        "config_general": {
            "model_name": "org/model",
            "model_sha": "d" * 40,
            "max_samples": 10,
            "generation_parameters": {"temperature": 0.6},
            "lighteval_sha": "abc",
        },
        "results": {
            "suite:sums:5": {"extractive_match": 0.8, "extractive_match_stderr": 0.1},
            "all": {},
        },
        "config_tasks": {
            "suite|sums": {"hf_repo": "org/sums", "hf_subset": "main", "effective_num_docs": 10}
        },
    }
    document(path / f"results_{TIME}.json", content)


def test_details_and_the_results_of_their_run_belong_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    results(tmp_path / "results/org/model")
    path = tmp_path / f"details/org/model/{TIME}/details_suite|sums|5_{TIME}.parquet"
    found = read(parquet(path, [detail(["#### 4"])]))

    monkeypatch.chdir(path.parent)
    assert read(Path(path.name)) == found
    assert (found.model, found.model_revision) == ("org/model", "d" * 40)
    assert (found.benchmark, found.n_shots, found.n_samples, found.limit) == ("sums", 5, 10, 10)
    assert found.config == "main"
    assert found.recorded["sampling"] == {"temperature": 0.6}
    assert found.originals[0].name == "extractive_match"
    assert found.originals[0].reported == Reported(0.8, 0.1, 10)


def test_without_results_the_folder_tells_the_model(tmp_path: Path):
    path = tmp_path / f"details/org/model/{TIME}/details_sums|0_{TIME}.parquet"
    found = read(parquet(path, [detail(["#### 4"])]))
    assert (found.model, found.n_samples, found.originals[0].reported) == ("org/model", None, None)


def test_a_generated_answer_keeps_prompt_target_and_score(tmp_path: Path):
    [row] = read(parquet(tmp_path / "a.parquet", [detail(["It is 4.\n#### 4"])])).rows
    assert (row.question, row.prompt) == ("What is 2+2?", "Q: What is 2+2?\nA:")
    assert (row.text, row.target, row.choices) == ("It is 4.\n#### 4", " It is.\n#### 4", ())
    assert row.content == row.question
    assert row.scores["extractive_match"].value == 1.0


def test_the_names_of_the_documentation_are_read_too(tmp_path: Path):
    rows = [{f"__{name}__": value for name, value in detail(["#### 4"]).items()}]
    assert read(parquet(tmp_path / "a.parquet", rows)).rows[0].text == "#### 4"


def test_several_answers_are_repeats(tmp_path: Path):
    found = read(parquet(tmp_path / "a.parquet", [detail(["a", "b"])]))
    assert [(row.repeat, row.text, row.scores) for row in found.rows] == [
        (0, "a", {}),
        (1, "b", {}),
    ]
    assert found.repeats == 2


def test_choices_that_were_ranked_keep_their_log_probabilities(tmp_path: Path):
    ranked = detail(
        [],
        doc={"query": "Q", "choices": [" A", " B"], "gold_index": [1]},
        model_response={"input": "Q", "text": [], "logprobs": [-2.0, -1.0]},
    )
    found = read(parquet(tmp_path / "a.parquet", [ranked]))
    [row] = found.rows
    assert (found.method, row.target, row.choices, row.label_logprobs) == (
        "rank",
        1,
        (" A", " B"),
        (-2.0, -1.0),
    )


def test_a_row_that_lacks_a_log_probability_is_a_missing_answer_in_a_file_that_is_read(
    tmp_path: Path,
):
    lacking, whole = (
        detail(
            [],
            doc={"query": query, "choices": [" A", " B"], "gold_index": [1]},
            model_response={"input": query, "text": [], "logprobs": logprobs},
        )
        for query, logprobs in (("Q", [None, -1.0]), ("R", [-2.0, -1.0]))
    )
    found = read(document(tmp_path / "a.json", [lacking, whole]))
    assert found.method == "rank"
    assert [row.label_logprobs for row in found.rows] == [None, (-2.0, -1.0)]


def test_details_of_older_versions_are_read(tmp_path: Path):
    old = {
        "example": "What is 2+2?",
        "full_prompt": "Q: What is 2+2?\nA:",
        "predictions": ["It is 4."],
        "gold": ["4"],
        "choices": [],
        "gold_index": [],
        "metrics": {"em": 1.0},
    }
    [row] = read(parquet(tmp_path / "a.parquet", [old])).rows
    assert (row.question, row.text, row.target) == ("What is 2+2?", "It is 4.", "4")
    assert row.scores["em"].value == 1.0


def test_a_prompt_without_its_question_tells_questions_apart_and_is_none(tmp_path: Path):
    doc = {"choices": [" 4"], "gold_index": [0]}
    [row] = read(parquet(tmp_path / "a.parquet", [detail(["4"], doc=doc)])).rows
    assert (row.content, row.question) == ("Q: What is 2+2?\nA:", None)


@pytest.mark.parametrize("gold", [[0, 1], [], [2], [-1], None])
def test_a_row_without_exactly_one_right_choice_has_no_target(tmp_path: Path, gold: object):
    doc = {"query": "Q", "choices": [" A", " B"], "gold_index": gold}
    response = {"input": "Q", "text": [], "logprobs": [-2.0, -1.0]}
    path = document(tmp_path / "a.json", [detail([], doc=doc, model_response=response)])
    [row] = read(path).rows
    assert (row.target, row.scores["extractive_match"].value) == (None, 1.0)


def test_columns_that_were_made_text_are_refused_and_never_evaluated(tmp_path: Path):
    row = detail(["4"], model_response="ModelResponse(text=['4'])")
    with pytest.raises(ImportFileError, match="row 0: 'model_response' should be an object"):
        read(parquet(tmp_path / "a.parquet", [row]))


def test_a_row_without_any_answer_is_named(tmp_path: Path):
    row = detail([], model_response={"input": "Q", "text": [], "logprobs": [-1.0]})
    with pytest.raises(ImportFileError, match="row 0: it has neither"):
        read(parquet(tmp_path / "a.parquet", [row]))

"""Files built after OpenCompass' `GenInferencerOutputHandler`; no real file was available."""

import json
from pathlib import Path

import pytest

from regrade.exchange.importing.base import Reported, RowScore
from regrade.exchange.importing.files import ImportFileError
from tests.exchange.importing.writing import document, read

PREDICTIONS = {
    "0": {"origin_prompt": "2+2?", "prediction": "It is 4.", "gold": "4"},
    "1": {"origin_prompt": "3+3?", "prediction": "It is 7.", "gold": "6"},
}


def test_predictions_and_results_lie_in_folders_named_for_the_model(tmp_path: Path):
    details = {"0": {"pred": "4", "correct": True}, "1": {"pred": "7", "correct": [False]}}
    document(tmp_path / "results/llama-3/sums.json", {"accuracy": 50.0, "details": details})
    found = read(document(tmp_path / "predictions/llama-3/sums.json", PREDICTIONS))

    assert (found.model, found.benchmark) == ("llama-3", "sums")
    assert [(row.text, row.target, row.prompt) for row in found.rows] == [
        ("It is 4.", "4", "2+2?"),
        ("It is 7.", "6", "3+3?"),
    ]
    assert [row.scores["accuracy"] for row in found.rows] == [
        RowScore(1.0, "4"),
        RowScore(0.0, "7"),
    ]
    assert found.originals[0].reported == Reported(50.0, None, 2, out_of=100.0)


@pytest.mark.parametrize(
    "names", [("references", "correct"), ("refr", "is_correct"), ("answer", "correct")]
)
def test_right_answers_that_only_the_results_have_are_read_from_there(
    tmp_path: Path, names: tuple[str, str]
):
    reference, correct = names
    details = {str(n): {reference: gold, correct: n == 0} for n, gold in enumerate(("4", ["6"]))}
    document(tmp_path / "results/llama-3/sums.json", {"score": 50.0, "details": details})
    predictions = {n: {**row, "gold": None} for n, row in PREDICTIONS.items()}

    found = read(document(tmp_path / "predictions/llama-3/sums.json", predictions))

    assert [(row.target, row.scores["score"].value) for row in found.rows] == [("4", 1), ("6", 0)]


@pytest.mark.parametrize(
    ("gold", "target"), [(["4"], "4"), (["4", "four"], None), ([], None), (4, "4"), ({}, None)]
)
def test_one_right_answer_is_the_target(tmp_path: Path, gold: object, target: str | None):
    row = {"origin_prompt": "2+2?", "prediction": "4", "gold": gold}
    [read_row] = read(document(tmp_path / "a.json", {"0": row})).rows
    assert (read_row.target, read_row.question, read_row.content) == (target, None, "2+2?")


def test_predictions_alone_tell_no_model_and_no_score(tmp_path: Path):
    found = read(document(tmp_path / "sums.json", PREDICTIONS))
    assert (found.model, found.originals) == (None, ())


def test_messages_get_the_roles_that_chat_templates_know(tmp_path: Path):
    prompt = [{"role": "HUMAN", "prompt": "2+2?"}, {"role": "BOT", "prompt": ""}]
    found = read(document(tmp_path / "a.json", {"0": {"origin_prompt": prompt, "prediction": "4"}}))
    [row] = found.rows
    assert [message["role"] for message in json.loads(row.prompt or "")] == ["user", "assistant"]
    assert (found.format, row.prompt_kind, row.target) == ("chat", "messages", None)


def test_several_predictions_are_repeats(tmp_path: Path):
    found = read(document(tmp_path / "a.json", {"0": {"prediction": ["4", "5"], "gold": "4"}}))
    assert [(row.repeat, row.text) for row in found.rows] == [(0, "4"), (1, "5")]


@pytest.mark.parametrize(
    ("second", "says"),
    [
        ({"origin_prompt": "x"}, "no field 'prediction'"),
        ({"prediction": 4}, "should be a text"),
        ({"prediction": "A", "label: A": {"PPL": 1.0}}, "perplexities"),
        (None, "an object with named fields"),
    ],
)
def test_what_is_no_prediction_is_named(tmp_path: Path, second: object, says: str):
    path = document(tmp_path / "a.json", {"0": {"prediction": "4"}, "1": second})
    with pytest.raises(ImportFileError, match=f"row 1: .*{says}"):
        read(path)

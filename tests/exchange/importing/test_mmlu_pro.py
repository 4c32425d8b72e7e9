from pathlib import Path
from typing import Any

from regrade.exchange.importing.building import Names, build
from regrade.exchange.importing.files import SourceFile
from tests.exchange.importing.writing import archive, read


def row(pred: str | None) -> dict[str, Any]:
    return {
        "question": "Which?",
        "options": ["red", "green", "blue"],
        "answer": "B",
        "category": "law",
        "pred": pred,
        "generated_text": f"The answer is ({pred}).",
    }


def test_a_row_without_a_letter_is_wrong_and_gets_no_random_one(tmp_path: Path):
    path = archive(
        tmp_path / "model_outputs_Meta-Llama-3-8B_5shots.zip",
        {"x.json": [row("B"), row("A"), row(None)]},
    )
    built = build(SourceFile(path), "mmlu-pro", read(path), Names())
    [(original, scores)] = built.originals
    assert original.name == "pred equals answer"
    assert scores.select(["value", "extracted", "outcome"]).to_pylist() == [
        {"value": 1.0, "extracted": "B", "outcome": "scored"},
        {"value": 0.0, "extracted": "A", "outcome": "scored"},
        {"value": 0.0, "extracted": None, "outcome": "unparsed"},
    ]


def test_model_and_examples_are_in_the_name(tmp_path: Path):
    found = read(
        archive(tmp_path / "model_outputs_Meta-Llama-3-8B_5shots.zip", {"x.json": [row("B")]})
    )
    assert (found.model, found.n_shots, found.benchmark) == ("Meta-Llama-3-8B", 5, "mmlu-pro")
    assert found.rows[0].question == "Which?"
    assert (found.rows[0].subset, found.rows[0].choices) == ("law", ("red", "green", "blue"))
    found = read(archive(tmp_path / "other.zip", {"x.json": [row("B")]}))
    assert (found.model, found.n_shots) == (None, None)

from pathlib import Path

from tests.exchange.importing.writing import jsonl, parquet, read

ROW = {
    "instruction": "Explain LLMs.",
    "output": "They predict tokens.",
    "prompt": "### Instruction:\nExplain LLMs.\n\n### Response:\n",
    "answers": "They are models.",
}


def test_answers_of_the_handbook_are_read_from_either_kind_of_file(tmp_path: Path):
    for path in (
        parquet(tmp_path / "TwinLlama-3.1-8B-results.parquet", [ROW]),
        jsonl(tmp_path / "TwinLlama-3.1-8B-results.jsonl", ROW),
    ):
        found = read(path)
        assert (found.model, found.format, found.originals) == (
            "TwinLlama-3.1-8B",
            "completion",
            (),
        )
        [row] = found.rows
        assert (row.question, row.target, row.text) == (
            ROW["instruction"],
            ROW["output"],
            ROW["answers"],
        )


def test_prompt_and_answers_alone_are_enough_and_the_rest_is_not_known(tmp_path: Path):
    path = jsonl(tmp_path / "a.jsonl", {"prompt": "Explain LLMs.", "answers": "They are models."})
    found = read(path)
    assert found.model is None
    [row] = found.rows
    assert (row.content, row.question, row.target) == ("Explain LLMs.", None, None)


def test_scores_of_the_judge_keep_their_scale(tmp_path: Path):
    judged = [ROW | {"accuracy": 3, "style": 1}, ROW | {"accuracy": None, "style": 2}]
    found = read(parquet(tmp_path / "m-results.parquet", judged))

    assert [(original.name, original.low, original.high) for original in found.originals] == [
        ("accuracy", 1, 3),
        ("style", 1, 3),
    ]
    assert [row.scores["accuracy"].value for row in found.rows] == [3.0, None]

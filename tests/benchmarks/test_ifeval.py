"""IFEval and IFBench on rows in the columns of their datasets."""

import json
from pathlib import Path
from typing import Any

import pytest

from regrade.benchmarks import open_benchmark
from regrade.settings import PromptSettings
from regrade.settings.errors import SourceError
from tests.benchmarks.files import write_jsonl, write_parquet

NAMES = ("relation", "num_words", "let_frequency", "frequency", "keywords", "end_phrase")
"""Arguments of instructions of IFEval: every row has those of all."""


def kwargs(**given: Any) -> dict[str, Any]:
    return dict.fromkeys(NAMES) | given


def ifeval_row(**changes: Any) -> dict[str, Any]:
    return {
        "key": 1000,
        "prompt": 'Write about the page "https://example.org".  Use {no} commas. \n',
        "instruction_id_list": ["punctuation:no_comma", "length_constraints:number_words"],
        "kwargs": [kwargs(), kwargs(relation="at least", num_words=3)],
    } | changes


def samples(tmp_path: Path, *rows: dict[str, Any], name: str = "ifeval", **prompt: Any) -> Any:
    source = write_parquet(tmp_path / "train.parquet", list(rows))
    return open_benchmark(name, source=str(source), prompt=PromptSettings(**prompt))


@pytest.mark.parametrize("prompt_format", ["chat", "completion"])
def test_a_request_is_sent_as_it_is(tmp_path: Path, prompt_format: str):
    benchmark = samples(tmp_path, ifeval_row(), format=prompt_format)
    prompt = benchmark.prompt(benchmark.samples()[0])

    text = prompt if isinstance(prompt, str) else prompt[0]["content"]
    assert text == ifeval_row()["prompt"]


def test_the_instructions_are_kept_with_the_arguments_that_are_given(tmp_path: Path):
    (sample,) = samples(tmp_path, ifeval_row()).samples()

    assert sample.doc == {
        "key": 1000,
        "prompt": ifeval_row()["prompt"],
        "instructions": [
            {"id": "punctuation:no_comma", "kwargs": {}},
            {
                "id": "length_constraints:number_words",
                "kwargs": {"relation": "at least", "num_words": 3},
            },
        ],
    }
    assert sample.target == "punctuation:no_comma, length_constraints:number_words"
    assert sample.question == ifeval_row()["prompt"]


def test_numbers_that_nulls_made_floats_are_whole_and_zero_is_kept(tmp_path: Path):
    given = kwargs(num_words=300.0, let_frequency=0, frequency=2.5)
    row = ifeval_row(kwargs=[given, None])

    (sample,) = samples(tmp_path, row).samples()

    kept = sample.doc["instructions"][0]["kwargs"]
    assert kept == {"num_words": 300, "let_frequency": 0, "frequency": 2.5}
    assert isinstance(kept["num_words"], int)


def test_arguments_may_be_json_texts_and_the_key_a_text(tmp_path: Path):
    row = {
        "key": "7",
        "prompt": "Use words.",
        "instruction_id_list": ["count:word_count_range"],
        "kwargs": [json.dumps({"min_words": 1, "max_words": 5, "sep": None})],
    }

    (sample,) = samples(tmp_path, row, name="ifbench").samples()

    assert sample.doc["instructions"][0]["kwargs"] == {"min_words": 1, "max_words": 5}


def test_equal_requests_with_other_arguments_have_other_ids(tmp_path: Path):
    other = ifeval_row(kwargs=[kwargs(), kwargs(relation="at least", num_words=4)])

    first, second = samples(tmp_path, ifeval_row(), other).samples()

    assert not second.id.startswith(first.id)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"prompt": None}, "the question is None"),
        ({"instruction_id_list": []}, r"instruction_id_list is \[\]; expected a list of names"),
        ({"instruction_id_list": None}, "instruction_id_list is None"),
        ({"kwargs": [kwargs()]}, "there are 2 instructions, but kwargs is 1"),
        ({"kwargs": None}, "there are 2 instructions, but kwargs is None"),
        ({"kwargs": ["{", "{}"]}, "kwargs has '{', which is no JSON"),
        ({"kwargs": ["3", "{}"]}, "kwargs has 3; expected arguments by name"),
    ],
)
def test_a_row_that_cannot_be_used_is_named(tmp_path: Path, changes: dict[str, Any], says: str):
    source = write_jsonl(tmp_path / "train.jsonl", [ifeval_row(**changes)])

    with pytest.raises(SourceError, match=rf"row 0 .from 0. .*{says}"):
        open_benchmark("ifeval", source=str(source)).samples()

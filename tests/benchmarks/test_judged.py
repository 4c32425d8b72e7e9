"""SimpleQA Verified and HLE, whose answers a judge grades, on rows in the columns of their datasets."""

from pathlib import Path
from typing import Any

import pytest

from regrade.benchmarks import open_benchmark
from regrade.benchmarks.hle import INSTRUCTION
from regrade.judging.choosing import default_rubric
from regrade.settings.errors import SourceError
from tests.benchmarks.files import write_jsonl, write_parquet

SIMPLE: dict[str, Any] = {
    "problem": "In which year did the {first} bridge open?\n",
    "answer": "1889 (acceptable range: anything between 1888 and 1890)",
    "topic": "Geography",
    "answer_type": "Number",
}
EXAM: dict[str, Any] = {
    "question": "Which of these? <i>Say</i> it.\n\nA. one\nB. two",
    "image": "",
    "answer": "B",
    "answer_type": "multipleChoice",
    "category": "Humanities/Social Science",
    "canary": "keep out",
}


def test_a_question_of_simpleqa_is_asked_alone(tmp_path: Path):
    source = write_parquet(tmp_path / "eval.parquet", [SIMPLE])
    benchmark = open_benchmark("simpleqa_verified", source=str(source))

    (sample,) = benchmark.samples()

    assert benchmark.prompt(sample) == ({"role": "user", "content": SIMPLE["problem"].strip()},)
    assert (sample.target, sample.subset) == (SIMPLE["answer"], "Geography")


def test_a_number_as_answer_is_its_text(tmp_path: Path):
    source = write_jsonl(tmp_path / "q.jsonl", [SIMPLE | {"answer": 1889, "topic": None}])

    (sample,) = open_benchmark("simpleqa_verified", source=str(source)).samples()

    assert (sample.target, sample.subset) == ("1889", "")


def test_hle_asks_only_questions_without_an_image(tmp_path: Path):
    rows = [
        SHOWN,
        EXAM,
        EXAM
        | {"image": None, "question": "And here?", "answer": "42", "answer_type": "exactMatch"},
    ]
    source = write_parquet(tmp_path / "test.parquet", rows)
    benchmark = open_benchmark("hle", source=str(source))

    samples = benchmark.samples()

    assert [(s.index, s.target) for s in samples] == [(1, "B"), (2, "42")]
    assert benchmark.prompt(samples[0]) == (
        {"role": "user", "content": f"{INSTRUCTION}\n\n{EXAM['question']}"},
    )
    assert {s.subset for s in samples} == {"Humanities/Social Science"}


@pytest.mark.parametrize(
    ("name", "row", "says"),
    [
        ("hle", EXAM | {"question": None}, "the question is None"),
        ("hle", EXAM | {"answer": ""}, "the answer is ''"),
        ("simpleqa_verified", SIMPLE | {"problem": " "}, "the question is ' '"),
        ("simpleqa_verified", SIMPLE | {"answer": None}, "the answer is None"),
    ],
)
def test_a_row_that_cannot_be_used_is_named(
    tmp_path: Path, name: str, row: dict[str, Any], says: str
):
    source = write_jsonl(tmp_path / "q.jsonl", [row])

    with pytest.raises(SourceError, match=rf"row 0 .from 0. .*{says}"):
        open_benchmark(name, source=str(source)).samples()


SHOWN = EXAM | {"image": "data:image/png;base64,iVBORw0KGgo="}


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        ([SHOWN, EXAM | {"answer": ""}], r"row 1 \(from 0\) of split 'test': the answer is ''"),
        ([SHOWN, SHOWN], r"split 'test': all 2 rows are left out \(they have an image\)"),
    ],
)
def test_an_error_counts_the_rows_that_are_left_out(
    tmp_path: Path, rows: list[dict[str, Any]], says: str
):
    source = write_jsonl(tmp_path / "q.jsonl", rows)

    with pytest.raises(SourceError, match=says):
        open_benchmark("hle", source=str(source)).samples()


@pytest.mark.parametrize("name", ["hle", "simpleqa_verified"])
def test_they_name_the_rubric_of_their_judge(name: str):
    benchmark = open_benchmark(name)

    assert benchmark.scorers == ("judge",)
    assert default_rubric(name) == "correct"
    assert default_rubric("gsm8k") is None

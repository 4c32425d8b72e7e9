"""Benchmarks whose next turn needs the model's own answer, on rows in the columns of their datasets."""

import json
from pathlib import Path
from typing import Any

import pytest

from regrade.benchmarks import open_benchmark, open_dataset
from regrade.settings import DatasetBenchmark
from regrade.settings.errors import SourceError
from tests.benchmarks.files import write_jsonl, write_parquet


def multi_if_row(turns: int = 3, **changes: Any) -> dict[str, Any]:
    """Return a row as the dataset's table has it: messages, lists and arguments as JSON, "" for a turn that there is not."""
    names = ["punctuation:no_comma", "change_case:english_lowercase", "startend:end_checker"]
    kwargs = [{}, {}, {"end_phrase": "the end"}]
    row: dict[str, Any] = {"key": "1000:1:en", "language": "English"}
    for number in (1, 2, 3):
        there = number <= turns
        message = json.dumps({"role": "user", "content": f"Do {number}."})
        row |= {
            f"turn_{number}_prompt": message if there else "",
            f"turn_{number}_instruction_id_list": json.dumps(names[:number]) if there else "",
            f"turn_{number}_kwargs": json.dumps([json.dumps(values) for values in kwargs[:number]])
            if there
            else "",
        }
    return row | changes


def mt_bench_row(category: str = "math", **changes: Any) -> dict[str, Any]:
    row = {"question_id": 111, "category": category, "turns": ["2 + 2?", "And twice that?"]}
    return row | {"reference": ["4", "8"]} | changes


def samples(folder: Path, name: str, *rows: dict[str, Any]) -> Any:
    source = write_parquet(folder / "train.parquet", list(rows))
    return open_benchmark(name, source=str(source))


def test_multi_if_has_the_instructions_of_each_turn_and_figures_by_turn_and_language(
    tmp_path: Path,
):
    benchmark = samples(tmp_path, "multi_if", multi_if_row(), multi_if_row(2, language="Hindi"))

    asked = benchmark.samples()

    assert [s.subset for s in asked] == [
        *("English, turn 1", "English, turn 2", "English, turn 3"),
        *("Hindi, turn 1", "Hindi, turn 2"),
    ]
    assert benchmark.groups == {
        "turn 1": ("English, turn 1", "Hindi, turn 1"),
        "turn 2": ("English, turn 2", "Hindi, turn 2"),
        "turn 3": ("English, turn 3",),
        "English": ("English, turn 1", "English, turn 2", "English, turn 3"),
        "Hindi": ("Hindi, turn 1", "Hindi, turn 2"),
    }
    assert [s.target.count(",") for s in asked] == [0, 1, 2, 0, 1]
    assert asked[2].doc == {
        "key": "1000:1:en",
        "prompt": "Do 3.",
        "instructions": [
            {"id": "punctuation:no_comma", "kwargs": {}},
            {"id": "change_case:english_lowercase", "kwargs": {}},
            {"id": "startend:end_checker", "kwargs": {"end_phrase": "the end"}},
        ],
    }
    assert [benchmark.prompt(s) for s in asked[:2]] == [
        ({"role": "user", "content": "Do 1."},),
        ({"role": "user", "content": "Do 2."},),
    ]
    assert benchmark.identity.parameters == {"turns": 3}
    assert benchmark.identity.converses


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"turn_1_prompt": ""}, "turn_1_prompt is empty"),
        ({"turn_2_prompt": "Do"}, "'Do' is no JSON"),
        ({"turn_2_prompt": '{"role": "user"}'}, "the question is None"),
        ({"turn_2_kwargs": '["{}"]'}, "there are 2 instructions, but kwargs is 1"),
        ({"language": None}, "language is None"),
    ],
)
def test_rows_that_are_no_multi_if_are_refused(
    tmp_path: Path, changes: dict[str, Any], expected: str
):
    row = multi_if_row(**{"language": "English", **changes})
    other = multi_if_row()  # a table of nulls alone has no text columns
    with pytest.raises(SourceError, match=f"row 1 .*{expected}"):
        samples(tmp_path, "multi_if", other, row).samples()


def test_mt_bench_has_the_reference_where_the_judge_gets_it(tmp_path: Path):
    benchmark = samples(
        tmp_path,
        "mt_bench",
        mt_bench_row(),
        mt_bench_row("writing", question_id=81),
        mt_bench_row("coding", question_id=121, reference=None),
    )

    asked = benchmark.samples()

    assert [(s.subset, s.question, s.target) for s in asked] == [
        ("math, turn 1", "2 + 2?", "4"),
        ("math, turn 2", "And twice that?", "8"),
        ("writing, turn 1", "2 + 2?", ""),
        ("writing, turn 2", "And twice that?", ""),
        ("coding, turn 1", "2 + 2?", ""),
        ("coding, turn 2", "And twice that?", ""),
    ]
    assert [*benchmark.groups] == ["turn 1", "turn 2", "math", "writing", "coding"]
    assert (benchmark.scorers, benchmark.rubric) == (("judge",), "mt_bench")


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"turns": []}, "turns is \\[\\]; expected a list"),
        ({"reference": ["4"]}, "there are 2 turns, and 1 references"),
        ({"category": ""}, "category is ''"),
    ],
)
def test_rows_that_are_no_mt_bench_are_refused(
    tmp_path: Path, changes: dict[str, Any], expected: str
):
    with pytest.raises(SourceError, match=expected):
        samples(tmp_path, "mt_bench", mt_bench_row(), mt_bench_row(**changes)).samples()


def opened(path: Path, **changes: Any) -> Any:
    return open_dataset(
        DatasetBenchmark(**{"name": "talks", "path": str(path), "turns_column": "turns", **changes})
    )


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"turns": "a"}, "column 'turns' is 'a'; expected a list of texts"),
        ({"turns": ["a", " "]}, "expected a list of texts, one a turn"),
        (
            {"answer": "a"},
            "column 'answer' is 'a'; expected a list with a target for each of the 2",
        ),
        ({"answer": ["a"]}, "expected a list with a target for each of the 2 turns"),
        ({"answer": ["a", [1]]}, "the target \\[1\\] is not a text or number"),
    ],
)
def test_rows_without_turns_or_targets_are_refused(
    tmp_path: Path, changes: dict[str, Any], expected: str
):
    path = write_jsonl(
        tmp_path / "talks.jsonl", [{"turns": ["a", "b"], "answer": ["a", "b"]} | changes]
    )
    with pytest.raises(SourceError, match=expected):
        opened(path).samples()


def test_turns_for_a_judge_need_no_target_and_keep_columns_for_it(tmp_path: Path):
    path = write_jsonl(tmp_path / "talks.jsonl", [{"turns": ["a", "b"], "level": 3}])
    benchmark = opened(path, scorer="judge", target_column="", doc_columns=("level",))

    assert [(s.target, s.doc) for s in benchmark.samples()] == [("", {"level": 3})] * 2
    assert benchmark.prompt_identity.template == "{{ row['turns'] }}"
    assert benchmark.parameters["turns"] == "turns"

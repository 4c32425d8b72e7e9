"""The programming benchmarks: questions, prompts, tests, and rows that they refuse."""

from datetime import date
from pathlib import Path
from typing import Any

import pytest

from regrade.benchmarks import open_benchmark, open_dataset
from regrade.benchmarks.base import Benchmark
from regrade.settings import DatasetBenchmark, PromptSettings
from regrade.settings.errors import SettingsError, SourceError, UnknownNameError
from tests.benchmarks.files import write_parquet
from tests.benchmarks.programming import (
    BASE_ROWS,
    CONTEST_ROWS,
    HUMANEVAL_ROWS,
    INCREASED,
    MBPP_ROWS,
    SIMILAR,
)


def opened(folder: Path, name: str, rows: list[dict[str, Any]], **options: Any) -> Benchmark:
    path = write_parquet(folder / "test.parquet", rows)
    return open_benchmark(name, source=str(path), **options)


def prompt_of(benchmark: Benchmark, number: int = 0) -> str:
    prompt = benchmark.prompt(benchmark.samples()[number])
    return prompt if isinstance(prompt, str) else prompt[-1]["content"]


def test_humaneval_shows_the_beginning_of_the_function(tmp_path: Path):
    chat = opened(tmp_path, "humaneval_plus", HUMANEVAL_ROWS)
    assert f"```python\n{INCREASED['prompt'].strip()}\n```" in prompt_of(chat)
    completion = opened(
        tmp_path, "humaneval_plus", HUMANEVAL_ROWS, prompt=PromptSettings(format="completion")
    )
    assert prompt_of(completion) == INCREASED["prompt"].strip() + "\n"
    assert "\ndef " in completion.sampling.stop


def test_humaneval_takes_base_tests_from_a_file_beside_the_questions(tmp_path: Path):
    without = opened(tmp_path, "humaneval_plus", HUMANEVAL_ROWS)
    assert without.identity.parameters == {"base": None}
    assert [test["name"] for test in without.samples()[0].doc["tests"]] == ["plus"]
    write_parquet(tmp_path / "base.parquet", BASE_ROWS)
    both = opened(tmp_path, "humaneval_plus", HUMANEVAL_ROWS)
    assert both.identity.parameters["base"].startswith("local@")
    assert [test["name"] for test in both.samples()[0].doc["tests"]] == ["base", "plus"]
    assert both.samples()[0].doc["before"].endswith("return 1")
    write_parquet(tmp_path / "base.parquet", BASE_ROWS[1:])
    with pytest.raises(SourceError, match="has no tests of 'HumanEval/900'"):
        opened(tmp_path, "humaneval_plus", HUMANEVAL_ROWS).samples()


def test_mbpp_shows_the_description_and_the_first_test(tmp_path: Path):
    chat = opened(tmp_path, "mbpp_plus", MBPP_ROWS)
    assert SIMILAR["prompt"] in prompt_of(chat)
    assert SIMILAR["test_list"][0] in prompt_of(chat)
    assert SIMILAR["test_list"][1] not in prompt_of(chat)
    assert [sample.doc["function"] for sample in chat.samples()] == ["similar", "root"]
    completion = opened(
        tmp_path, "mbpp_plus", MBPP_ROWS, prompt=PromptSettings(format="completion")
    )
    assert prompt_of(completion).endswith(f'{SIMILAR["test_list"][0]}\n"""\n')


@pytest.mark.parametrize(
    ("name", "row", "problem"),
    [
        ("humaneval_plus", INCREASED | {"test": ""}, "column 'test' is ''"),
        (
            "humaneval_plus",
            INCREASED | {"entry_point": "other"},
            "does not begin the function 'other'",
        ),
        ("mbpp_plus", SIMILAR | {"test_list": []}, "test_list is"),
        ("mbpp_plus", SIMILAR | {"code": "x = 1"}, "calls none of the functions"),
        ("livecodebench", CONTEST_ROWS[0] | {"contest_date": "soon"}, "contest_date is 'soon'"),
        ("livecodebench", CONTEST_ROWS[0] | {"metadata": "{"}, "metadata is '{'"),
    ],
)
def test_a_row_that_cannot_be_used_is_named(
    tmp_path: Path, name: str, row: dict[str, Any], problem: str
):
    with pytest.raises(SourceError, match=problem):
        opened(tmp_path, name, [row]).samples()


@pytest.mark.parametrize(
    ("name", "ids", "first"),
    [
        ("livecodebench", ["doubled", "doubled_2", "shifted"], None),
        ("livecodebench_2408_2505", ["doubled_2", "shifted"], "2024-08-01"),
        ("livecodebench_2502_2505", ["shifted"], "2025-02-01"),
        ("livecodebench_250201_250531", ["shifted"], "2025-02-01"),
    ],
)
def test_the_window_is_part_of_the_identity(
    tmp_path: Path, name: str, ids: list[str], first: str | None
):
    benchmark = opened(tmp_path, name, CONTEST_ROWS)
    assert [sample.doc["question"] for sample in benchmark.samples()] == ids
    assert benchmark.identity.parameters["release"] == "release_v6"
    assert benchmark.identity.parameters["first_day"] == first


@pytest.mark.parametrize(
    ("name", "last"),
    [("2402_2402", "2024-02-29"), ("240801_250201", "2025-02-01"), ("2410_250201", "2025-02-01")],
)
def test_a_window_ends_with_its_last_month_or_day(name: str, last: str):
    assert open_benchmark(f"livecodebench_{name}").parameters["last_day"] == last


@pytest.mark.parametrize(
    ("name", "problem"),
    [("250231_2505", "'250231' is no month"), ("2505_2502", "ends before it begins")],
)
def test_a_window_without_days_is_refused(name: str, problem: str):
    with pytest.raises(SettingsError, match=problem):
        open_benchmark(f"livecodebench_{name}")


def test_a_window_without_months_is_no_benchmark():
    with pytest.raises(UnknownNameError, match="'livecodebench_2413_2505'"):
        open_benchmark("livecodebench_2413_2505")


def test_dates_of_contests_are_texts_or_times(tmp_path: Path):
    rows = [row | {"contest_date": date(2025, 3, 1)} for row in CONTEST_ROWS]
    assert len(opened(tmp_path, "livecodebench_2502_2505", rows).samples()) == 3


def test_livecodebench_shows_the_starter_code_of_a_function(tmp_path: Path):
    benchmark = opened(tmp_path, "livecodebench", CONTEST_ROWS)
    assert "standard input" in prompt_of(benchmark)
    assert "def shifted(self, numbers: List[int], by: int)" in prompt_of(benchmark, 2)
    assert benchmark.samples()[2].doc["function"] == "Solution.shifted"
    assert "private" not in str(benchmark.samples()[0].doc)


def test_a_dataset_of_ones_own_has_tests_or_cases(tmp_path: Path):
    path = tmp_path / "mine.jsonl"
    path.write_text(
        '{"question": "Double.", "tests": "assert double(2) == 4"}\n'
        '{"question": "Twice.", "tests": "{\\"function\\": \\"double\\", \\"cases\\": [{\\"input\\": [2], \\"output\\": 4}]}"}\n'
    )
    settings = DatasetBenchmark(name="mine", path=str(path), scorer="code", target_column="tests")
    first, second = open_dataset(settings).samples()
    assert first.doc == {"tests": [{"source": "assert double(2) == 4"}]}
    assert second.doc == {"function": "double", "cases": [{"input": [2], "output": 4}]}
    path.write_text('{"question": "Double.", "tests": "{\\"cases\\": []}"}\n')
    with pytest.raises(SourceError, match="either tests, or cases"):
        open_dataset(settings).samples()

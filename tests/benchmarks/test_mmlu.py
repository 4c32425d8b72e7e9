from pathlib import Path
from typing import Any

import pytest

from regrade.benchmarks import open_benchmark
from regrade.benchmarks.mmlu import CATEGORIES, SUBJECTS
from regrade.settings import PromptSettings
from regrade.settings.errors import SourceError
from tests.benchmarks.files import MMLU_TEST, mmlu_folder, mmlu_row, write_jsonl


def test_57_subjects_are_in_one_category_each() -> None:
    listed = [subject for subjects in CATEGORIES.values() for subject in subjects]

    assert len(listed) == len(SUBJECTS) == 57
    assert {name: len(subjects) for name, subjects in CATEGORIES.items()} == {
        "STEM": 18,
        "humanities": 13,
        "social sciences": 12,
        "other": 14,
    }


def test_worked_examples_are_the_first_dev_rows_of_the_subject(tmp_path: Path) -> None:
    benchmark = open_benchmark(
        "mmlu", source=str(mmlu_folder(tmp_path)), prompt=PromptSettings(n_shots=2)
    )
    choices = "A. north\nB. south\nC. None\nD. west"

    assert benchmark.prompt(benchmark.samples()[0]) == (
        "The following are multiple choice questions (with answers) about virology.\n\n"
        f"dev virology 0\n{choices}\nAnswer: A\n\n"
        f"dev virology 1\n{choices}\nAnswer: B\n\n"
        f"q0 with {{braces}}\n{choices}\nAnswer:"
    )


def test_a_subject_is_named_in_words(tmp_path: Path) -> None:
    row = mmlu_row("q", "high_school_us_history")
    path = write_jsonl(tmp_path / "a.jsonl", [row])
    benchmark = open_benchmark("mmlu", source=str(path), prompt=PromptSettings(n_shots=0))

    assert "(with answers) about high school us history.\n\n" in str(
        benchmark.prompt(benchmark.samples()[0])
    )


def test_questions_of_a_subject_stay_together_and_keep_their_row(tmp_path: Path) -> None:
    samples = open_benchmark(
        "mmlu", source=str(mmlu_folder(tmp_path)), prompt=PromptSettings(n_shots=0)
    ).samples()

    assert [(s.index, s.subset, s.target) for s in samples] == [
        (0, "virology", "A"),
        (2, "virology", "C"),
        (3, "virology", "C"),
        (1, "astronomy", "B"),
    ]
    assert samples[2].id == f"{samples[1].id}-2"


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"answer": 4}, "the target 4 is not an index of its choices"),
        ({"choices": "A, B"}, "the choices are 'A, B'; expected a list"),
        ({"question": ""}, "the question is ''; expected a text"),
        ({"question": None}, "the question is None; expected a text"),
        ({"subject": "astrology"}, "the subject 'astrology' is not one of the 57 subjects of MMLU"),
        ({"subject": None}, "the subject None is not one of the 57"),
    ],
)
def test_a_row_that_cannot_be_used_is_named(
    tmp_path: Path, change: dict[str, Any], problem: str
) -> None:
    rows = [*MMLU_TEST, {**MMLU_TEST[0], **change}]
    path = write_jsonl(tmp_path / "a.jsonl", rows)

    with pytest.raises(SourceError) as error:
        open_benchmark("mmlu", source=str(path), prompt=PromptSettings(n_shots=0)).samples()

    assert "row 4 (from 0) of split 'test': " in str(error.value)
    assert problem in str(error.value)

"""BBH on rows in the columns of its dataset: a folder for each task, with `input` and `target`."""

import json
import re
import subprocess
import sys
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any

import pytest

from regrade.benchmarks import open_benchmark
from regrade.benchmarks.bbh import TASKS
from regrade.benchmarks.questions import harness as harness_files
from regrade.benchmarks.questions.harness import worked_tasks
from regrade.settings import PromptSettings
from regrade.settings.errors import NotInstalledError, PluginError, SettingsError, SourceError
from tests.benchmarks.files import Rows, write_parquet
from tests.scorers.batches import generations, scored

EXAMPLES = worked_tasks("bbh/cot_fewshot", TASKS)
BOOLEAN: Rows = [
    {"input": "not ( True ) is {braces}", "target": "False"},
    {"input": " True and\nTrue is", "target": "True "},
]
DYCK: Rows = [{"input": "Complete: ( [", "target": "] )"}]


def folder(tmp_path: Path, **rows: Rows) -> Path:
    """Write a folder for each task; tasks without rows here have one question."""
    given = {"boolean_expressions": BOOLEAN, "dyck_languages": DYCK, **rows}
    for task in TASKS:
        (tmp_path / task).mkdir()
        made = [{"input": f"Which {task}?", "target": "(A)"}]
        write_parquet(tmp_path / task / "test.parquet", given.get(task, made))
    return tmp_path


def opened(tmp_path: Path, **prompt: Any) -> Any:
    return open_benchmark("bbh", source=str(tmp_path), prompt=PromptSettings(**prompt))


def test_questions_of_all_tasks_have_their_task_as_subset(tmp_path: Path):
    samples = opened(folder(tmp_path)).samples()

    assert [(s.subset, s.target) for s in samples[:2]] == [
        ("boolean_expressions", "False"),
        ("boolean_expressions", "True"),
    ]
    assert {s.subset for s in samples} == set(TASKS)
    assert [s.index for s in samples] == list(range(28))


def test_prompts_are_the_harness_own_character_by_character(tmp_path: Path):
    rows: dict[str, Rows] = {}
    for number, name in enumerate(TASKS):
        both = [{"input": f"  Which {name}? \n(A) {n}", "target": f"({n})"} for n in "AB"]
        rows[name] = both[: 1 + number % 2]
    benchmark = opened(folder(tmp_path, **rows))
    harness = subprocess.run(
        [sys.executable, "-m", "tests.benchmarks.harness_bbh", str(tmp_path), *TASKS],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert harness.returncode == 0, harness.stderr

    prompts = [benchmark.prompt(sample) for sample in benchmark.samples()]

    assert len(prompts) == 27 + 13
    assert prompts == json.loads(harness.stdout)


def test_a_chat_has_the_examples_as_turns(tmp_path: Path):
    benchmark = opened(folder(tmp_path), format="chat", n_shots=1)

    first, answer, question = benchmark.prompt(benchmark.samples()[0])

    example = EXAMPLES["boolean_expressions"].examples[0]
    assert first["content"].startswith(EXAMPLES["boolean_expressions"].description.strip())
    assert example[0] in first["content"]
    assert answer["content"] == example[1]
    assert "not ( True ) is {braces}" in question["content"]
    assert question["content"] == question["content"].rstrip()


def test_the_examples_that_are_shown_are_part_of_the_identity(tmp_path: Path):
    here = folder(tmp_path)
    identities = {n: opened(here, n_shots=n).identity.parameters["examples"] for n in (0, 1, 3)}

    assert len(set(identities.values())) == 3
    with pytest.raises(SettingsError, match="has 3 worked examples.*n_shots is 4"):
        opened(here, n_shots=4).samples()


def test_without_the_harness_it_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(harness_files, "find_spec", lambda name: None)

    with pytest.raises(NotInstalledError, match=r"pip install 'regrade\[lm-eval\]'"):
        opened(folder(tmp_path)).samples()


def test_a_harness_with_other_files_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    place = tmp_path / "lm_eval" / "tasks" / "bbh" / "cot_fewshot"
    place.mkdir(parents=True)
    (place / "navigate.yaml").write_text("doc_to_text: x\n")
    spec = ModuleSpec("lm_eval", None, is_package=True)
    spec.submodule_search_locations = [str(place.parents[2])]
    monkeypatch.setattr(harness_files, "find_spec", lambda name: spec)

    with pytest.raises(PluginError, match="Benchmark 'bbh'.*task 'navigate' in another form"):
        worked_tasks("bbh/cot_fewshot", ["navigate"])


@pytest.mark.parametrize(
    ("row", "says"),
    [
        ({"input": None, "target": "x"}, "row 2 .* the input of 'boolean_expressions' is None"),
        ({"input": " ", "target": "x"}, "the input of 'boolean_expressions' is ' '"),
        ({"input": "a", "target": None}, "the target of 'boolean_expressions' is None"),
    ],
)
def test_a_row_that_cannot_be_used_is_named(tmp_path: Path, row: dict[str, Any], says: str):
    with pytest.raises(SourceError, match=says):
        opened(folder(tmp_path, boolean_expressions=[*BOOLEAN, row])).samples()


def test_a_number_as_target_is_its_text(tmp_path: Path):
    samples = opened(
        folder(tmp_path, object_counting=[{"input": "How many?", "target": 7}])
    ).samples()

    assert [s.target for s in samples if s.subset == "object_counting"] == ["7"]


GOLD = re.compile(r"(?<=the answer is )(.*)(?=.)")
"""The harness' filter, which gives the answer of a worked example."""


@pytest.mark.parametrize("task", TASKS)
def test_worked_answers_are_right_and_those_of_other_questions_are_not(task: str):
    examples = EXAMPLES[task].examples
    texts = [answer for _, answer in examples]
    golds = [match[1] for text in texts if (match := GOLD.search(text))]
    assert len(golds) == 3

    for target in golds:
        values = values_of(texts, target)
        assert values == [float(gold == target) for gold in golds]


def values_of(texts: list[str], target: str) -> list[float]:
    return [
        float(value) for value in scored("text", generations(texts, target))["value"].to_pylist()
    ]

"""Tasks run no part of an answer as code, and on a worker none that they ask the Hub for."""

import re
import sys
from collections.abc import Callable
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from regrade.lm_eval.index import entries_of
from regrade.lm_eval.package import tasks_folder
from regrade.lm_eval.plan import plan_tasks
from regrade.lm_eval.python_files import runs_text
from regrade.settings.errors import SettingsError
from regrade.settings.worker_limits import RefusedParameterError

RUNS = re.compile(r"(?<![\w.])(?:eval|exec)\(|parse_expr|sympify|swipl")


@pytest.mark.parametrize(
    ("folder", "name"),
    [
        ("score/math", "score_robustness_math"),
        ("score/math", "prompt_robustness_math_algebra"),
        ("slr_bench", "slr_bench_basic"),
        ("longproc", "longproc_countdown_0.5k"),
    ],
)
def test_a_task_whose_code_runs_parts_of_an_answer_is_refused(folder: str, name: str):
    index = {entry.name: entry for entry in entries_of(tasks_folder() / folder)}

    with pytest.raises(SettingsError, match="without a sandbox, or a part of an answer as code"):
        plan_tasks(name, index)


def test_the_code_of_such_a_task_does_run_an_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    from lm_eval.tasks.score.math.math_grader import math_equal

    monkeypatch.chdir(tmp_path)
    math_equal("__import__('os').mkdir('proof')", "1")
    assert (tmp_path / "proof").exists()


def test_every_python_file_of_tasks_that_can_run_a_text_is_known():
    root = tasks_folder().resolve()
    for path in root.rglob("*.py"):
        runs = RUNS.search(path.read_text()) is not None
        assert not runs or runs_text(path), path


def test_the_code_of_a_user_is_not_looked_at(tmp_path: Path):
    (tmp_path / "own.py").write_text("eval('1')\n")

    assert not runs_text(tmp_path / "own.py")


def library(monkeypatch: pytest.MonkeyPatch, load: Callable[..., object]) -> None:
    """Put a library in the place of `evaluate`, which imports torch and transformers; tasks use `evaluate.load` of it."""
    module: Any = ModuleType("evaluate")
    module.load, module.__spec__ = load, ModuleSpec("evaluate", None)
    monkeypatch.setitem(sys.modules, "evaluate", module)


def test_a_task_asks_the_hub_for_no_code_where_the_worker_does_not_allow_it(
    monkeypatch: pytest.MonkeyPatch,
):
    asked = []
    library(monkeypatch, lambda *given: asked.append(given))
    index = {entry.name: entry for entry in entries_of(tasks_folder() / "noticia")}
    monkeypatch.setenv("REGRADE_REMOTE_CODE", "0")
    config = plan_tasks("noticia", index).configs["noticia"]
    with pytest.raises(RefusedParameterError, match="'rouge' is code of the Hub"):
        config["metric_list"][0]["aggregation"]([("an answer", "an answer")])
    assert asked == []


def test_a_task_with_a_metric_of_the_hub_is_refused_where_the_worker_does_not_allow_it(
    monkeypatch: pytest.MonkeyPatch,
):
    library(monkeypatch, lambda *_: ModuleType("metric"))
    index = {entry.name: entry for entry in entries_of(tasks_folder() / "polemo2")}
    plan_tasks("polemo2_in", index)

    monkeypatch.setenv("REGRADE_REMOTE_CODE", "0")
    with pytest.raises(SettingsError, match=r"metric is code of the Hub.*REGRADE_REMOTE_CODE=1"):
        plan_tasks("polemo2_in", index)

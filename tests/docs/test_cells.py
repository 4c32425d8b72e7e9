"""Programs and parameters on the pages: docs/notebook.md runs with a folder in the place of the Hub, and YAML makes a job."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from regrade.answers.local import LocalRepository
from regrade.jobs.job import EvaluationJob
from regrade.notebook import running
from tests.command_line import ROOT
from tests.stored import numbers, publish

OPENED, EVALUATED = re.findall(
    r"```python\n(.*?)```", (ROOT / "docs" / "notebook.md").read_text(), re.DOTALL
)
JOBS = [
    (page.name, number, block)
    for page in sorted((ROOT / "docs").glob("*.md"))
    if page.name != "watch.md"  # parameters of a deployment
    for number, block in enumerate(re.findall(r"```yaml\n(.*?)```", page.read_text(), re.DOTALL))
]


def test_the_first_cell_lists_the_answer_sets(tmp_path: Path):
    answers = publish(LocalRepository(tmp_path / "answers"), numbers(0, 5))
    cell = OPENED.replace("hf://datasets/my-team/answers", answers.repository.uri)
    names: dict[str, Any] = {}
    exec(cell.replace("answers.sets()", "sets = answers.sets()"), names)
    assert len(names["sets"]) == 1


def test_the_second_cell_is_an_evaluation_that_can_be_run(monkeypatch: pytest.MonkeyPatch):
    asked: list[dict[str, Any]] = []
    monkeypatch.setattr(running, "_run", lambda *given: asked.append(given[-1]))
    exec(EVALUATED, {"regrade": __import__("regrade")})
    job = EvaluationJob.model_validate(asked[0])
    assert (job.model, job.benchmarks, job.limit) == ("my-team/model", ("gsm8k",), 200)
    assert job.prompt.n_shots == 5


@pytest.mark.parametrize(("page", "number", "block"), JOBS, ids=[f"{p}-{n}" for p, n, _ in JOBS])
def test_yaml_on_a_page_makes_a_job(page: str, number: int, block: str):
    given = yaml.safe_load(block)
    job = EvaluationJob.model_validate({"model": "org/model", "benchmarks": ["gsm8k"]} | given)
    assert job.benchmarks or job.datasets

"""Judge runs in a repository, whose verdicts a function gives, and labels of them."""

import csv
import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regrade.answers.base import Repository
from regrade.answers.origin import SetDescription
from regrade.answers.publishing import publish_answers
from regrade.answers.sets import AnswerSet
from regrade.answers.spool import Spool
from regrade.judging.labels.importing import new_labels, store_labels
from regrade.judging.labels.sheet import read_sheet, write_sheet
from regrade.judging.labels.task import LabelTask, open_tasks
from regrade.judging.stored import judged_set
from regrade.records.rubrics import open_rubric
from regrade.records.rubrics.facts import JudgeRun, rubric_facts
from regrade.records.specification import BenchmarkIdentity
from tests.builders import row, specification
from tests.comparing.sides import answer
from tests.stored import again, score

TRUTH = 0.6
"""True share of right answers of `judged_of`, before they are drawn."""
Verdict = Callable[[int, int], str | None]
"""Label of an answer by number of its question and repeat; None: a reply without a verdict."""


def judge(
    answers: AnswerSet,
    verdict: Verdict,
    *,
    rubric: str = "correct",
    judge_repeats: int = 1,
    model: str = "org/judge",
    baseline: AnswerSet | None = None,
    criteria: str | None = None,
    questions: int | None = None,
    passage: int | None = None,
    **changes: Any,
) -> AnswerSet:
    """Publish and score a judge run on an answer set made by `tests.builders.row`.

    `criteria` is the hash of a list of criteria; `questions` the number of those that are judged, of which each `passage` have
    a subset; `changes` are those of the judge's specification. With a baseline, `verdict` says which answer of a pair is better:
    `candidate`, `baseline` or `tie`.
    """
    repeats = answers.manifest.specification.repeats
    facts = rubric_facts(open_rubric(rubric))
    run = JudgeRun(
        rubric=facts,
        judged=judged_set(answers, repeats),
        judge_repeats=judge_repeats,
        criteria=criteria,
    )
    if baseline is not None:
        run = run.model_copy(update={"baseline": judged_set(baseline, repeats), "parts": 2})
    n_samples = questions or answers.manifest.n_samples
    rows = []
    for number in range(n_samples):
        subset = {} if passage is None else {"subset": f"passage {number // passage}"}
        for place in range(run.repeats):
            judged_repeat, _, part = run.place(place)
            label = verdict(number, judged_repeat)
            if label in ("candidate", "baseline"):
                label = "first" if (label == "candidate") == (part == 0) else "second"
            text = "I cannot say." if label is None else _reply(label, facts.fields[0].name, rubric)
            rows.append(row(number, text, repeat=place, **subset))
    benchmark = answers.manifest.specification.benchmark
    identity = BenchmarkIdentity(
        name=f"judge:{rubric}:{benchmark.name}",
        version=1,
        source="local",
        source_revision="b" * 64,
        split="test",
        limit=questions,
        parameters={"judge_run": run.model_dump(mode="json")},
    )
    specified = specification(model=model, repeats=run.repeats, **changes).model_copy(
        update={"benchmark": identity}
    )
    described = SetDescription(specification=specified, n_samples=n_samples, scorers=("judge",))
    with tempfile.TemporaryDirectory() as folder, Spool(Path(folder) / "spool") as spool:
        spool.append(rows)
        judged = publish_answers(answers.repository, spool, described)
    assert judged is not None
    score(judged, "judge")
    return again(judged)


def graded(
    repository: Repository, model: str, grades: tuple[int, ...], *, judge_model: str = "org/judge"
) -> AnswerSet:
    """A run of a judge that grades answers from 1 to 3, one after the other."""
    answers = answer(repository, model, right=60, total=60)
    return judge(
        answers,
        lambda number, _: str(grades[number % len(grades)]),
        rubric="accuracy_style",
        model=judge_model,
    )


def _reply(label: str, name: str, rubric: str) -> str:
    reply = {"explanation": "As it is.", name: label}
    if rubric == "accuracy_style":
        reply |= {"style_explanation": "As it is.", "style": "2"}
    return json.dumps(reply)


def scripted(
    rng: np.random.Generator, right: NDArray[np.bool_], sensitivity: float, specificity: float
) -> list[str]:
    """Verdicts A or B of a judge with known errors."""
    draw = rng.random(right.shape)
    said = np.where(right, draw < sensitivity, draw < 1 - specificity)
    return ["A" if yes else "B" for yes in said]


def judged_of(
    repository: Repository,
    folder: Path,
    *,
    seed: int,
    labels: int,
    n: int = 300,
    chosen: bool = False,
    model: str = "org/a",
    truth: float = TRUTH,
    sensitivity: float = 0.95,
    specificity: float = 0.5,
    judge_model: str = "org/judge",
    rubric: str = "correct",
    scorers: tuple[str, ...] = ("number",),
    benchmark: str = "sums",
    **changes: Any,
) -> AnswerSet:
    """A run of a judge of known errors, labelled by people who see the truth; `changes` are those of `judge`."""
    rng = np.random.default_rng(seed)
    right = rng.random(n) < truth
    wrong = tuple(np.flatnonzero(~right).tolist())
    answers = answer(repository, model, wrong=wrong, total=n, scorers=scorers, benchmark=benchmark)
    said = scripted(rng, right, sensitivity, specificity)
    judged = judge(
        answers, lambda number, _: said[number], model=judge_model, rubric=rubric, **changes
    )
    if labels:
        task = open_task(judged)
        path = folder / f"{model[-1]}{seed}.csv"
        items = list(task.items.values())[:labels] if chosen else task.sample(labels, 0)
        write_sheet(path, [task], items, 0, show_verdict=False)
        fill(path, [row | {"label": _truth(row["sample_id"], right)} for row in rows_of(path)])
        read_in(path, task)
    return again(judged)


def _truth(sample_id: str, right: NDArray[np.bool_]) -> str:
    return "correct" if right[int(sample_id.removeprefix("sample-"))] else "incorrect"


def rows_of(path: Path) -> list[dict[str, str]]:
    """Rows of a sheet."""
    with path.open(encoding="utf-8-sig", newline="") as file:
        return list(csv.DictReader(file))


def fill(path: Path, rows: list[dict[str, str]]) -> None:
    """Write a sheet."""
    with path.open("w", encoding="utf-8-sig", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


def read_in(path: Path, task: LabelTask, rater: str = "anna", *, revise: bool = False) -> None:
    """Store the labels of a sheet."""
    rows = read_sheet(path, [task], rater)
    new = new_labels([read.given for read in rows], task, revise=revise)
    if new:
        store_labels(new, task, rows[0].seed, len(rows))


def open_task(answers: AnswerSet) -> LabelTask:
    """The answers to label by the first field of their verdicts."""
    return open_tasks(answers)[0]

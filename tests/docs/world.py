"""Models, questions and answers on a Hub and in folders, files, and servers of models, which the examples of the pages presuppose."""

import json
import shutil
import tempfile
import tomllib
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from regrade.answers.aliases import move_alias
from regrade.answers.local import LocalRepository
from regrade.answers.origin import begin_session
from regrade.answers.publishing import publish_answers
from regrade.answers.sets import AnswerSet
from regrade.answers.spool import Spool
from regrade.benchmarks.questions import harness_data, hub_source
from regrade.exchange.exporting import hub_results
from regrade.hub.http_client import Response
from regrade.jobs.job import GenerationJob, make_job
from regrade.jobs.plan import Plan
from regrade.jobs.plans_of_job import plans_of_all
from regrade.lm_eval.index import entries_of
from regrade.lm_eval.package import tasks_folder
from regrade.models import hub, served
from regrade.records import Completion, Sample
from regrade.records.columns import generation_row
from regrade.settings import registry
from tests.benchmarks.files import Rows, mmlu_row
from tests.benchmarks.programming import BASE_ROWS, HALVED, INCREASED
from tests.builders import session
from tests.command_line import DEMO, ROOT, demo_parameters
from tests.comparing.sides import answer
from tests.exchange.importing.test_handbook import ROW
from tests.exchange.importing.test_lm_eval import TIME, results, sample
from tests.exchange.importing.writing import jsonl
from tests.hub_server.server import HubServer
from tests.hub_server.store import Entry, Repo
from tests.judged import fill, judge, rows_of
from tests.lm_eval.rows import splits
from tests.stored import commit_manifest, score, score_with_an_older_scorer, table_bytes

Ids = dict[str, str]
"""Names in examples -> the ids and names that stand for them here."""
QUESTIONS = 400
"""Questions of GSM8K and MMLU here: as few as a gate with a limit of one point can pass."""
DATASETS: dict[str, tuple[str, dict[str, Rows]]] = {
    "openai/gsm8k": (
        "main",
        {
            split: [{"question": f"{n} + 0?", "answer": f"#### {n}"} for n in range(count)]
            for split, count in (("train", 8), ("test", QUESTIONS))
        },
    ),
    "cais/mmlu": (
        "all",
        {
            split: [mmlu_row(f"{split} {n}?", "virology", n % 4) for n in range(count)]
            for split, count in (("dev", 5), ("test", QUESTIONS))
        },
    ),
    "evalplus/humanevalplus": ("default", {"test": [INCREASED, HALVED]}),
    "openai/openai_humaneval": ("default", {"test": BASE_ROWS[:2]}),
    "google/simpleqa-verified": (
        "default",
        {"eval": [{"problem": f"Who is {n}?", "answer": f"{n}", "topic": "x"} for n in range(40)]},
    ),
    "mlabonne/TwinLlama-3.1-8B-results": ("default", {"train": [ROW]}),
}
"""Configuration and rows of each dataset on the Hub."""
MODELS = (
    *("my-team/good-model", "my-team/new-model", "my-team/old-model", "org/model", "org/name"),
    *("org/other", "org/candidate", "org/judge-32b", "org/model-fp8", "Qwen/Qwen3-8B"),
    *("Qwen/Qwen3-0.6B", "Qwen/Qwen3-32B"),
)
BRANCHES = ("main", "step1000", "step2000")
"""Branches of each model."""


# The Hub.


def fill_hub(server: HubServer) -> str:
    """Put models and datasets on the Hub; return a token that may write there."""
    model = {
        path.name: Entry(path.read_bytes(), lfs=False)
        for path in (DEMO / "regrade-demo").iterdir()
        if path.suffix != ".safetensors"
    }
    for name in MODELS:
        _put(server, "models", name, model, *BRANCHES)
    for name, (config, rows) in DATASETS.items():
        files = {split: f"data/{split}-00000-of-00001.parquet" for split in rows}
        listed = "".join(f"  - split: {s}\n    path: {path}\n" for s, path in files.items())
        card = f"---\nconfigs:\n- config_name: {config}\n  data_files:\n{listed}---\n"
        tree = {"README.md": Entry(card.encode(), lfs=False)}
        for split, path in files.items():
            tree[path] = Entry(table_bytes(pa.Table.from_pylist(rows[split])), lfs=True)
        _put(server, "datasets", name, tree)
    return server.store.add_user("my-team").write_token


def put_answers(server: HubServer, repository: LocalRepository) -> None:
    """Put answers on the Hub, under the names that pages have."""
    head = str(repository.head())
    stored = {
        path: Entry(repository.fetch(path, head).read_bytes(), lfs=path.endswith(".parquet"))
        for path in repository.files(head)
    }
    for name in ("my-team/answers", "ORG/NAME", "org/answers"):
        _put(server, "datasets", name, stored)


def _put(server: HubServer, kind: str, name: str, tree: dict[str, Entry], *branches: str) -> None:
    repo = server.store.repos[kind, name] = Repo(kind, name, "my-team", private=False)
    for branch in branches or ("main",):
        repo.add(branch, "made here", tree)


def read_quickly(patch: pytest.MonkeyPatch) -> None:
    """Ask for each model and dataset once; of lm-evaluation-harness a few tasks with rows that are made here."""
    patch.setattr(hub, "resolve_on_hub", cache(hub.resolve_on_hub))
    source_of, load = hub_source.HubSource, hub_source.HubSource._load

    @cache
    def loaded(name: str, config: str | None, commit: str) -> Any:
        return load(source_of("examples", name, config), commit)

    patch.setattr(source_of, "_load", lambda self, at, **_: loaded(self.name, self.config, at))

    def harness(data: harness_data.HarnessData, path: str, name: str | None, _: object) -> Any:
        data.revisions[path] = "d" * 40
        return splits(path, name)

    patch.setattr(harness_data.HarnessData, "_load", harness)
    entries = [entry for name in ("arc", "mmlu") for entry in entries_of(tasks_folder() / name)]
    tasks = {  # of MMLU, a subject in each category
        e.name: replace(e, members=e.members[:1]) if e.kind == "tag" else e for e in entries
    }
    patch.setattr("regrade.lm_eval.index._installed", lambda: tasks)
    for name, part in hub_results.TAKING_PART.items():
        patch.setitem(hub_results.TAKING_PART, name, replace(part, questions=QUESTIONS))
    # That of a shell takes two seconds: tests/cli/test_main.py makes it.
    script = "cyclopts.completion.bash.generate_completion_script"
    patch.setattr(script, lambda *_: "complete -W 'evaluate score' regrade\n")


# Servers of models, and a package with a benchmark.

ADDRESSES = ("http://127.0.0.1:8000/v1", "http://gpu1:8000/v1", "http://gpu2:8000/v1")


def serve_models(patch: pytest.MonkeyPatch) -> None:
    """Answer in the place of the OpenAI-compatible servers at the addresses that pages name."""

    def send(url: str, **_: object) -> Response:
        known = url.removesuffix("/models") in ADDRESSES
        listed = [{"id": n, "root": n, "created": 1} for n in ("served", "org/model")]
        return Response(200 if known else 404, {}, json.dumps({"data": listed}).encode())

    patch.setattr(served, "send", send)


def install_template(patch: pytest.MonkeyPatch) -> None:
    """Install the package of examples/template."""
    folder, entries = ROOT / "examples" / "template", registry._entries
    patch.syspath_prepend(folder)
    groups = tomllib.loads((folder / "pyproject.toml").read_text())["project"]["entry-points"]

    def more(kind: registry.Kind) -> Mapping[str, tuple[EntryPoint, ...]]:
        group = registry.package(kind)
        points = groups.get(group, {}).items()
        return {**entries(kind)} | {n: (EntryPoint(n, value, group),) for n, value in points}

    patch.setattr(registry, "_entries", more)
    patch.setattr(registry, "names", lambda kind: tuple(more(kind)))


# Answers.


def answered(
    repository: LocalRepository,
    parameters: Mapping[str, Any],
    wrong: int = 0,
    seconds: float = 40.0,
) -> list[AnswerSet]:
    """Publish answers to the questions that a job asks, as an engine gives them; the first ones are wrong."""
    sets = []
    for plan in plans_of_all(make_job(GenerationJob, {**parameters, "answers": repository.uri})):
        rows = [
            generation_row(asked, repeat, _answer(plan, asked, asked.index < wrong), seconds)
            for asked, repeat in plan.missing(set())
        ]
        with tempfile.TemporaryDirectory() as folder, Spool(Path(folder) / "spool") as spool:
            begin_session(spool, repository.uri, plan.description, session(device="NVIDIA H100"))
            spool.append(rows)
            found = publish_answers(repository, spool, plan.description)
        assert found is not None
        sets.append(found)
    return sets


def _answer(plan: Plan, asked: Sample, is_wrong: bool) -> Completion:
    common: dict[str, Any] = {"prompt_tokens": 5, "completion_tokens": 7, "latency": 0.25}
    if plan.specification.method == "rank":
        right = [0.0 if letter == asked.target else -1.0 for letter in "ABCD"]
        found = tuple(right[::-1] if is_wrong else right)
        return Completion(0, "Which?", finish_reason="length", label_logprobs=found, **common)
    text = f"It is the square root.\n#### {asked.target}"
    if "code" in plan.benchmark.scorers:
        text = f"```python\n{asked.fields['prompt']}{asked.target}```"
    if is_wrong:  # and cut off
        return Completion(0, "What?", text="The square", finish_reason="length", **common)
    return Completion(0, "What?", text=text, finish_reason="stop", **common)


def make_answers(repository: LocalRepository) -> Ids:
    """Publish and score the answers of the models that pages name, the first of which is the baseline; return their ids."""
    ids = {"M": "org/model"}
    for model, benchmarks, wrong, *shown in (
        ("my-team/good-model", ["gsm8k", "mmlu", "gsm8k_chat"], 40, "77ab01cd", "9ab3774e"),
        ("my-team/new-model", ["gsm8k", "mmlu", "gsm8k_chat"], 44, "1f0c6a2b"),
        ("my-team/old-model", ["gsm8k"], 60),
        ("org/model", ["gsm8k", "gsm8k_chat"], 42),
        ("org/candidate", ["simpleqa_verified"], 0, "3f9a"),  # it waits for a judge
    ):
        sets = answered(repository, {"model": model, "benchmarks": benchmarks}, wrong)
        if not ids.keys() & {"77ab01cd"}:
            move_alias(repository, "baseline", sets)
        for found in sets if model != "org/candidate" else ():
            score(found, found.manifest.scorers[0])
        ids |= dict.fromkeys(shown, sets[0].manifest.answer_set_id)
    judged, verdicts = _make_judged(repository)
    ids |= {"PANEL": judged.manifest.answer_set_id}
    ids |= dict.fromkeys(("JUDGE_SET", "b18e6ad2"), verdicts.manifest.answer_set_id)
    ids["ANSWER_SET"] = _make_scored_twice(repository).manifest.answer_set_id
    return {**ids, "3f1c2d7": str(repository.head())}


def _make_judged(repository: LocalRepository) -> tuple[AnswerSet, AnswerSet]:
    """Publish answers with the verdicts of three judges; return the answers, and the verdicts of the last judge."""
    answers = answer(repository, "org/a", right=180, total=240)
    score(answers)
    for number, model in enumerate(("org/judge", "org/judge-8b", "org/judge-32b"), 3):
        found = judge(answers, lambda n, _, k=number: "B" if n % k == 0 else "A", model=model)  # type: ignore[misc]
    return answers, found


def _make_scored_twice(repository: LocalRepository) -> AnswerSet:
    """Publish answers of September with scorings by two versions of `number`, and by `number_strict`."""
    scorers, rows = ("number", "number_strict"), {"subset": "algebra"}
    answers = answer(repository, "org/name", right=20, total=30, scorers=scorers, row_changes=rows)
    for version in (1, 2):
        score_with_an_older_scorer(answers, lambda _: {}, version=version)
    score(answers, "number_strict")
    commit_manifest(answers, created_at="2026-09-30T12:00:00Z")
    return answers


def make_sweep(folder: Path) -> Ids:
    """Publish the answers of two points of a sweep of the demo."""
    for name, seconds in (("in_flight-1", 90.0), ("in_flight-4", 40.0)):
        for found in answered(
            LocalRepository(folder / "swept" / name), demo_parameters(), 9, seconds
        ):
            score(found, found.manifest.scorers[0])
    return {"$sweep": "swept"}


def make_of_a_checkpoint(folder: Path) -> Ids:
    """Publish answers of the model in a folder."""
    job = {"model": "run/checkpoint-500", "benchmarks": ["gsm8k"]}
    (found,) = answered(LocalRepository(folder / "answers"), job)
    return {"1f0c6a2b": found.manifest.answer_set_id}


def make_programs(folder: Path) -> Ids:
    """Publish answers with programs, which nobody has run yet."""
    job = {"model": "Qwen/Qwen3-0.6B", "benchmarks": ["humaneval_plus"]}
    answered(LocalRepository(folder / "answers"), job)
    return {}


# Files.


def fill_sheet(path: Path) -> None:
    """Label the answers of a sheet as a person does."""
    rows = rows_of(path)
    fill(path, [row | {"label": "correct" if n % 3 else "incorrect"} for n, row in enumerate(rows)])


def write_files(folder: Path) -> None:
    """Write what examples read beside answers: checkpoints, settings, results of other tools, programs on PATH."""
    for name in ("checkpoint", "checkpoint-500", "run/checkpoint-500", "run/checkpoint-500-awq"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).symlink_to(DEMO / "regrade-demo")
    (folder / "infra").symlink_to(ROOT / "infra")
    (folder / "evaluation.yaml").write_text("model: org/model\nbenchmarks: [gsm8k]\n")
    (folder / "my_scorer.py").write_text("def score(text, target):\n    return target in text\n")
    jsonl(folder / "problems.jsonl", {"question": "Double it.", "tests": "assert double(2) == 4"})
    results(folder / "runs")
    answers = sample(0, "0", 1.0), sample(1, "2", 0.0)
    jsonl(folder / "runs" / f"samples_sums_{TIME}.jsonl", *answers)
    for name in ("results", "lm_eval_output"):
        shutil.copytree(folder / "runs", folder / name)
    solution = {"solution": "It is 4.", "is_correct": True}
    row = {"question": "2 + 2?", "ground_truth": "So.\nA: 4", "6b_finetuning": solution}
    jsonl(folder / "solutions.jsonl", row)
    (folder / "bin").mkdir()
    for program in ("inspect", "harbor", "my-agent"):
        (folder / "bin" / program).touch(mode=0o755)

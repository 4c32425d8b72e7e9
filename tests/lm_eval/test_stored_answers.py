"""Tasks generated once and scored later, in a process that has the repository and nothing else."""

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import datasets
import pytest

from regrade.answers.local import LocalRepository
from regrade.answers.sets import list_sets
from regrade.benchmarks import open_benchmark
from regrade.lm_eval.index import TaskEntry
from regrade.lm_eval.plan import plan_tasks
from regrade.scoring.score import score_answers
from regrade.settings import HarnessTasks, ScoringOptions
from regrade.settings.errors import SettingsError
from tests.command_line import run
from tests.lm_eval import rows
from tests.lm_eval.comparing import estimates, same, theirs
from tests.lm_eval.stored import (
    data_folder,
    harness_task,
    names_of,
    of_file,
    own_task,
    publish_task,
)

Index = Mapping[str, TaskEntry]
pytestmark = [pytest.mark.filterwarnings("ignore"), pytest.mark.usefixtures("indexed")]
"""Warnings of lm_eval's own run, which is the reference."""


def _publish(specs: Sequence[str], index: Index, tmp_path: Path) -> LocalRepository:
    repository = LocalRepository(tmp_path / "answers")
    for spec in specs:
        configs = plan_tasks(spec.partition("@")[0], index).configs
        (path,) = {str(config["dataset_path"]) for config in configs.values()}
        folder = data_folder(tmp_path, path, names_of(configs))
        publish_task(harness_task(spec, folder), repository, tmp_path)
    return repository


def _score_elsewhere(repository: LocalRepository, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.lm_eval.score_elsewhere", str(tmp_path / "answers")]
    scoring = run(command, 300, {"REGRADE_CACHE": str(tmp_path / "cache")})
    assert scoring.code == 0, scoring.err[-3000:]


@pytest.mark.usefixtures("nltk_data")
@pytest.mark.parametrize(
    "specs",
    [rows.STORED, pytest.param(("gsm8k", *rows.SLOW), marks=pytest.mark.slow)],
    ids=["quick", "all"],
)
def test_every_number_of_stored_answers_is_that_of_the_harness(
    specs: Sequence[str], index: Index, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(datasets, "load_dataset", rows.load_dataset)
    monkeypatch.setenv("DISABLE_MULTIPROC", "1")
    repository = _publish(specs, index, tmp_path)

    _score_elsewhere(repository, tmp_path)

    published = list_sets(repository, repository.head())
    specified = [answers.manifest.specification for answers in published]
    names = ((found.benchmark.name, found.prompt.format) for found in specified)
    sets = dict(zip(names, published, strict=True))
    assert len(sets) == len(specs)
    for spec in specs:
        name, _, chat = spec.partition("@")
        answers = sets[f"lm_eval:{name}", "chat" if chat else "completion"]
        (file,) = answers.scores()
        assert file.environment == {"lm_eval": "0.4.13"}
        table = answers.score_table(file).to_pylist()
        stored = [row for batch in answers.batches(["index"]) for row in batch.to_pylist()]
        results = theirs(spec, index)
        compared = 0
        for row, number in zip(table, stored, strict=True):
            metrics = json.loads(row["metrics"])
            samples = results["samples"][row["subset"]]
            for sample in (sample for sample in samples if sample["doc_id"] == number["index"]):
                for metric in sample["metrics"]:
                    value = metrics[f"{metric},{sample['filter']}"]
                    expected = json.loads(json.dumps(sample[metric], default=lambda v: v.tolist()))
                    assert value in (expected, [expected]), (spec, row["sample_id"], metric)
                    compared += 1
        assert compared >= len(table)
        _check_results(spec, file, results)


def _check_results(spec: str, file: Any, results: Mapping[str, Any]) -> None:
    """Compare the results of tasks and groups; means of a single task are in the summary."""
    single = len(results["samples"]) == 1
    means = file.summary.metrics.items() if single else ()
    found: dict[tuple[str, str], Any] = {("", name): mean for name, mean in means}
    found |= {(aggregate.subset, aggregate.name): aggregate for aggregate in file.aggregates}
    for name, key, value, stderr in estimates(results):
        ours = found["" if single else name, key]
        assert ours.value == pytest.approx(value, rel=1e-13, abs=1e-15), (spec, name, key)
        expected = None if stderr is None else pytest.approx(stderr, rel=1e-12)
        assert ours.stderr == expected, (spec, name, key)


def test_a_limit_chooses_among_the_requests_of_the_whole_split(tmp_path: Path) -> None:
    folder = data_folder(tmp_path, "openai/gsm8k", ("main",))
    whole, part = harness_task("gsm8k", folder), harness_task("gsm8k", folder, limit=3)

    prompts = {sample.id: whole.prompt(sample) for sample in whole.samples()}
    chosen = part.samples()
    assert [sample.index for sample in chosen] == [0, 3, 6]
    assert [part.prompt(sample) for sample in chosen] == [prompts[sample.id] for sample in chosen]
    assert same(whole.sampling, part.sampling)


def test_answers_are_not_scored_with_other_files(tmp_path: Path) -> None:
    own, questions = tmp_path / "own", tmp_path / "q.jsonl"
    lines = (of_file(questions), "generation_kwargs: {until: [X], do_sample: false}")
    own_task(own, "my_task", *lines, target="a")
    questions.write_text('{"q": "Capital?", "a": "Paris"}\n{"q": "Other?", "a": "Rome"}\n')
    repository = LocalRepository(tmp_path / "answers")
    benchmark = open_benchmark("lm_eval:my_task", tasks=HarnessTasks(path=str(own)))
    answers = publish_task(benchmark, repository, tmp_path)
    options = ScoringOptions(lm_eval_path=str(own))

    assert score_answers(answers, "lm_eval", options=options).file.summary.overall.n == 2

    with pytest.raises(SettingsError, match="has no task 'my_task'"):
        score_answers(answers, "lm_eval", force=True)
    own_task(own, "my_task", *lines, "metadata: {version: 2}", target="a")
    with pytest.raises(SettingsError, match="not those with which the answers were generated"):
        score_answers(answers, "lm_eval", force=True, options=options)

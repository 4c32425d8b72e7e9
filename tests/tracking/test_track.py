import json
import math
import pickle
import socket
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from regrade.answers.figures import metrics_of
from regrade.answers.local import LocalRepository
from regrade.answers.manifest import Manifest
from regrade.answers.scorefile import ScoreFile
from regrade.records.rubrics.facts import answering_model
from regrade.records.specification import (
    BenchmarkIdentity,
    ModelIdentity,
    PromptIdentity,
    Specification,
)
from regrade.settings import SamplingParams
from regrade.settings.errors import TrackingError
from regrade.stats.metrics import Metrics, SubsetMetrics, Summary
from regrade.stats.named import Aggregate
from regrade.tracking import Scoring, default_tracking_uri, track
from regrade.tracking.connection import open_store, public_uri
from regrade.tracking.description import NOTES, Row, evaluation_text, verdict_in, with_verdict
from regrade.tracking.run_list import list_url, prepared_list
from regrade.tracking.scoring import MAX_PARAMETER, MAX_TAG, metric_names
from tests.builders import session
from tests.judged import graded
from tests.stored import tracked_as


def metrics(right: int, n: int, failed: int = 0) -> Metrics:
    rate = right / n
    error = (rate * (1 - rate) / (n - 1)) ** 0.5
    return Metrics(
        rows=n + failed,
        n=n,
        samples=n,
        accuracy=rate,
        accuracy_stderr=error,
        accuracy_low=max(rate - 1.96 * error, 0),
        accuracy_high=min(rate + 1.96 * error, 1),
        unparsed=2,
        unparsed_rate=2 / (n + failed),
        truncated=1,
        truncated_rate=1 / (n + failed),
        failed=failed,
    )


def summary(right: int = 70, n: int = 100) -> Summary:
    return Summary(
        overall=metrics(right, n, failed=3),
        macro_accuracy=0.71,
        macro_stderr=0.03,
        macro_subsets=2,
        subsets=(
            SubsetMetrics(
                name="anatomy", category="other (health, misc.)", metrics=metrics(30, 40)
            ),
            SubsetMetrics(name="$algebra$", category="STEM", metrics=metrics(40, 60)),
        ),
        categories=(
            SubsetMetrics(name="STEM", metrics=metrics(40, 60)),
            SubsetMetrics(name="other (health, misc.)", metrics=metrics(30, 40)),
        ),
        pass_at={1: 0.7, 4: 0.9},
        pass_at_stderr={1: 0.02, 4: None},
        pass_at_samples={1: 4, 4: 1},
        majority_accuracy=0.75,
        majority_stderr=0.04,
    )


def manifest(
    model: str = "org/model",
    benchmark: str = "gsm8k",
    limit: int | None = None,
    created: str = "2026-11-01T10:00:00+00:00",
    **parameters: Any,
) -> Manifest:
    specification = Specification(
        model=ModelIdentity(name=model, kind="hub", revision="c0ffee" * 6 + "c0ff"),
        benchmark=BenchmarkIdentity(
            name=benchmark,
            version=2,
            source="openai/gsm8k",
            source_revision="da7a" * 10,
            config="main",
            split="test",
            limit=limit,
            parameters=parameters,
        ),
        prompt=PromptIdentity(format="chat", template="gsm8k_chat", n_shots=5),
        method="generate",
        sampling=SamplingParams(temperature=0.6, stop=("\n\n", "Q:")),
    )
    begun = session(
        id=None,
        started_at=datetime(2026, 11, 1, 10, tzinfo=UTC),
        regrade_version="0.1.0",
        max_model_len=2048,
        load_seconds=10.0,
        generate_seconds=25.0,
        rows=50,
        prompt_tokens=5000,
        completion_tokens=1000,
    )
    return Manifest(
        answer_set_id=specification.answer_set_id,
        specification=specification,
        state="complete",
        n_samples=100,
        rows=100,
        shards=(),
        sessions=(begun, begun),
        scorers=("number", "number_strict"),
        created_at=datetime.fromisoformat(created),
        updated_at=datetime.fromisoformat(created),
    )


def scoring(given: Manifest | None = None, /, **changes: Any) -> Scoring:
    answers = given or manifest()
    of_file = {name: changes.pop(name) for name in ScoreFile.model_fields if name in changes}
    file = ScoreFile(
        answer_set_id=answers.answer_set_id,
        scorer="number",
        version=1,
        source_hash="ab12cd34",
        answers_revision="5eed" * 10,
        answers=(),
        summary=summary(),
        scored_at=datetime(2026, 11, 1, 11, tzinfo=UTC),
        score_seconds=0.4,
    )
    file = file.model_copy(update=of_file)
    return replace(
        Scoring(
            manifest=answers,
            file=file,
            revision="5eed" * 10,
            repository="hf://datasets/org/answers",
            url=f"https://hub.test/datasets/org/answers/tree/5eed/answers/{answers.answer_set_id}",
            latency={"latency_p50": 1.5, "time_to_first_token_p99": 0.3},
            figures=metrics_of(answers, file),
        ),
        **changes,
    )


@pytest.fixture
def uri(mlflow_database: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A new database for each test, which does not lie in the working folder."""
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    return f"sqlite:///{mlflow_database}"


def client_of(uri: str) -> Any:
    from mlflow import MlflowClient

    return MlflowClient(tracking_uri=uri)


def all_runs(uri: str, experiment_id: str) -> list[Any]:
    return list(client_of(uri).search_runs([experiment_id]))


def histories(
    uri: str, run_id: str, keys: Sequence[str] = ()
) -> dict[str, list[tuple[int, float]]]:
    """Return all points of the metrics of a run, as (step, value)."""
    client = client_of(uri)
    return {
        key: [(point.step, point.value) for point in client.get_metric_history(run_id, key)]
        for key in keys or client.get_run(run_id).data.metrics
    }


def test_every_number_of_the_summary_and_the_generation_is_a_metric(uri: str) -> None:
    runs = track(uri, [scoring()])

    found = client_of(uri).get_run(runs.run_ids[0]).data.metrics
    expected = {
        key: value for key, value in summary().overall.model_dump().items() if value is not None
    }
    stem = summary().categories[0].metrics
    expected |= {
        "macro_accuracy": 0.71,
        "macro_stderr": 0.03,
        "macro_subsets": 2.0,
        "pass_at_1": 0.7,
        "pass_at_1_stderr": 0.02,
        "pass_at_1_samples": 4.0,
        "pass_at_4": 0.9,
        "pass_at_4_samples": 1.0,
        "majority_accuracy": 0.75,
        "majority_stderr": 0.04,
        "category/STEM/accuracy": stem.accuracy,
        "category/STEM/accuracy_stderr": stem.accuracy_stderr,
        "category/STEM/n": 60,
        "category/other_health_misc./accuracy": 0.75,
        "category/other_health_misc./accuracy_stderr": summary()
        .categories[1]
        .metrics.accuracy_stderr,
        "category/other_health_misc./n": 40,
        "seconds/load": 20.0,
        "seconds/generate": 50.0,
        "seconds/publish": 0.0,
        "seconds/score": 0.4,
        "generation/latency_p50": 1.5,
        "generation/time_to_first_token_p99": 0.3,
        "generation/prompt_tokens": 10_000,
        "generation/completion_tokens": 2_000,
        "generation/prompt_tokens_per_second": 200.0,
        "generation/completion_tokens_per_second": 40.0,
    }
    tracking = found.pop("seconds/track")
    assert 0 < tracking < 100
    assert found == expected


def test_the_duration_of_a_run_is_that_of_the_work(uri: str) -> None:
    runs = track(uri, [scoring()])

    client = client_of(uri)
    child, parent = (client.get_run(run_id) for run_id in (runs.run_ids[0], runs.parent_run_id))
    began = int(datetime(2026, 11, 1, 10, tzinfo=UTC).timestamp() * 1000)
    seconds = sum(v for key, v in child.data.metrics.items() if key.startswith("seconds/"))
    assert child.info.start_time == parent.info.start_time == began
    assert child.info.end_time - began == pytest.approx(1000 * seconds, abs=2)
    assert parent.info.end_time == child.info.end_time


def test_the_evaluation_has_the_settings_that_compare_shows(uri: str) -> None:
    few, more = manifest(limit=50), manifest(model="org/other")
    first, second = track(uri, [scoring(few)]), track(uri, [scoring(more)])

    client = client_of(uri)
    one, other = (client.get_run(runs.parent_run_id).data for runs in (first, second))
    assert (one.params["model.name"], other.params["model.name"]) == ("org/model", "org/other")
    assert one.params["model.revision"] == other.params["model.revision"]
    assert "benchmark.limit=50" in one.tags["regrade.settings.gsm8k"]
    assert "benchmark.limit" not in other.tags["regrade.settings.gsm8k"]
    assert "sampling.temperature=0.6" in one.tags["regrade.settings.gsm8k"]
    assert one.tags["regrade.settings.gsm8k"].endswith("scorer=number v1")


def test_a_training_is_a_line_over_its_checkpoints(
    uri: str, caplog: pytest.LogCaptureFixture
) -> None:
    for step, right in ((100, 50), (200, 60)):
        checkpoint = scoring(manifest(f"run/checkpoint-{step}"), summary=summary(right=right))
        for _ in range(2):
            runs = track(uri, [checkpoint])

    query = "tags.`regrade.kind` = 'training'"
    (training,) = client_of(uri).search_runs([runs.experiment_id], query)
    assert histories(uri, training.info.run_id)["accuracy/gsm8k"] == [(100, 0.5), (200, 0.6)]
    assert training.data.params == {"model": "run"}
    assert training.info.run_name == "run (all checkpoints)"

    nothing = {"accuracy": None, "accuracy_stderr": None, "n": 0}
    failed = Summary(overall=metrics(1, 100).model_copy(update=nothing))
    gone = scoring(manifest("run/checkpoint-200"), summary=failed)
    for again in (gone, gone, checkpoint):
        track(uri, [again])
    *points, (step, no_value), last = histories(uri, training.info.run_id)["accuracy/gsm8k"]
    assert points == [(100, 0.5), (200, 0.6)]
    assert (step, math.isnan(no_value), last) == (200, True, (200, 0.6))

    other = manifest("run/checkpoint-200")
    specified = other.specification.model_copy(update={"engine": {"dtype": "float16"}})
    changed = {"specification": specified, "answer_set_id": specified.answer_set_id}
    track(uri, [scoring(other.model_copy(update=changed))])
    assert len(histories(uri, training.info.run_id)["accuracy/gsm8k"]) == 4
    assert "another model at step 200" in caplog.text


def test_the_saved_list_of_runs_has_the_accuracies_as_columns(uri: str) -> None:
    runs = track(uri, [scoring()])
    track(uri, [scoring(manifest(benchmark="mmlu"))])

    tags = client_of(uri).get_experiment(runs.experiment_id).tags
    view = json.loads(tags["mlflow.sharedViewState.regrade"])
    columns = ["attributes.`Created`", "attributes.`Duration`"]
    columns += ["metrics.`accuracy/gsm8k`", "metrics.`accuracy/mmlu`"]
    assert view["selectedColumns"] == columns
    assert list_url("http://x:5000/", "7") == (
        "http://x:5000/#/experiments/7/runs?viewStateShareKey=regrade&workflowType=machine_learning"
    )
    assert list_url(uri, "7") is None
    assert prepared_list(uri, "http://x:5000") == list_url("http://x:5000", runs.experiment_id)
    page = str(list_url("http://x", runs.experiment_id))
    assert page.removeprefix("http://x/") in tags["mlflow.note.content"]

    client_of(uri).set_experiment_tag(runs.experiment_id, "mlflow.note.content", "mine")
    track(uri, [scoring()])
    assert client_of(uri).get_experiment(runs.experiment_id).tags["mlflow.note.content"] == "mine"


def test_wrong_answers_are_a_table_of_the_run(uri: str, tmp_path: Path) -> None:
    examples = [{"question": "1+1?", "answer": "It is 3.", "extracted": "3", "target": "2"}]

    runs = track(uri, [scoring(examples=examples)])

    folder = tmp_path / "mlartifacts" / runs.run_ids[0] / "artifacts"
    table = json.loads((folder / "wrong_answers.json").read_text())
    assert table["columns"] == list(examples[0])
    assert table["data"] == [list(examples[0].values())]
    shown = client_of(uri).get_run(runs.run_ids[0]).data.tags["mlflow.loggedArtifacts"]
    assert [entry["path"] for entry in json.loads(shown)] == ["results.json", "wrong_answers.json"]


def test_parameters_are_the_flat_specification(uri: str) -> None:
    name = "my-training/checkpoint-300"
    answers = manifest(name, template="x" * 7000, **{"odd key?": {"deep": [1, None]}})

    runs = track(uri, [scoring(answers)])

    found = client_of(uri).get_run(runs.run_ids[0]).data.params
    assert found["model"] == "my-training"
    assert found["model.name"] == name
    assert found["benchmark.limit"] == "null"
    assert found["benchmark.config"] == "main"
    assert found["benchmark.parameters.odd key.deep"] == "[1, null]"
    assert len(found["benchmark.parameters.template"]) == MAX_PARAMETER
    assert found["benchmark.parameters.template"].endswith("(cut)")
    assert found["sampling.temperature"] == "0.6"
    assert json.loads(found["sampling.stop"]) == ["\n\n", "Q:"]
    assert found["prompt.chat_template_args"] == "{}"


def test_the_datasets_of_a_run_are_the_questions_and_the_answers(uri: str) -> None:
    logged = scoring()

    runs = track(uri, [logged])

    run = client_of(uri).get_run(runs.run_ids[0])
    assert run.data.tags["regrade.url"] == logged.url
    assert run.info.status == "FINISHED"
    given = {entry.tags[0].value: entry.dataset for entry in run.inputs.dataset_inputs}
    assert {entry.tags[0].key for entry in run.inputs.dataset_inputs} == {"mlflow.data.context"}
    questions, answers = given["questions"], given["answers"]
    assert (questions.name, questions.digest) == ("openai/gsm8k", ("da7a" * 10)[:36])
    assert answers.name == "org/answers"
    assert json.loads(answers.source)["answer_set"] == logged.manifest.answer_set_id
    assert [json.loads(data.profile) for data in (questions, answers)] == [{"num_rows": 100}] * 2


def test_the_datasets_have_all_answers_that_were_scored_also_of_another_set_at_the_same_commit(
    uri: str,
) -> None:
    def logged(*scorings: Scoring) -> list[str]:
        runs = track(uri, scorings)
        inputs = client_of(uri).get_run(runs.run_ids[-1]).inputs.dataset_inputs
        found = [entry.dataset for entry in inputs if entry.tags[0].value == "answers"]
        return sorted(json.loads(dataset.source)["answer_set"] for dataset in found)

    old, fresh = scoring(answers=("a" * 64,)), scoring(answers=("b" * 64,))
    other = scoring(manifest(benchmark="mmlu"))
    set_id = old.manifest.answer_set_id

    assert logged(old, other) == [other.manifest.answer_set_id]
    assert logged(old) == [set_id]
    assert logged(fresh) == logged(fresh) == [set_id] * 2


def test_table_and_chart_lie_beside_the_database_and_nothing_in_the_working_folder(
    uri: str, tmp_path: Path
) -> None:
    runs = track(uri, [scoring()])

    folder = tmp_path / "mlartifacts" / runs.run_ids[0] / "artifacts"
    table = json.loads((folder / "results.json").read_text())
    rows = [dict(zip(table["columns"], row, strict=True)) for row in table["data"]]
    assert [(row["level"], row["name"], row["category"]) for row in rows] == [
        ("overall", "all", None),
        ("category", "STEM", None),
        ("category", "other (health, misc.)", None),
        ("subset", "anatomy", "other (health, misc.)"),
        ("subset", "$algebra$", "STEM"),
    ]
    assert (rows[3]["accuracy"], rows[3]["n"]) == (0.75, 40)
    assert (folder / "accuracy.png").read_bytes().startswith(b"\x89PNG")
    assert list(Path.cwd().iterdir()) == []


def test_tracking_again_adds_no_run_and_no_point(uri: str) -> None:
    published = scoring(publish_seconds=1.5)
    first = track(uri, [published])
    before = [histories(uri, run_id) for run_id in (first.parent_run_id, *first.run_ids)]

    later = scoring(revision="beef" * 10, publish_seconds=0.0)
    second = track(uri, [later])

    assert second == first
    assert len(all_runs(uri, first.experiment_id)) == 2
    assert [histories(uri, run_id) for run_id in (first.parent_run_id, *first.run_ids)] == before
    assert all(len(points) == 1 for history in before for points in history.values())
    tags = client_of(uri).get_run(first.run_ids[0]).data.tags
    assert tags["regrade.revision"] == "beef" * 10
    parent = client_of(uri).get_run(first.parent_run_id).data
    assert parent.tags["regrade.step"] == "0"
    assert "regrade score" in parent.tags["mlflow.note.content"]


def test_a_result_that_changed_replaces_the_number_in_its_run(uri: str, tmp_path: Path) -> None:
    first = track(uri, [scoring()])

    track(uri, [scoring(summary=summary(right=80), score_seconds=9.9)])

    found = client_of(uri).get_run(first.run_ids[0]).data.metrics
    assert (found["accuracy"], found["seconds/score"]) == (0.8, 9.9)
    parent = client_of(uri).get_run(first.parent_run_id).data
    assert parent.metrics["accuracy/gsm8k"] == 0.8
    assert "0.8000 ±" in parent.tags["mlflow.note.content"]
    table = tmp_path / "mlartifacts" / first.run_ids[0] / "artifacts" / "results.json"
    assert json.loads(table.read_text())["data"][0][1] == 0.8


def test_a_result_that_is_gone_is_no_number_any_more(uri: str) -> None:
    judged = {"corrected": 0.5, "corrected_low": 0.4, "bias/length_spearman": 0.1}
    first = track(uri, [replace(scoring(), judged=judged)])
    client = client_of(uri)
    for run_id in (first.parent_run_id, *first.run_ids):
        client.log_metric(run_id, "mine", 1.0)
    nothing = {"accuracy": None, "accuracy_stderr": None, "n": 0}
    failed = Summary(overall=metrics(1, 100).model_copy(update=nothing))

    for _ in range(2):
        track(uri, [scoring(summary=failed)])

    named = ("accuracy", "macro_accuracy", "n", *judged, "mine")
    found = histories(uri, first.run_ids[0], named)
    assert [len(points) for points in found.values()] == [2, 2, 2, 2, 2, 2, 1]
    assert all(math.isnan(found[name][-1][1]) for name in judged)
    assert math.isnan(found["accuracy"][-1][1])
    assert math.isnan(found["macro_accuracy"][-1][1])
    parent = client.get_run(first.parent_run_id).data
    assert math.isnan(parent.metrics["accuracy/gsm8k"])
    assert (parent.metrics["n/gsm8k"], parent.metrics["mine"]) == (0, 1)
    assert "| gsm8k | number v1 | **none** | 0 |" in parent.tags["mlflow.note.content"]


def test_a_finished_run_without_seconds_is_updated(uri: str) -> None:
    imported = scoring(manifest(benchmark="mmlu").model_copy(update={"sessions": ()}))
    runs, client = track(uri, [scoring()]), client_of(uri)
    tags = imported.tags() | {"mlflow.parentRunId": runs.parent_run_id}
    finished = client.create_run(runs.experiment_id, tags=tags).info.run_id
    client.set_terminated(finished)

    assert track(uri, [imported]).run_ids == (finished,)


def test_the_timings_of_a_run_are_those_of_the_answers_that_its_tags_name(uri: str) -> None:
    first = track(uri, [scoring(publish_seconds=1.5)])
    answers = manifest()
    seconds_now = {"load_seconds": 31.6, "generate_seconds": 3.9}
    sessions = (answers.sessions[0].model_copy(update=seconds_now),)
    others = answers.model_copy(update={"sessions": sessions})

    track(uri, [scoring(others, repository="/elsewhere", latency={"latency_p50": 0.1})])

    run = client_of(uri).get_run(first.run_ids[0])
    assert run.data.tags["regrade.repository"] == "/elsewhere"
    found = run.data.metrics
    assert (found["seconds/load"], found["seconds/generate"]) == (31.6, 3.9)
    assert (found["seconds/publish"], found["generation/latency_p50"]) == (0, 0.1)
    assert math.isnan(found["generation/time_to_first_token_p99"])  # not known of these answers
    seconds = sum(value for key, value in found.items() if key.startswith("seconds/"))
    assert run.info.end_time - run.info.start_time == pytest.approx(1000 * seconds, abs=2)


def test_a_new_scorer_version_gets_a_run_of_its_own_and_the_old_one_stays(uri: str) -> None:
    old = track(uri, [scoring()])

    new = track(uri, [scoring(version=2, source_hash="ef56ef56", summary=summary(right=60))])

    assert new.parent_run_id == old.parent_run_id
    assert new.run_ids != old.run_ids
    assert len(all_runs(uri, new.experiment_id)) == 3
    client = client_of(uri)
    assert client.get_run(old.run_ids[0]).data.metrics["accuracy"] == 0.7
    assert client.get_run(new.run_ids[0]).data.metrics["accuracy"] == 0.6
    assert client.get_run(new.parent_run_id).data.metrics["accuracy/gsm8k"] == 0.6


def test_the_evaluation_shows_each_benchmark_at_the_training_step(uri: str) -> None:
    name = "my-training/checkpoint-300"
    gsm8k, mmlu = manifest(name), manifest(name, benchmark="mmlu")
    strict = scoring(gsm8k, scorer="number_strict", summary=summary(right=50))
    runs = track(uri, [scoring(gsm8k), strict])

    again = track(uri, [scoring(mmlu, summary=summary(right=40))])

    assert again.parent_run_id == runs.parent_run_id
    found = histories(uri, runs.parent_run_id)
    assert found["accuracy/gsm8k"] == [(300, 0.7)]
    assert found["accuracy/mmlu"] == [(300, 0.4)]
    assert found["accuracy_stderr/gsm8k"] == [(300, summary().overall.accuracy_stderr)]
    assert found["n/gsm8k"] == [(300, 100)]
    parent = client_of(uri).get_run(runs.parent_run_id)
    assert parent.data.params["model"] == "my-training"
    assert parent.info.run_name == name


def test_verdicts_that_are_tracked_first_make_a_run_of_the_judged_model(
    uri: str, tmp_path: Path
) -> None:
    verdicts = graded(LocalRepository(tmp_path / "answers"), "run/checkpoint-300", (1, 3))
    (file,) = verdicts.scores()

    runs = track(uri, [tracked_as(verdicts, file)])

    parent = client_of(uri).get_run(runs.parent_run_id)
    judged = answering_model(verdicts.manifest.specification)
    assert parent.info.run_name == judged.name == "run/checkpoint-300"
    assert parent.data.tags["regrade.model_revision"] == judged.revision
    assert parent.data.tags["regrade.step"] == "300"


def test_a_scoring_that_was_interrupted_is_left_out_until_it_is_tracked_again(uri: str) -> None:
    runs = track(uri, [scoring()])
    client = client_of(uri)
    late = scoring(manifest(benchmark="mmlu"))
    tags = late.tags() | {"mlflow.parentRunId": runs.parent_run_id}
    begun = client.create_run(runs.experiment_id, tags=tags)

    assert track(uri, [scoring()]) == runs
    assert "mmlu" not in client.get_run(runs.parent_run_id).data.tags["mlflow.note.content"]

    assert track(uri, [late]).run_ids == (begun.info.run_id,)
    assert client.get_run(begun.info.run_id).data.metrics["accuracy"] == 0.7
    assert client.get_run(runs.parent_run_id).data.metrics["accuracy/mmlu"] == 0.7


def test_a_quick_look_at_a_few_questions_does_not_replace_a_full_evaluation(uri: str) -> None:
    few = manifest(limit=10, created="2026-11-20T10:00:00+00:00")
    track(uri, [scoring()])

    runs = track(uri, [scoring(few, summary=summary(right=1, n=10))])

    parent = client_of(uri).get_run(runs.parent_run_id).data
    assert parent.metrics["accuracy/gsm8k"] == 0.7
    assert "0.1000 ±" in parent.tags["mlflow.note.content"]


def test_the_description_holds_table_link_and_command_and_keeps_notes(uri: str) -> None:
    logged = scoring(repository="/my answers")
    runs = track(uri, [logged])
    client = client_of(uri)
    text = client.get_run(runs.parent_run_id).data.tags["mlflow.note.content"]
    client.set_tag(runs.parent_run_id, "mlflow.note.content", f"{text}\n\nLearning rate was wrong.")

    track(uri, [scoring(repository="/my answers", version=2)])

    text = client.get_run(runs.parent_run_id).data.tags["mlflow.note.content"]
    answers = logged.manifest.answer_set_id
    assert (
        f"| gsm8k | number v1 | 0.7000 ± 0.0461 | 100 | 2 | 1 | 3 | [{answers}]({logged.url}) |"
        in (text)
    )
    assert f"| gsm8k | number v2 | **0.7000 ± 0.0461** | 100 | 2 | 1 | 3 | [{answers}]" in (
        text.replace("\\", "")
    )
    assert "```\nregrade score --answers '/my answers'\n```" in text
    assert text.endswith("\n\nLearning rate was wrong.")


def test_names_with_markup_stay_text_and_are_found_again(uri: str) -> None:
    name = 'it\'s | <b>bold</b> [x](http://evil.test) `y` "q"'
    logged = scoring(manifest(model=name), url=None)

    runs = track(uri, [logged])

    assert track(uri, [logged]) == runs
    parent = client_of(uri).get_run(runs.parent_run_id).data.tags
    assert parent["regrade.model"].startswith(name)
    title = parent["mlflow.note.content"].splitlines()[2]
    assert "<b>" not in title
    assert "[x]" not in title
    assert r"it's \| &lt;b&gt;bold&lt;/b&gt; \[x\](http://evil.test) \`y\`" in title


def test_a_description_never_exceeds_what_mlflow_takes() -> None:
    row = Row("gsm8k", "number v1", 0.7, 0.0461, (100, 2, 1, 3), "0" * 16, scoring().url, True)
    rows = [row] + [replace(row, headline=False)] * 59

    text = evaluation_text("model", 0, rows, "regrade score")

    shown = text.count("| gsm8k |")
    assert len(text) <= MAX_TAG
    assert 20 < shown < 60
    assert f"And {60 - shown} more" in text
    assert "```\nregrade score\n```" in text
    assert len(evaluation_text("model", 0, [], "x" * 9000)) <= MAX_TAG


@pytest.mark.parametrize("length", [100, 6_800, MAX_TAG])
def test_what_people_wrote_is_kept_whole_however_little_room_is_left(length: int):
    written = "n" * length
    note = f"results\n{NOTES}\n\n{written}"[:MAX_TAG]
    kept = note.partition(NOTES)[2]

    text = evaluation_text("model", 0, [], "regrade score", note)
    again = with_verdict(with_verdict(text, "v" * 1_000), "w" * 1_000)

    assert max(map(len, (text, again))) <= MAX_TAG
    assert text.endswith(kept)
    assert again.endswith(kept)
    assert "v" not in verdict_in(again)
    assert ("w" * 1_000 in again) == (length == 100)


def test_keys_that_would_become_equal_stay_apart() -> None:
    names = metric_names(["a,b", "a;b", "..", "plain"])

    assert names["plain"] == "plain"
    assert names[".."] == "_"
    assert names["a,b"].startswith("a_b-")
    assert names["a,b"] != names["a;b"]


def test_results_whose_names_differ_in_signs_alone_are_metrics_of_their_own() -> None:
    results = [
        Aggregate(subset="", name=name, value=v, n=9) for name, v in (("f@1", 0.1), ("f+1", 0.2))
    ]
    results.append(Aggregate(subset="a", name="plain", value=0.3, n=9))
    file = scoring().file.model_copy(update={"aggregates": tuple(results)})
    scored = replace(scoring(), file=file)

    logged = {key: v for key, v in scored.results().items() if key.startswith("other/")}

    assert sorted(logged.values()) == [0.1, 0.2, 0.3]
    assert logged["other/a/plain"] == 0.3


@pytest.mark.parametrize(
    ("uri", "shown"),
    [
        ("postgresql://ann:s3cret@db/mlflow", "postgresql://db/mlflow"),
        ("postgresql://db/mlflow?user=ann&password=s3cret", "postgresql://db/mlflow"),
        ("postgresql://db/mlflow?user=a@b&password=s3cret", "postgresql://b"),
        ("http://ann:s3cr/et@mlflow.test:5000/sub", "http://mlflow.test:5000/sub"),
        ("sqlite:////data/a@b?c/mlflow.db", "sqlite:////data/a@b?c/mlflow.db"),
    ],
)
def test_an_address_is_told_without_user_and_password(uri: str, shown: str) -> None:
    assert public_uri(uri) == shown


def test_scorings_of_two_models_are_refused(uri: str) -> None:
    with pytest.raises(ValueError, match=r"exactly one model.*org/model.*other"):
        track(uri, [scoring(), scoring(manifest(model="other"))])
    with pytest.raises(ValueError, match="got: none"):
        track(uri, [])


def test_another_engine_is_another_evaluation(uri: str) -> None:
    dummy = manifest()
    specified = dummy.specification.model_copy(update={"engine": {"load_format": "dummy"}})
    changed = {"specification": specified, "answer_set_id": specified.answer_set_id}
    other = track(uri, [scoring(dummy.model_copy(update=changed))])
    own = track(uri, [scoring()])

    assert own.parent_run_id != other.parent_run_id
    run = client_of(uri).get_run(other.parent_run_id)
    assert "load_format=dummy" in run.data.tags["regrade.model"]


def test_a_deleted_experiment_is_an_error_that_says_how_to_restore_it(uri: str) -> None:
    runs = track(uri, [scoring()])
    client_of(uri).delete_experiment(runs.experiment_id)

    with pytest.raises(TrackingError, match=f"restore --experiment-id {runs.experiment_id}"):
        track(uri, [scoring()])


def test_threads_that_track_the_same_model_share_one_evaluation(uri: str) -> None:
    scorings = [scoring(manifest(benchmark=f"b{number}")) for number in range(4)]
    results: list[Any] = []
    threads = [
        threading.Thread(target=lambda item=item: results.append(track(uri, [item])))
        for item in scorings
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(results) == 4
    assert len({runs.parent_run_id for runs in results}) == 1
    assert len(all_runs(uri, results[0].experiment_id)) == 5


@pytest.mark.slow
def test_two_processes_may_create_the_same_database_and_nothing_is_printed(tmp_path: Path) -> None:
    path = tmp_path / "new folder" / "mlflow.db"
    code = (
        "import sys\nfrom tests.tracking.test_track import manifest, scoring\nfrom regrade.tracking import track\n"
        "track(sys.argv[1], [scoring(manifest(benchmark=sys.argv[2]))])"
    )
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", code, f"sqlite:///{path}", benchmark],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parents[2],
        )
        for benchmark in ("one", "two")
    ]
    outputs = [process.communicate() for process in processes]

    assert outputs == [("", ""), ("", "")]
    assert [process.returncode for process in processes] == [0, 0]
    parents = [
        run.data.tags.get("mlflow.parentRunId") for run in all_runs(f"sqlite:///{path}", "1")
    ]
    assert len(parents) == 3
    assert len(set(parents)) == 2


def test_a_folder_that_cannot_be_made_is_a_tracking_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    with pytest.raises(TrackingError, match="file"):
        track(f"sqlite:///{tmp_path}/file/mlflow.db", [scoring()])


def test_a_server_that_is_down_is_a_tracking_error_without_the_password() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]

    started = time.monotonic()
    with pytest.raises(TrackingError) as caught:
        track(f"http://ann:s3cret@127.0.0.1:{port}", [scoring()])

    assert time.monotonic() - started < 20
    assert "http://127.0.0.1" in str(caught.value)
    assert "s3cret" not in str(caught.value)
    assert caught.value.__suppress_context__
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


@pytest.fixture
def silent_server() -> Iterator[str]:
    """Address of a server that accepts connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"http://127.0.0.1:{server.getsockname()[1]}"


def test_a_server_that_never_answers_is_given_up(
    silent_server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_TIMEOUT", "1")

    started = time.monotonic()
    with pytest.raises(TrackingError, match="timed out"):
        track(silent_server, [scoring()])
    assert time.monotonic() - started < 15


def test_a_database_has_its_tables_ahead_of_its_first_run_and_a_server_is_not_asked(
    tmp_path: Path, silent_server: str
) -> None:
    open_store(f"sqlite:///{tmp_path}/new/mlflow.db")
    with closing(sqlite3.connect(tmp_path / "new" / "mlflow.db")) as database:
        assert database.execute("SELECT count(*) FROM runs").fetchone() == (0,)
    open_store(silent_server)


def test_the_default_is_the_environment_else_sqlite_beside_the_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    monkeypatch.chdir(tmp_path)
    beside = f"sqlite:///{tmp_path.resolve()}"
    assert default_tracking_uri("answers") == f"{beside}/mlflow.db"
    assert default_tracking_uri(f"{tmp_path}/deep/answers") == f"{beside}/deep/mlflow.db"
    assert default_tracking_uri(f"file://{tmp_path}/deep/answers") == f"{beside}/deep/mlflow.db"
    assert default_tracking_uri("hf://datasets/org/answers") == f"{beside}/mlflow.db"

    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://mlflow.test")
    assert default_tracking_uri("answers") == "http://mlflow.test"


def test_subsets_in_which_every_answer_failed_cost_the_chart_and_nothing_else(
    uri: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    gone = ("accuracy", "accuracy_stderr", "accuracy_low", "accuracy_high")
    nothing = metrics(0, 2).model_copy(update={"n": 0, "failed": 2, **dict.fromkeys(gone)})
    failed = Summary(overall=nothing, subsets=(SubsetMetrics(name="a", metrics=nothing),))

    runs = track(uri, [scoring(summary=failed)])

    folder = tmp_path / "mlartifacts" / runs.run_ids[0] / "artifacts"
    assert [path.name for path in folder.iterdir()] == ["results.json"]
    assert "gsm8k · org/model: no chart: a chart needs" in caplog.text

"""The adapter for EvalHub, with the classes of its SDK: the jobs that it reads, and what it reports."""

import importlib.util
import json
import shutil
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest.mock import Mock

import pytest
import yaml

from tests.command_line import ROOT

FOLDER = ROOT / "examples/evalhub"
STORED = ROOT / "tests/frozen/format-3/complete"
pytestmark = [  # of olot, which the SDK imports, and of the SDK's own fields
    pytest.mark.filterwarnings("ignore:Support for class-based `config` is deprecated"),
    pytest.mark.filterwarnings("ignore:deprecated:DeprecationWarning"),
]
models = pytest.importorskip("evalhub.models.api", reason="eval-hub-sdk is in requirements/dev.txt")


@pytest.fixture(scope="module")
def adapter() -> ModuleType:
    spec = importlib.util.spec_from_file_location("evalhub_adapter", FOLDER / "adapter.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def job(folder: Path, **changes: object) -> Path:
    """Write a job as EvalHub mounts it; the model has no address, so that stored answers are scored."""
    content = {
        "id": "job-1",
        "provider_id": "regrade",
        "benchmark_id": "demo-arithmetic",
        "benchmark_index": 0,
        "model": {"url": "", "name": "regrade-demo"},
        "parameters": {
            "answers": str(folder / "answers"),
            "tracking_uri": f"sqlite:///{folder}/mlflow.db",
        },
        "callback_url": "http://127.0.0.1:9",
    }
    path = folder / "meta/job.json"
    path.parent.mkdir()
    path.write_text(json.dumps(content | changes))
    return path


class Reports:
    """Reports of an adapter."""

    def __init__(self) -> None:
        self.seen: list[Any] = []
        self.report_status = self.report_results = self.seen.append


def test_a_job_without_an_address_scores_stored_answers(adapter: ModuleType, tmp_path: Path):
    shutil.copytree(STORED, tmp_path / "answers")
    running, reports = adapter.RegradeAdapter(job_spec_path=str(job(tmp_path))), Reports()

    results = running.run_benchmark_job(running.job_spec, reports)

    assert [update.status.value for update in reports.seen] == ["running"]
    told = (results.id, results.benchmark_id, results.model_name)
    assert told == ("job-1", "demo-arithmetic", "regrade-demo")
    assert results.overall_score == 0.75
    assert results.num_examples_evaluated == 40
    (accuracy,) = results.results
    assert (accuracy.metric_name, accuracy.metric_value) == ("accuracy", 0.75)
    assert accuracy.confidence_interval[0] < 0.75 < accuracy.confidence_interval[1]
    assert results.evaluation_metadata["answer_set"] == "09e0ee3adb66d65a"
    assert type(results).model_validate_json(results.model_dump_json()) == results


def test_a_job_with_an_address_is_an_evaluation_of_that_server(
    adapter: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    evaluate = Mock()
    monkeypatch.setattr(adapter.regrade, "evaluate", evaluate)
    served = {"url": "http://vllm:8000/v1", "name": "org/model"}
    running = adapter.RegradeAdapter(job_spec_path=str(job(tmp_path, model=served, num_examples=5)))

    adapter.evaluate(running.job_spec)

    evaluate.assert_called_once()
    assert evaluate.call_args.args == ("org/model", ["demo-arithmetic"])
    named = evaluate.call_args.kwargs
    assert named["engine"] == {"kind": "openai", "base_url": "http://vllm:8000/v1"}
    assert named["limit"] == 5


def test_a_job_without_an_answer_repository_fails_with_what_it_needs(
    adapter: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    reports = Reports()
    monkeypatch.setenv("EVALHUB_JOB_SPEC_PATH", str(job(tmp_path, parameters={})))
    monkeypatch.setenv("EVALHUB_MODE", "local")
    monkeypatch.setattr(adapter.DefaultCallbacks, "from_adapter", lambda running: reports)

    assert adapter.main() == 1

    (failed,) = reports.seen
    assert failed.status.value == "failed"
    assert "parameter 'answers'" in failed.error_message.message


def test_the_provider_is_one_that_evalhub_takes_with_benchmarks_that_exist():
    from regrade.benchmarks import benchmark_cards

    provider = yaml.safe_load((FOLDER / "provider.yaml").read_text())
    fields = models.ProviderCreateRequest.model_fields.keys() & provider
    asked = models.ProviderCreateRequest(**{name: provider[name] for name in fields})
    known = {card.name for card in benchmark_cards()}
    assert {benchmark.id for benchmark in asked.benchmarks} <= known
    assert all(benchmark.primary_score.metric == "accuracy" for benchmark in asked.benchmarks)

"""`regrade evaluate --stop-when-sure` with real vLLM: it stops, and the same command without it completes the same answers."""

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import yaml

from regrade.answers.base import Repository
from regrade.answers.local import LocalRepository
from regrade.answers.origin import SetDescription
from regrade.answers.publishing import publish_answers
from regrade.answers.spool import Spool
from regrade.jobs.job import GenerationJob, make_job
from regrade.jobs.plans_of_job import plans_of_all
from regrade.records import Completion
from regrade.records.columns import generation_row
from tests.command_line import ROOT, demo_parameters, regrade
from tests.stored import by_row, sets_in

pytestmark = [pytest.mark.vllm, pytest.mark.prefect, pytest.mark.slow, pytest.mark.timeout(1800)]
LIMIT = 300
BASELINE = "org/always-right"


def job_file(folder: Path, demo_model: Path) -> Path:
    """Arithmetic for the demo model, a few requests at a time."""
    demo = demo_parameters()
    entry = demo["datasets"][0]
    entry["path"] = str(ROOT / entry["path"])
    engine = {"kind": "vllm", "enforce_eager": True, "dtype": "float32", "max_num_seqs": 8}
    given = {"model": str(demo_model), "limit": LIMIT, "datasets": [entry], "engine": engine}
    file = folder / "job.yaml"
    file.write_text(yaml.safe_dump(given))
    return file


def publish_right_answers(repository: Repository, job: Path, folder: Path) -> None:
    """Publish what a model would have said that is always right."""
    (plan,) = plans_of_all(make_job(GenerationJob, yaml.safe_load(job.read_text())))
    model = plan.specification.model.model_copy(update={"name": BASELINE, "revision": "a" * 40})
    specification = plan.specification.model_copy(update={"model": model})
    description = SetDescription(
        specification=specification, n_samples=len(plan.samples), scorers=plan.benchmark.scorers
    )
    with Spool(folder) as spool:
        spool.append(
            [
                generation_row(sample, 0, Completion(0, "", text=f"#### {sample.target}"))
                for sample in plan.samples
            ]
        )
        publish_answers(repository, spool, description)


def answers_of(folder: Path) -> dict[str, Any]:
    """Return the texts of the candidate's answers by question, and the manifest."""
    (answers,) = [s for s in sets_in(folder) if s.manifest.specification.model.name != BASELINE]
    return {"texts": by_row(answers, "text"), "manifest": answers.manifest}


def test_a_worse_model_is_left_early_and_completed_to_the_same_answers(
    demo_model: Path, prefect_server: str, tmp_path: Path
) -> None:
    job, answers = job_file(tmp_path, demo_model), tmp_path / "answers"
    publish_right_answers(LocalRepository(answers), job, tmp_path / "right")
    gate = ["--baseline", BASELINE, "--max-drop", "2"]
    where = {
        "PREFECT_API_URL": prefect_server,
        "REGRADE_SPOOL": str(tmp_path / "spool"),
        "VLLM_CPU_KVCACHE_SPACE": "1",
    }

    def evaluate(folder: Path, *more: str) -> dict[str, Any]:
        ran = regrade(
            *("evaluate", "--config", job, "--answers", folder, "--json", *more),
            process=True,
            timeout=600,
            **where,
        )
        assert ran.code == (1 if more else 0), ran.err  # of a worse model, with a gate
        (found,) = ran.document["answer_sets"]
        return {**found, "log": ran.err}

    early = evaluate(answers, *gate, "--stop-when-sure")
    stopped, part = early["stopped"], answers_of(answers)
    whole = evaluate(answers, *gate, "--junit", str(tmp_path / "verdict.xml"))
    alone = evaluate(tmp_path / "alone")

    assert (stopped["verdict"], stopped["of"]) == ("regression", LIMIT)
    assert 0 < stopped["questions"] <= early["rows"] < LIMIT
    assert early["scores"] == []
    assert stopped["saved_questions"] == LIMIT - early["rows"]
    assert stopped["saved_tokens"] > 0
    assert part["manifest"].state == "incomplete"
    assert f"stopped after {stopped['questions']} of {LIMIT}: regression" in early["log"]
    assert whole["answer_set_id"] == alone["answer_set_id"] == early["answer_set_id"]
    assert whole["generated"] == LIMIT - early["rows"]
    verdict = ElementTree.fromstring((tmp_path / "verdict.xml").read_text())
    assert (verdict.get("tests"), verdict.get("failures")) == ("1", "1")
    assert whole["stopped"] is None
    completed, expected = answers_of(answers), answers_of(tmp_path / "alone")
    assert completed["manifest"].state == "complete"
    assert completed["texts"] == expected["texts"]
    assert part["texts"].items() <= expected["texts"].items()
    assert json.dumps(whole["scores"][0]["metrics"]["accuracy"]) == json.dumps(
        alone["scores"][0]["metrics"]["accuracy"]
    )

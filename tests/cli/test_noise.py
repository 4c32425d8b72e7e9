"""`regrade noise` with real vLLM: both askings from one engine start, and log-probabilities alone and in batches."""

from pathlib import Path

import pytest
import yaml

from regrade.comparing.noise import NoiseReport
from tests.command_line import ROOT, demo_parameters, regrade

pytestmark = [pytest.mark.vllm, pytest.mark.prefect, pytest.mark.timeout(900)]
QUESTIONS = 40


def test_an_unchanged_model_on_a_cpu_is_asked_twice_by_one_engine(
    demo_model: Path, prefect_server: str, tmp_path: Path
):
    (entry,) = demo_parameters()["datasets"][:1]
    entry["path"] = str(ROOT / entry["path"])
    job = {
        "datasets": [entry],
        "limit": QUESTIONS,
        "engine": {"kind": "vllm", "enforce_eager": True, "dtype": "float32", "max_num_seqs": 32},
    }
    file = tmp_path / "job.yaml"
    file.write_text(yaml.safe_dump(job))
    where = {
        "PREFECT_API_URL": prefect_server,
        "REGRADE_SPOOL": str(tmp_path / "spool"),
        "VLLM_CPU_KVCACHE_SPACE": "1",
    }

    words = ("noise", demo_model, "--config", file, "--in-flight", "2", "--json")
    ran = regrade(*words, "--answers", tmp_path / "answers", process=True, timeout=800, **where)

    assert ran.code == 0, ran.err
    known = {name: ran.document[name] for name in NoiseReport.model_fields}
    report = NoiseReport.model_validate(known)
    (measured,) = report.floors
    floor = measured.floor
    assert (floor.n, floor.unanswered) == (QUESTIONS, 0)
    # Float32 rounds far below what greedy answers of this model turn on.
    assert (floor.scores_differ, floor.texts_differ) == (0, 0)
    assert (floor.first.in_flight, floor.second.in_flight) == (None, 2)
    assert ran.err.count("is ready after") == 1
    check = floor.second.batches
    assert check is not None
    assert check.tokens > 8 * 8 * 16
    assert check.largest < 1e-3
    assert (check.differing == 0) == (check.largest == 0)
    assert floor.first.batches is None
    assert ["not tried" in note and "on GPUs only" in note for note in report.notes] == [True]

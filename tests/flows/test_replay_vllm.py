"""`regrade replay` with real vLLM: the same model is the same up to noise, also through its server; other weights differ."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from perf.workloads import checkpoint
from tests.command_line import ROOT, demo_parameters, regrade
from tests.engine_fixtures import SERVED_NAME
from tests.stored import sets_in

pytestmark = [pytest.mark.vllm, pytest.mark.prefect, pytest.mark.slow, pytest.mark.timeout(1800)]
LIMIT = 40
ENGINE = {"kind": "vllm", "enforce_eager": True, "dtype": "float32"}


def test_a_model_is_the_same_as_itself_and_its_server_and_differs_from_other_weights(
    demo_model: Path, vllm_server: str, prefect_server: str, tmp_path: Path
) -> None:
    demo = demo_parameters()
    entry = demo["datasets"][0]
    entry["path"] = str(ROOT / entry["path"])
    answers = tmp_path / "answers"
    job = {"model": str(demo_model), "limit": LIMIT, "datasets": [entry], "engine": ENGINE}
    file = tmp_path / "job.yaml"
    file.write_text(yaml.safe_dump(job))
    where = {
        "PREFECT_API_URL": prefect_server,
        "REGRADE_SPOOL": str(tmp_path / "spool"),
        "VLLM_CPU_KVCACHE_SPACE": "1",
    }
    ran = regrade(
        "generate", "--config", file, "--answers", answers, process=True, timeout=900, **where
    )
    assert ran.code == 0, ran.err
    [generated] = sets_in(answers)

    def replayed(model: str, engine: dict[str, Any]) -> dict[str, Any]:
        file = tmp_path / "replay.yaml"
        named = {"own_model": str(demo_model), "model": model, "engine": engine}
        file.write_text(yaml.safe_dump(named))
        told = ("--config", file, "--answers", answers, "--json")
        answer_set = generated.manifest.answer_set_id
        ran = regrade("replay", answer_set, *told, process=True, timeout=900, **where)
        assert ran.code == 0, ran.err
        document: dict[str, Any] = ran.document
        return document

    server = {"kind": "openai", "base_url": vllm_server}
    itself = replayed(str(demo_model), ENGINE)
    served = replayed(SERVED_NAME, server)
    other = replayed(str(checkpoint(demo_model, tmp_path / "other", 1)), ENGINE)

    for same in (itself, served):
        assert (same["verdict"], same["answers"]) == ("the same up to noise", LIMIT)
        assert same["absolute"]["largest"] < 1e-3
    assert served["tokens"] == itself["tokens"]
    assert served["other"]["ran_on"][0].startswith("openai ")
    assert other["verdict"].startswith("differs by ")
    assert other["excess"]["low"] > 1e-3

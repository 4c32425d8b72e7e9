"""`regrade plan` on the command line, with vLLM on this machine."""

import json
from pathlib import Path

import pytest

from regrade.engines.base import Engine
from tests.command_line import DEMO, regrade


@pytest.fixture(autouse=True)
def logs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REGRADE_LOGS", str(tmp_path / "logs"))


@pytest.mark.vllm
def test_the_plan_is_exactly_what_the_engine_has(vllm_engine: Engine):
    memory = vllm_engine.info.memory
    assert memory is not None
    assert memory.kv_cache is not None
    settings = (
        "--engine.enforce-eager",
        "--engine.extra",
        f"kv_cache_memory_bytes={memory.kv_cache}",
    )

    ran = regrade("plan", DEMO / "regrade-demo", "--max-model-len", "512", *settings, "--json")

    assert ran.code == 0, ran.err
    plan = ran.document
    assert (plan["max_model_len"], plan["length_source"]) == (512, "as given")
    (split,) = plan["splits"]
    assert split["tokens"] == memory.kv_cache_tokens
    assert split["concurrency"] == memory.kv_cache_concurrency
    assert split["weights"] == [memory.weights]


@pytest.mark.vllm
@pytest.mark.slow
def test_the_length_is_that_of_the_benchmarks_longest_request(tmp_path: Path):
    source = tmp_path / "test.jsonl"
    rows = [{"question": f"{n} + 1?", "answer": f"#### {n + 1}"} for n in (1, 10**40)]
    source.write_text("".join(json.dumps(row) + "\n" for row in rows))
    options = ("--n-shots", "0", "--format", "completion", "--max-tokens", "700")
    where = ("--gpus", "2", "--gpu-memory", "1GiB", "--answers", tmp_path / "answers")

    ran = regrade(
        "plan",
        DEMO / "regrade-demo",
        *("--benchmark", "gsm8k", "--source", f"gsm8k={source}"),
        *options,
        *where,
    )

    assert ran.code == 0, ran.err
    assert "length: 768 tokens, the longest of 2 requests of gsm8k:" in ran.out
    assert "and 700 of answer" in ran.out
    assert "margin: 102.4 MiB assumed (10 % of the GPU)" in ran.out
    assert "TP 1 x PP 1 x DP 2" in ran.out
    assert "begin with this" in ran.out


@pytest.mark.vllm
@pytest.mark.slow
def test_what_does_not_fit_ends_with_exit_code_1_and_says_by_how_much(tmp_path: Path):
    ran = regrade(
        "plan",
        DEMO / "regrade-demo",
        *("--gpu-memory", "64MiB", "--max-model-len", "200000"),
        *("--engine.extra", "hf_overrides={}"),
    )
    assert ran.code == 2, ran.out  # longer than the model allows
    assert "the model allows" in ran.err

    where = ("--gpu-memory", "16MiB", "--answers", tmp_path / "answers")
    ran = regrade("plan", DEMO / "regrade-demo", *where)
    assert ran.code == 1, ran.out + ran.err
    assert "per GPU too little" in ran.out
    assert "regrade-demo does not fit on 1 x GPU of 16.0 MiB" in ran.out
    assert "TP 1 x PP 1 x DP 1 lacks least" in ran.out


@pytest.mark.vllm
@pytest.mark.slow
def test_the_file_of_an_evaluation_is_a_plan_too(tmp_path: Path):
    where = ("--gpu", "l4", "--answers", tmp_path / "answers", "--json")

    ran = regrade("plan", "--config", DEMO / "demo.yaml", *where)

    assert ran.code == 0, ran.err
    assert ran.document["model"] == "regrade-demo"
    assert "requests of demo-arithmetic, demo-choice" in ran.document["length_source"]

    ran = regrade("plan", "--config", DEMO / "demo.yaml", "--max-model-len", "256", *where)

    assert ran.code == 0, ran.err
    assert ran.document["max_model_len"] == 256

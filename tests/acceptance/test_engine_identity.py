"""The id of an answer set covers the engine, with real vLLM."""

import json
from pathlib import Path

import pytest

from tests.command_line import DEMO, regrade


@pytest.mark.slow  # loads vLLM twice
@pytest.mark.vllm
@pytest.mark.timeout(900)
def test_answers_of_dummy_weights_are_not_those_of_the_real_weights(tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    data = {"name": "demo-arithmetic", "path": str(DEMO / "data" / "arithmetic.jsonl")}
    prompt = '{{ question }}\nWork it out and end with a line "#### " and the answer.'
    dataset = {**data, "prompt": prompt, "scorer": "number", "sampling": {"max_tokens": 96}}
    settings = {"model": str(DEMO / "regrade-demo"), "datasets": [dataset], "limit": 24}
    config.write_text(json.dumps({**settings, "engine": {"enforce_eager": True}}))

    def accuracy(*options: str) -> tuple[int, float]:
        done = regrade(
            *("evaluate", "--config", config, "--answers", tmp_path / "answers", "--json"),
            *options,
            process=True,
            timeout=400,
            REGRADE_SPOOL=str(tmp_path / "spool"),
        )
        assert done.code == 0, done.err
        (found,) = done.document["answer_sets"]
        return found["generated"], found["scores"][0]["metrics"]["accuracy"]

    assert accuracy("--engine.extra", "load_format=dummy") == (24, 0.0)
    generated, real = accuracy()
    assert generated == 24
    assert real > 0.5
    # Other limits of the batch are the same model.
    assert accuracy("--engine.max-num-seqs", "7", "--engine.max-model-len", "512") == (0, real)

"""Log-probabilities of vLLM by regrade's engine are those of the harness' own vLLM model."""

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from regrade.engines.base import Engine, MeasuredEngine, PromptRendering
from regrade.lm_eval.index import TaskEntry
from regrade.models.base import ResolvedModel
from regrade.records import Request
from regrade.settings import SamplingParams
from tests.engine_fixtures import FAST

pytestmark = [pytest.mark.vllm, pytest.mark.slow]
LONG = "The cat , number one , sat on the mat and looked at the old man . " * 60
PAIRS: list[tuple[list[str], list[str]]] = [
    (["Question: What is 1 + 1?\nAnswer:"], [" A", " B", " C"]),
    (["A man has 3 eggs. He "], [" breaks them gently", " sings", "flies to the moon\n"]),
    (["The cup was big because the cup", "The cup was big because the box"], [" was red."] * 2),
    ([""], [" no context", "x"]),
]


def _request(key: int, contexts: list[str], labels: list[str]) -> Request:
    return Request(
        key,
        contexts[0],
        SamplingParams(temperature=0.0, max_tokens=1),
        tuple(labels),
        "continuations",
        tuple(contexts) if len(contexts) > 1 else (),
    )


def test_the_numbers_are_those_of_the_harness_with_vllm(
    vllm_engine: Engine, demo_model: Path, index: Mapping[str, TaskEntry], tmp_path: Path
) -> None:
    requests = [_request(key, *pair) for key, pair in enumerate(PAIRS)]
    text = Request(99, "", SamplingParams(max_tokens=1), (LONG,), "text")

    found = {c.key: c for batch in vllm_engine.generate([*requests, text]) for c in batch}

    asked = [
        [contexts[place if len(contexts) > 1 else 0], label]
        for contexts, labels in PAIRS
        for place, label in enumerate(labels)
    ]
    arguments = json.dumps({"pairs": asked, "text": LONG, "length": FAST.max_model_len})
    words = [str(demo_model), str(tmp_path / "out")]
    harness = subprocess.run(
        [sys.executable, "-m", "tests.lm_eval.harness_vllm", *words],
        input=arguments,
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert harness.returncode == 0, harness.stderr[-3000:]
    theirs: dict[str, Any] = json.loads((tmp_path / "out").read_text())
    ours = [found[key] for key in range(len(PAIRS))]
    logprobs, greedy = zip(*theirs["ranked"], strict=True)
    of_all = [logprob for completion in ours for logprob in completion.label_logprobs or ()]
    assert of_all == pytest.approx(logprobs, abs=1e-3)
    assert [is_greedy for completion in ours for is_greedy in completion.label_is_greedy or ()] == [
        *greedy
    ]
    assert found[99].label_logprobs == pytest.approx([theirs["rolled"]], rel=1e-5)


def test_continuations_share_a_short_context_also_on_a_cpu(
    resolved_model: ResolvedModel, tmp_path: Path
) -> None:
    """vLLM's block on a CPU has 128 tokens."""
    words = " one two three four five six seven eight nine ten" * 3
    contexts = [f"Number {n}:{words}" for n in range(40)]
    asked = [
        _request(n, [context], [" the red car", " a blue house", " some old trees"])
        for n, context in enumerate(contexts)
    ]

    with FAST.open(
        resolved_model, requests=[asked], rendering=PromptRendering(), log=tmp_path / "vllm.log"
    ) as engine:
        found = [c for batch in engine.generate(asked) for c in batch]
        assert isinstance(engine, MeasuredEngine)
        speed = engine.measure()

    assert {c.label_method for c in found} == {"per_choice"}
    assert all(32 < (c.prompt_tokens or 0) < 128 for c in found)
    assert speed is not None
    assert (speed.prefix_hit_rate or 0) > 0.25

"""Conversations with real vLLM: the next turn's prompt holds the model's own answer, token by token."""

from pathlib import Path
from typing import Any

import pytest

from regrade.answers.spool import Spool
from regrade.benchmarks import open_dataset
from regrade.engines.vllm import VllmEngine
from regrade.jobs.generate import Filling, fill
from regrade.jobs.plan import PooledRequests, make_plan
from regrade.records import Request
from regrade.settings import PromptSettings, SamplingSettings
from tests.conversations import conversations, write_turns
from tests.engines.vllm_process.asking import ask, opened

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(900)]
TALKS = [
    [
        f"One of the bricks costs {price} dollars. How many dollars does Lena pay for 3 bricks?",
        "And for 5 bricks?",
        "Thank you. And for one?",
    ]
    for price in (2, 3, 4)
]
"""The demo model never ends its answer to the first."""
MOST = 96


def holds(tokens: list[int], part: list[int]) -> bool:
    return any(tokens[at : at + len(part)] == part for at in range(len(tokens) - len(part) + 1))


def test_a_turns_prompt_has_the_answer_before_it_token_by_token(demo_model: Path, tmp_path: Path):
    from transformers import AutoTokenizer

    settings = VllmEngine(
        enforce_eager=True, max_num_seqs=4, extra=(f"kv_cache_memory_bytes={2**28}",)
    )
    path = write_turns(tmp_path / "talks.jsonl", *TALKS)
    model = settings.resolve(str(demo_model))
    plan = make_plan(
        open_dataset(conversations(path)),
        model,
        settings,
        sampling=SamplingSettings(temperature=0.0, max_tokens=MOST),
        prompt=PromptSettings(),
        repeats=1,
    )
    pool = PooledRequests((plan.requests(plan.missing(set())),))
    log = tmp_path / "vllm.log"
    with Spool(tmp_path / "spool") as spool, opened(model, log, settings, pool) as engine:
        fill([Filling(pool.parts[0], spool, lambda _: None)], engine)
        speed = engine.measure()
        rows: dict[tuple[str, int], dict[str, Any]] = {}
        for batch in spool.batches(["sample_id"]):
            for row in batch.to_pylist():
                talk, _, turn = row["sample_id"].partition("#")
                rows[talk, int(turn[0])] = row
        sampling = next(iter(pool)).sampling
        last = next(key for key, row in rows.items() if key[1] == 3 and row["error"] is None)
        alone = Request(0, _messages(rows, last)[0], sampling)
        context = engine.info.max_model_len
        [again] = ask(engine, [alone])

    assert len(rows) == 9
    assert speed is not None  # of one call, with the turns that became ready
    cut = next(talk for (talk, _), row in rows.items() if row["finish_reason"] == "length")
    reason = "Not asked, because of the turn before it: its answer was cut off."
    assert [rows.pop((cut, number))["error"] for number in (1, 2, 3)] == [None, reason, reason]
    tokenizer = AutoTokenizer.from_pretrained(demo_model)
    for (talk, number), row in rows.items():
        assert row["error"] is None, row["error"]
        if number == 1:
            continue
        before = rows[talk, number - 1]
        ids = tokenizer(row["prompt"], add_special_tokens=False)["input_ids"]
        said = [token for token in before["token_ids"] if token not in tokenizer.all_special_ids]
        assert said
        assert holds(ids, said)
        assert before["text"] in row["prompt"]
        assert row["prompt_tokens"] == len(ids)
        messages = _messages(rows, (talk, number))[0]
        rendered = tokenizer.apply_chat_template(
            list(messages), tokenize=False, add_generation_prompt=True
        )
        assert row["prompt"] == rendered
    assert again.text == rows[last]["text"]
    # Room for three answers at their longest was planned before any was there.
    assert context is not None
    assert context >= 3 * MOST + max(row["prompt_tokens"] for row in rows.values()) - 2 * MOST


def _messages(rows: dict[tuple[str, int], dict[str, Any]], *keys: tuple[str, int]) -> list[Any]:
    """Messages of each turn, from the stored questions and answers."""
    found = []
    for talk, number in keys:
        messages = []
        for turn in range(1, number + 1):
            messages.append({"role": "user", "content": rows[talk, turn]["question"]})
            if turn < number:
                messages.append({"role": "assistant", "content": rows[talk, turn]["text"]})
        found.append(tuple(messages))
    return found

"""Failed requests are asked again, from the command line to the stored answers."""

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.answering import answering, said
from tests.command_line import Ran, regrade

pytestmark = [pytest.mark.prefect, pytest.mark.timeout(600)]
QUESTIONS = 6


@pytest.mark.slow
def test_failed_requests_are_told_and_sent_again_by_the_same_command(
    tmp_path: Path, prefect_api: str
):
    refused = {"2?"}
    asked: Counter[str] = Counter()

    def reply(body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        question = body["messages"][-1]["content"]
        asked[question] += 1
        if question in refused:
            return 400, {"error": {"message": "not today"}}
        return 200, said("#### 1")

    questions, answers, config = (tmp_path / name for name in ("q.jsonl", "answers", "config.yaml"))
    rows = [{"question": f"{number}?", "answer": "1"} for number in range(QUESTIONS)]
    questions.write_text("".join(json.dumps(row) + "\n" for row in rows))

    def evaluate(*options: str) -> Ran:
        asked.clear()
        return regrade(
            *("evaluate", "--config", config, "--json", *options),
            process=True,
            PREFECT_API_URL=prefect_api,
            REGRADE_SPOOL=str(tmp_path / "spool"),
            REGRADE_LOGS=str(tmp_path / "logs"),
        )

    def listed() -> dict[str, Any]:
        found = regrade("list", "--answers", answers, "--json").document
        (answer_set,) = found["answer_sets"]
        return dict(answer_set)

    with answering(reply, lambda: {"id": "m", "root": "/ckpt/1"}) as url:
        settings = {
            "model": "m",
            "datasets": [{"name": "ones", "path": str(questions), "scorer": "number"}],
            "engine": {"kind": "openai", "base_url": url},
            "answers": str(answers),
            "tracking_uri": f"sqlite:///{tmp_path / 'mlflow.db'}",
        }
        config.write_text(json.dumps(settings))
        first = evaluate()

        assert first.code == 1
        assert "ones · m: 1 of 6 answers missing (1 failed)." in first.err
        assert "The same command sends their requests again" in first.err
        assert re.search("the first request that failed: .*not today", first.err)
        (score,) = first.document["answer_sets"][0]["scores"]
        assert (score["metrics"]["n"], score["metrics"]["failed"]) == (5, 1)
        assert (listed()["complete"], listed()["failed"]) == (False, 1)

        assert (evaluate("--keep-failed").code, asked) == (1, {})

        refused.clear()
        again = evaluate()
        assert again.code == 0, again.err
        assert asked == {"2?": 1}
    (score,) = again.document["answer_sets"][0]["scores"]
    assert (score["metrics"]["n"], score["metrics"]["accuracy"]) == (QUESTIONS, 1.0)
    assert (listed()["complete"], listed()["rows"]) == (True, QUESTIONS)
    assert regrade("verify", "--answers", answers).code == 0

"""Benchmarks with images, and BFCL, from their files through a server to their scores."""

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from tests.answering import answering
from tests.benchmarks import test_bfcl as bfcl
from tests.benchmarks import visual
from tests.benchmarks.visual import VISUAL
from tests.command_line import regrade

pytestmark = [pytest.mark.prefect, pytest.mark.timeout(300)]
ANSWERS = {
    "What is the value 0?": "The answer is 14.3.",  # 14, and so near enough
    "What is the value 1?": "no",
    "What is on line 0?": "0.28",
    "What is on line 1?": "ITC Limitd",  # one of 11 characters is missing
}
CALL = {"name": "math_area", "arguments": '{"base": 10}'}


def test_answers_of_a_server_are_scored_by_the_rules_of_their_benchmarks(
    tmp_path: Path, prefect_api: str
) -> None:
    seen: list[Any] = []

    def reply(body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        content = body["messages"][-1]["content"]
        seen.append(content)
        message: dict[str, Any] = {"role": "assistant", "content": None}
        if "tools" in body:
            wants = "irrelevance" not in content
            message["tool_calls"] = [{"id": "1", "type": "function", "function": CALL}] * wants
        else:
            text = content[-1]["text"]
            message["content"] = next((a for q, a in ANSWERS.items() if q in text), "14")
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        usage = {"prompt_tokens": 3, "completion_tokens": 1, "total_tokens": 4}
        return 200, {"choices": [choice], "usage": usage}

    sources = {
        "chartqa": VISUAL["chartqa"](_folder(tmp_path, "charts")),
        "docvqa": VISUAL["docvqa"](_folder(tmp_path, "pages")),
        "bfcl": bfcl.write(_folder(tmp_path, "calls"), bfcl.files("v4")),
    }
    with answering(reply, lambda: {"id": "m", "root": "/ckpt/1"}) as url:
        config = {
            "model": "m",
            "benchmarks": [*sources],
            "sources": [{"benchmark": name, "path": str(path)} for name, path in sources.items()],
            "engine": {"kind": "openai", "base_url": url},
            "answers": str(tmp_path / "answers"),
            "tracking_uri": f"sqlite:///{tmp_path / 'mlflow.db'}",
        }
        (tmp_path / "config.yaml").write_text(json.dumps(config))
        ran = regrade(
            *("evaluate", "--config", tmp_path / "config.yaml", "--json"),
            process=True,
            PREFECT_API_URL=prefect_api,
            REGRADE_SPOOL=str(tmp_path / "spool"),
            REGRADE_LOGS=str(tmp_path / "logs"),
        )

    assert ran.code == 0, ran.err
    found = {one["benchmark"]: one["scores"][0] for one in ran.document["answer_sets"]}
    values = {name: (one["scorer"], one["metrics"]["accuracy"]) for name, one in found.items()}
    assert values == {
        "chartqa": ("relaxed_accuracy", pytest.approx(1 / 4)),
        "docvqa": ("anls", pytest.approx((1 + 10 / 11) / 2)),
        "bfcl": ("tool_calls", 1.0),
    }
    images = [part["image_url"]["url"] for one in seen if isinstance(one, list) for part in one[:1]]
    data = base64.b64encode(visual.picture()["bytes"]).decode()
    assert f"data:image/png;base64,{data}" in images


def _folder(parent: Path, name: str) -> Path:
    (parent / name).mkdir()
    return parent / name

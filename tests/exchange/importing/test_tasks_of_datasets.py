"""A dataset's own task, its `eval.yaml`, with images: real Inspect asks it of a server, and its log is imported."""

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml
from huggingface_hub import CommitOperationAdd, HfApi

from regrade.answers.local import LocalRepository
from regrade.exchange.importing.importer import import_files
from regrade.records.images import Image
from tests.answering import answering
from tests.command_line import ROOT
from tests.exchange.importing.writing import parquet
from tests.hub_server.fixtures import Hub
from tests.pictures import image

INSPECT = ROOT / ".peers" / "bin" / "inspect"
pytestmark = [
    pytest.mark.slow,  # `make test-slow` installs the peers
    pytest.mark.timeout(300),
    pytest.mark.skipif(
        not INSPECT.exists(), reason="inspect is not installed: infra/install-peers.sh"
    ),
]
TASK = {
    "id": "colours",
    "split": "test",
    "field_spec": {"input": "question", "input_image": "picture", "target": "answer"},
    "solvers": [{"name": "generate"}],
    "scorers": [{"name": "includes"}],
}


def publish_task(hub: Hub, shown: Sequence[Image], rows: Path) -> str:
    """Publish a dataset with a task of its own, a question for each image; return its name."""
    asked = [
        {"question": f"Which colour has number {n}?", "picture": one.data_uri, "answer": "red"}
        for n, one in enumerate(shown)
    ]
    api, name = HfApi(hub.endpoint, hub.token), f"{hub.user}/colours"
    api.create_repo(name, repo_type="dataset")
    files = {
        "eval.yaml": yaml.safe_dump({"name": "colours", "tasks": [TASK]}).encode(),
        "data/test-00000-of-00001.parquet": parquet(rows, asked).read_bytes(),
    }
    operations = [CommitOperationAdd(path, content) for path, content in files.items()]
    api.create_commit(name, operations, repo_type="dataset", commit_message="questions")
    return name


def test_images_of_a_task_in_the_eval_yaml_of_a_dataset_reach_the_model_and_its_answers(
    hub: Hub, tmp_path: Path
) -> None:
    shown = [image(1), image(2, "JPEG")]
    name = publish_task(hub, shown, tmp_path / "rows")
    seen: list[Any] = []

    def reply(body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        seen.append([part for message in body["messages"] for part in message["content"]])
        message = {"role": "assistant", "content": "It is red."}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        return 200, {"id": "1", "created": 1, "model": "m", "choices": [choice]}

    with answering(reply, lambda: {"id": "m", "root": "/m"}) as url:
        done = subprocess.run(
            [
                *(INSPECT, "eval", f"hf/{name}", "--model", "openai-api/regrade/m"),
                *("--model-base-url", url, "--log-dir", tmp_path / "logs", "--display", "plain"),
            ],
            env={n: v for n, v in os.environ.items() if n != "PYTHONPATH"}
            | {
                "HF_ENDPOINT": hub.endpoint,
                "HF_TOKEN": hub.token,
                "HF_HOME": str(tmp_path / "home"),
            }
            | {"REGRADE_API_KEY": "x", "HF_HUB_DISABLE_XET": "1"},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
    assert done.returncode == 0, done.stdout + done.stderr

    [found] = import_files(LocalRepository(tmp_path / "answers"), [tmp_path / "logs"]).sets

    sent = [part["image_url"]["url"] for parts in seen for part in parts if "image_url" in part]
    assert sorted(sent) == sorted(image.data_uri for image in shown)
    answers = found.answers
    stored = [row for b in answers.batches(["images", "text", "target"]) for row in b.to_pylist()]
    assert [row["images"] for row in stored] == [[image.sha256] for image in shown]
    assert {(row["text"], row["target"]) for row in stored} == {("It is red.", "red")}
    assert [answers.images.read(image.sha256) for image in shown] == shown

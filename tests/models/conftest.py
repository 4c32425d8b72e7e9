import json
from pathlib import Path

import pytest
from huggingface_hub import HfApi

from regrade.hub.retries import RetryPolicy
from tests.builders import WEIGHTS
from tests.hub_server.fixtures import Hub


@pytest.fixture
def api(hub: Hub, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> HfApi:
    """Client of the test Hub, which is also that of models: with short retries, and an empty cache."""
    monkeypatch.setenv("HF_ENDPOINT", hub.endpoint)
    monkeypatch.setenv("HF_TOKEN", hub.token)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub-cache"))
    monkeypatch.setattr("regrade.models.hub.RETRIES", RetryPolicy(attempts=2, first_wait=0.02))
    return HfApi(endpoint=hub.endpoint, token=hub.token)


def model_folder(folder: Path, **config: object) -> Path:
    """Make a folder with all parts of a model; no test loads its weights."""
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "model.safetensors").write_bytes(WEIGHTS)
    (folder / "tokenizer.json").write_text("{}")
    return folder

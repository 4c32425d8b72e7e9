"""Files that describe a model's weights without reading them, in a folder and on the Hub."""

import json
from pathlib import Path

import pytest
from huggingface_hub import HfApi

from regrade.engines.vllm import VllmEngine
from regrade.models.files import config_of, weights_size
from regrade.settings.errors import ModelError
from tests.hub_server.fixtures import Hub

CONFIG = {"model_type": "qwen3", "hidden_size": 64}
INDEX = {"metadata": {"total_size": 16_381_470_720}, "weight_map": {"a": "model-1.safetensors"}}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "model"
    made.mkdir()
    (made / "config.json").write_text(json.dumps(CONFIG))
    return made


def test_the_configuration_alone_is_a_model_to_plan(folder: Path):
    model = VllmEngine().resolve_to_plan(str(folder), needs_tokenizer=False)

    assert model.identity.name == "model"
    assert config_of(model) == CONFIG
    assert weights_size(model) is None
    with pytest.raises(ModelError, match="no tokenizer"):
        VllmEngine().resolve_to_plan(str(folder), needs_tokenizer=True)


def test_weights_are_sized_by_their_files_and_not_read(folder: Path):
    for number in (1, 2):
        with (folder / f"model-{number}.safetensors").open("wb") as file:
            file.truncate(3 << 40)  # a hash of these would take hours

    model = VllmEngine().resolve_to_plan(str(folder), needs_tokenizer=False)

    assert weights_size(model) == 6 << 40


def test_an_index_without_its_files_has_their_size(folder: Path):
    (folder / "model.safetensors.index.json").write_text(json.dumps(INDEX))

    model = VllmEngine().resolve_to_plan(str(folder), needs_tokenizer=False)

    assert weights_size(model) == 16_381_470_720


def test_on_the_hub_only_small_files_are_read(
    hub: Hub, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("HF_ENDPOINT", hub.endpoint)
    monkeypatch.setenv("HF_TOKEN", hub.token)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub-cache"))
    (folder / "model.safetensors.index.json").write_text(json.dumps(INDEX))
    (folder / "model-1.safetensors").write_bytes(b"weights")
    name = f"{hub.user}/large"
    api = HfApi(endpoint=hub.endpoint, token=hub.token)
    api.create_repo(name)
    api.upload_folder(repo_id=name, folder_path=folder)

    model = VllmEngine().resolve_to_plan(name, needs_tokenizer=False)

    assert config_of(model) == CONFIG
    assert weights_size(model) == 16_381_470_720
    assert not list((tmp_path / "hub-cache").rglob("*.safetensors"))

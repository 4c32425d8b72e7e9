import json
import logging
from pathlib import Path

import pytest
from huggingface_hub import HfApi

from regrade.engines.vllm import VllmEngine
from regrade.models.base import ResolvedModel
from regrade.models.resolving import resolve_here
from regrade.settings.errors import AdapterError, ModelError
from tests.hub_server.fixtures import Hub
from tests.models.conftest import model_folder


@pytest.fixture
def base(tmp_path: Path) -> Path:
    return model_folder(tmp_path / "Model-8B")


@pytest.fixture
def adapter(tmp_path: Path) -> Path:
    folder = tmp_path / "sft" / "checkpoint-200"
    folder.mkdir(parents=True)
    config = {"peft_type": "LORA", "r": 8, "base_model_name_or_path": "org/Model-8B"}
    (folder / "adapter_config.json").write_text(json.dumps(config))
    (folder / "adapter_model.safetensors").write_bytes(b"matrices")
    return folder


def change(adapter: Path, **values: object) -> None:
    path = adapter / "adapter_config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | values))


def adapted(base: Path, adapter: object) -> ResolvedModel:
    return VllmEngine(lora=str(adapter)).resolve(str(base))


def test_an_adapter_is_part_of_the_models_name_and_identity(base: Path, adapter: Path):
    alone, model = resolve_here(str(base)), adapted(base, adapter)

    assert model.identity.name == "Model-8B+sft/checkpoint-200"
    assert model.identity.revision == alone.identity.revision
    assert model.identity.adapter is not None
    assert model.identity.adapter.name == "sft/checkpoint-200"
    assert len(model.identity.adapter.revision) == 64
    assert (model.path, model.adapter) == (alone.path, str(adapter))
    assert (alone.adapter, alone.identity.adapter) == (None, None)


@pytest.mark.parametrize("file", ["adapter_config.json", "adapter_model.safetensors"])
def test_weights_and_configuration_decide_the_identity(base: Path, adapter: Path, file: str):
    before = adapted(base, adapter).identity

    (adapter / "README.md").write_text("trained on Monday")
    (adapter / "optimizer.pt").write_bytes(b"1")
    assert adapted(base, adapter).identity == before

    if file.endswith(".json"):
        change(adapter, lora_alpha=32)
    else:
        (adapter / file).write_bytes(b"MATRICES")
    assert adapted(base, adapter).identity != before


def test_the_path_of_an_adapter_is_no_part_of_its_identity(base: Path, adapter: Path):
    before = adapted(base, adapter).identity
    moved = base.parent / "elsewhere" / "sft" / "checkpoint-200"
    moved.parent.mkdir(parents=True)

    assert adapted(base, adapter.rename(moved)).identity == before


def test_an_engine_with_an_adapter_has_no_further_setting_in_the_identity(
    base: Path, adapter: Path
):
    with_lora, without = VllmEngine(lora=str(adapter)), VllmEngine()

    assert with_lora.identity(adapted(base, adapter), truncate=False) == without.identity(
        resolve_here(str(base)), truncate=False
    )


@pytest.mark.parametrize("missing", ["adapter_config.json", "adapter_model.safetensors"])
def test_an_incomplete_adapter_is_refused(base: Path, adapter: Path, missing: str):
    (adapter / missing).unlink()

    with pytest.raises(AdapterError, match=f"has no '{missing}'") as caught:
        adapted(base, adapter)

    assert str(caught.value).startswith(f"Adapter '{adapter}': ")
    assert "save_pretrained" in str(caught.value)


def test_another_kind_than_lora_is_refused(base: Path, adapter: Path):
    change(adapter, peft_type="PREFIX_TUNING")

    with pytest.raises(AdapterError, match="peft_type 'PREFIX_TUNING'; vLLM applies only 'LORA'"):
        adapted(base, adapter)


@pytest.mark.parametrize("name", ["./nowhere", "/no/where", "nowhere", "a/b/c"])
def test_a_folder_that_does_not_exist_is_refused(base: Path, name: str):
    with pytest.raises(AdapterError, match="there is no folder"):
        adapted(base, name)


@pytest.mark.parametrize(("trained_on", "warned"), [("org/Model-8B", 0), ("org/Other-7B", 1)])
def test_an_adapter_of_another_model_is_reported(
    base: Path, adapter: Path, caplog: pytest.LogCaptureFixture, trained_on: str, warned: int
):
    change(adapter, base_model_name_or_path=trained_on)
    with caplog.at_level(logging.WARNING, "regrade"):
        adapted(base, adapter)

    assert len(caplog.messages) == warned
    assert all(f"was trained on '{trained_on}'" in message for message in caplog.messages)


@pytest.mark.parametrize(("of_base", "warned"), [("{{ messages }}", 0), ("{{ other }}", 1)])
def test_a_chat_template_of_the_adapters_own_is_reported(
    base: Path, adapter: Path, caplog: pytest.LogCaptureFixture, of_base: str, warned: int
):
    (base / "chat_template.jinja").write_text(of_base)
    (adapter / "chat_template.jinja").write_text("{{ messages }}")
    with caplog.at_level(logging.WARNING, "regrade"):
        adapted(base, adapter)

    assert len(caplog.messages) == warned
    assert all(f"--chat-template {adapter}/chat_template" in m for m in caplog.messages)


def test_an_adapter_named_as_the_model_leads_to_its_base(adapter: Path):
    with pytest.raises(ModelError) as caught:
        resolve_here(str(adapter))

    assert f"`--model org/Model-8B --lora {adapter}`" in str(caught.value)


# On the Hub


@pytest.fixture
def published(hub: Hub, api: HfApi, adapter: Path) -> str:
    """Name of an adapter on the Hub, with another one at its tag `first`."""
    name = f"{hub.user}/adapter"
    api.create_repo(name, repo_type="model")
    api.upload_folder(repo_id=name, folder_path=adapter)
    api.create_tag(name, tag="first")
    (adapter / "adapter_model.safetensors").write_bytes(b"trained for longer")
    api.upload_folder(repo_id=name, folder_path=adapter)
    return name


def test_an_adapter_on_the_hub_is_its_commit_and_is_downloaded(
    api: HfApi, base: Path, published: str
):
    newest, first = adapted(base, published), adapted(base, f"{published}@first")

    head = api.model_info(published).sha
    assert newest.identity.name == f"Model-8B+{published}"
    assert newest.identity.adapter is not None
    assert newest.identity.adapter.revision == head
    assert first.identity.adapter != newest.identity.adapter
    for model, content in ((newest, b"trained for longer"), (first, b"matrices")):
        assert Path(str(model.adapter), "adapter_model.safetensors").read_bytes() == content


def test_an_unknown_adapter_on_the_hub_is_refused(base: Path, published: str):
    with pytest.raises(AdapterError, match="Adapter 'no/body'.*not a model on the Hub"):
        adapted(base, "no/body")
    with pytest.raises(AdapterError, match="no revision 'third'"):
        adapted(base, f"{published}@third")


def test_a_model_on_the_hub_that_is_an_adapter_leads_to_its_base(published: str):
    with pytest.raises(ModelError) as caught:
        resolve_here(published)

    assert f"`--model org/Model-8B --lora {published}`" in str(caught.value)

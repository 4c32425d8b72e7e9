"""Code of models that is run with `trust_remote_code`."""

import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from huggingface_hub import HfApi

from regrade.engines.base import PromptRendering
from regrade.engines.vllm import VllmEngine
from regrade.engines.vllm_process.engine import VllmProcess
from regrade.models.base import ResolvedModel
from regrade.settings.errors import ModelError
from tests.hub_server.fixtures import Hub
from tests.models.conftest import model_folder

TRUSTED = ("trust_remote_code=true",)
OWN = {"AutoConfig": "configuration_new.NewConfig", "AutoModel": "modeling_new.NewModel"}
Publish = Callable[..., str]
"""Publishes files under a name, and returns the commit."""


@pytest.fixture
def publish(hub: Hub, api: HfApi) -> Publish:
    def publish(name: str, **files: Any) -> str:
        repository = f"{hub.user}/{name}"
        api.create_repo(repository, exist_ok=True)
        for stem, content in files.items():
            kind, text = (
                ("py", content) if isinstance(content, str) else ("json", json.dumps(content))
            )
            path = f"{stem}.{kind}"
            api.upload_file(path_or_fileobj=text.encode(), path_in_repo=path, repo_id=repository)
        return str(api.model_info(repository).sha)

    return publish


def resolved(name: str, *extra: str) -> tuple[ResolvedModel, dict[str, Any], dict[str, Any]]:
    """Return the model, its engine's part of the identity, and the further arguments that vLLM gets."""
    engine = VllmEngine(extra=(*TRUSTED, *extra), dtype="float16")
    model = engine.resolve(name)
    opened = engine.open(model, requests=(), rendering=PromptRendering(), log=Path("unused"))
    assert isinstance(opened, VllmProcess)
    identity = engine.identity(model, truncate=False)
    del identity["dtype"]
    return model, identity, opened._open_message["extra"]


def test_code_in_the_models_repository_is_that_of_the_models_commit(hub: Hub, publish: Publish):
    commit = publish("model", config={"auto_map": OWN}, modeling_new="1", configuration_new="1")
    model, identity, arguments = resolved(f"{hub.user}/model")

    assert model.revision == commit
    assert arguments == {"trust_remote_code": True, "code_revision": commit}
    assert identity == {"trust_remote_code": True}


def test_code_in_another_repository_is_pinned_and_part_of_the_identity(hub: Hub, publish: Publish):
    code = f"{hub.user}/code"
    publish("model", config={"auto_map": {"AutoModel": f"{code}--modeling.Model"}})
    commits = [publish("code", modeling=text) for text in ("1", "2")]
    _, identity, arguments = resolved(f"{hub.user}/model")

    assert arguments["code_revision"] == commits[1]
    assert identity == {"trust_remote_code": True, "code": {code: commits[1]}}

    _, chosen, arguments = resolved(f"{hub.user}/model", f"code_revision={commits[0]}")
    assert arguments["code_revision"] == commits[0]
    assert chosen == {"trust_remote_code": True, "code": {code: commits[0]}}


def test_code_in_a_folder_of_another_repository_is_pinned_to_its_commit(hub: Hub, publish: Publish):
    code = f"{hub.user}/code"
    publish("model", config={"auto_map": {"AutoModel": f"{code}--src/modeling.Model"}})
    commit = publish("code", **{"src/modeling": "1"})

    assert resolved(f"{hub.user}/model")[1]["code"] == {code: commit}


def test_a_branch_with_the_models_code_is_its_commit(hub: Hub, api: HfApi, publish: Publish):
    publish("model", config={"auto_map": OWN}, modeling_new="1")
    api.create_tag(f"{hub.user}/model", tag="old")
    newest = publish("model", configuration_new="1")
    old, identity, arguments = resolved(f"{hub.user}/model@old", "code_revision=main")

    assert old.revision != newest
    assert arguments["code_revision"] == newest
    assert identity == {"trust_remote_code": True, "code": {f"{hub.user}/model": newest}}


def test_a_folder_whose_code_is_on_the_hub_has_its_commit(
    hub: Hub, publish: Publish, tmp_path: Path
):
    code = f"{hub.user}/code"
    commit = publish("code", modeling="1")
    auto_map = {"AutoModel": f"{code}--modeling.Model", "AutoConfig": "configuration.Config"}
    folder = model_folder(tmp_path / "finetuned", auto_map=auto_map)
    _, identity, arguments = resolved(str(folder))

    assert arguments["code_revision"] == commit
    assert identity == {"trust_remote_code": True, "code": {code: commit}}


def test_code_from_two_repositories_cannot_be_pinned(hub: Hub, publish: Publish):
    code = f"{hub.user}/code"
    auto_map = {**OWN, "AutoModel": f"{code}--modeling.Model"}
    publish("model", config={"auto_map": auto_map}, configuration_new="1")
    publish("code", modeling="1")

    with pytest.raises(ModelError, match=f"comes from {code} and {hub.user}/model.*one revision"):
        resolved(f"{hub.user}/model")


def test_the_tokenizers_code_in_another_repository_is_reported_with_its_commit(
    hub: Hub, publish: Publish, caplog: pytest.LogCaptureFixture
):
    code = f"{hub.user}/tok"
    commit = publish("tok", tokenization="1")
    tokenizer = {"auto_map": {"AutoTokenizer": [f"{code}--tokenization.Tokenizer", None]}}
    publish("model", config={}, tokenizer_config=tokenizer)
    with caplog.at_level(logging.WARNING, "regrade"):
        _, identity, arguments = resolved(f"{hub.user}/model")

    assert "code_revision" not in arguments
    assert identity == {"trust_remote_code": True, "code": {code: commit}}
    assert any(code in message and commit[:12] in message for message in caplog.messages)


@pytest.mark.parametrize(
    ("reference", "message"),
    [("no/body--modeling.Model", "not a model on"), ("{user}/code--absent.Model", "absent.py")],
)
def test_code_that_does_not_exist_is_an_error(
    hub: Hub, publish: Publish, reference: str, message: str
):
    publish("code", modeling="1")
    publish("model", config={"auto_map": {"AutoModel": reference.format(user=hub.user)}})

    with pytest.raises(ModelError, match=message):
        resolved(f"{hub.user}/model")


def test_code_that_is_not_trusted_is_not_looked_for(hub: Hub, publish: Publish):
    publish("model", config={"auto_map": {"AutoModel": "no/body--modeling.Model"}})

    model = VllmEngine().resolve(f"{hub.user}/model")

    assert (model.code_revision, model.code_commits) == (None, {})

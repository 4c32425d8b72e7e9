"""Newest commits on a Hub, with as few requests as possible."""

import json

import pytest
from huggingface_hub import HfApi

from regrade.checkpoints.watching.hub import of_organisation, on_hub
from regrade.hub.retries import RetryPolicy
from regrade.settings.errors import HubError, ModelError
from tests.hub_server.faults import Answer
from tests.hub_server.fixtures import Hub


@pytest.fixture
def api(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> HfApi:
    monkeypatch.setenv("HF_ENDPOINT", hub.endpoint)
    monkeypatch.setenv("HF_TOKEN", hub.token)
    monkeypatch.setattr("regrade.models.hub.RETRIES", RetryPolicy(attempts=2, first_wait=0.02))
    return HfApi(endpoint=hub.endpoint, token=hub.token)


def upload(api: HfApi, name: str, *files: str, content: str = "{}") -> str:
    api.create_repo(name, exist_ok=True)
    for file in files:
        api.upload_file(path_or_fileobj=content.encode(), path_in_repo=file, repo_id=name)
    return str(api.model_info(name).sha)


def test_a_model_is_its_newest_commit_in_one_request(hub: Hub, api: HfApi):
    name = f"{hub.user}/small"
    first = upload(api, name, "config.json", "model.safetensors")
    asked = hub.requests("GET", f"/api/models/{name}")

    found = on_hub(name)

    assert hub.requests("GET", f"/api/models/{name}") == asked + 1
    assert (found.name, found.model, found.revision) == (name, f"{name}@{first}", first)
    assert found.waits_for is None
    second = upload(api, name, "config.json", content=json.dumps({"a": 1}))
    assert on_hub(name).revision == second != first


def test_a_model_whose_weights_come_in_later_commits_is_left(hub: Hub, api: HfApi):
    name = f"{hub.user}/large"
    seen = []
    for file in (
        "README.md",
        "config.json",
        "model-00002-of-00002.safetensors",
        "model-00001-of-00002.safetensors",
    ):
        upload(api, name, file)
        seen.append(on_hub(name).waits_for)

    assert seen == [
        "it has no 'config.json' (yet)",
        "it has no weights (yet)",
        "1 of its weight files are missing, such as 'model-00001-of-00002.safetensors'",
        None,
    ]


def test_an_organisation_is_all_of_its_models_on_every_page(
    hub: Hub, api: HfApi, monkeypatch: pytest.MonkeyPatch
):
    commits = {
        f"{hub.user}/{short}": upload(
            api, f"{hub.user}/{short}", "config.json", "model.safetensors"
        )
        for short in ("a-instruct", "b-base", "c-instruct")
    }
    upload(api, f"{hub.user}/d-adapter-instruct", "adapter_config.json")
    monkeypatch.setattr(hub.store, "page_size", 2)

    found = list(of_organisation(hub.user, "*"))
    instruct = list(of_organisation(hub.user, "*-instruct"))

    assert {revision.name: revision.revision for revision in found} == commits
    assert [revision.name.partition("/")[2] for revision in instruct] == [
        "a-instruct",
        "c-instruct",
    ]


def test_an_unknown_model_is_told(hub: Hub, api: HfApi):
    with pytest.raises(ModelError, match="not a model on the Hub"):
        on_hub(f"{hub.user}/nothing")


def test_an_organisation_that_the_hub_refuses_to_list_is_told(hub: Hub, api: HfApi):
    hub.fail("GET", r"/api/models$", Answer(403))

    with pytest.raises(HubError, match="listing its models"):
        list(of_organisation(hub.user, "*"))

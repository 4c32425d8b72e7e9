"""The newest revision of a model in a folder that a training writes meanwhile, or on the Hub, and the alias of its last good one."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from huggingface_hub import HfApi
from hypothesis import given
from hypothesis import strategies as st

from regrade.answers.aliases import is_alias_name
from regrade.checkpoints.found import Found, alias_of, in_folder, on_hub
from regrade.models.patterns import matching, named_models
from regrade.settings.errors import HubError, ModelError
from tests.checkpoints.writing import write
from tests.hub_server.faults import Answer
from tests.hub_server.fixtures import Hub
from tests.models.conftest import api

__all__ = ["api"]


def test_an_alias_has_the_name_of_its_model():
    names = ("Qwen/Qwen3-0.6B", "my run", "a" * 40)
    aliases = [alias_of("last-good-{model}", name) for name in names]
    assert aliases == ["last-good-qwen-qwen3-0-6b", "last-good-my-run", f"last-good-{'a' * 40}"]


@given(st.text(min_size=1))
def test_every_name_makes_a_valid_alias(name: str):
    assert is_alias_name(alias_of("last-good-{model}", name))


def test_long_names_that_begin_alike_have_different_aliases():
    first, second = alias_of("x-{model}", "a" * 70 + "1"), alias_of("x-{model}", "a" * 70 + "2")

    assert first != second
    assert len(first) <= 63


@pytest.fixture
def training(tmp_path: Path) -> Path:
    return tmp_path / "run-7"


def look(folder: Path, settle: float = 60) -> Found:
    return in_folder(folder, settle)


def test_a_checkpoint_has_the_name_of_its_training_and_another_model_its_own(training: Path):
    for name, expected in (("checkpoint-500", "run-7"), ("final", "final")):
        found = look(write(training, name))
        told = (found.name, found.model, found.waits_for)
        assert told == (expected, str(training / name), None)


def test_a_whole_checkpoint_is_left_until_it_has_settled(training: Path):
    folder = write(training, "checkpoint-500", age=5)

    found = look(folder, settle=60)

    assert "it is left for 60 s without a change" in str(found.waits_for)
    assert 5 <= found.age < 60
    assert look(folder, settle=1).waits_for is None


def test_a_deleted_checkpoint_has_not_changed_for_long(training: Path):
    found = look(training / "checkpoint-500")

    assert "does not exist" in (found.waits_for or "")
    assert found.age > 1e6


def test_a_checkpoint_that_is_written_again_is_another_revision(training: Path):
    folder = write(training, "checkpoint-500")
    first = look(folder)
    (folder / "optimizer.pt").write_bytes(b"decides no answer")
    os.utime(folder / "optimizer.pt", (1e9, 1e9))
    same = look(folder)
    os.utime(folder / "model.safetensors", (1e9, 1e9))
    other = look(folder)

    assert first.revision == same.revision
    assert other.revision not in ("", first.revision)


def test_the_look_does_not_read_the_weights(training: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("regrade.models.fingerprints.file_sha256", lambda *_: 1 / 0)
    assert look(write(training, "checkpoint-500")).waits_for is None


def test_a_machine_that_follows_needs_nothing_of_a_training():
    code = "import sys; import regrade.checkpoints.following; print('transformers' in sys.modules)"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.split() == ["False"]


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
    parts = [f"model-0000{part}-of-00002.safetensors" for part in (2, 1)]
    for file in ("README.md", "config.json", *parts):
        upload(api, name, file)
        seen.append(on_hub(name).waits_for)

    assert seen == [
        "it has no 'config.json' (yet)",
        "it has no weights (yet)",
        "1 of its weight files are missing, such as 'model-00001-of-00002.safetensors'",
        None,
    ]


def test_a_pattern_stands_for_the_models_of_an_organisation_on_every_page(
    hub: Hub, api: HfApi, monkeypatch: pytest.MonkeyPatch
):
    for short in ("a-instruct", "b-base", "c-instruct"):
        upload(api, f"{hub.user}/{short}", "config.json", "model.safetensors")
    upload(api, f"{hub.user}/d-adapter-instruct", "adapter_config.json")
    monkeypatch.setattr(hub.store, "page_size", 2)

    instruct = [f"{hub.user}/{short}-instruct@main" for short in ("a", "c")]
    assert matching(f"{hub.user}/*-instruct@main") == instruct
    assert len(matching(f"{hub.user}/*@main")) == 3
    with pytest.raises(ModelError, match="no model on the Hub has such a name"):
        named_models([f"{hub.user}/*-chat@main"])


def test_an_organisation_that_the_hub_refuses_to_list_is_told(hub: Hub, api: HfApi):
    hub.fail("GET", r"/api/models$", Answer(403))

    with pytest.raises(HubError, match="listing its models"):
        matching(f"{hub.user}/*@main")

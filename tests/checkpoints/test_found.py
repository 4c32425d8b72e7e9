"""The newest revision of a model in a folder that a training writes meanwhile, or on the Hub, and the alias of its last good one."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from huggingface_hub import HfApi
from hypothesis import given
from hypothesis import strategies as st

from regrade.answers.aliases import is_alias_name
from regrade.checkpoints.found import alias_of, in_folder, on_hub
from regrade.models.patterns import matching, named_models
from regrade.settings.errors import HubError, ModelError
from tests.checkpoints.writing import write
from tests.hub_server.faults import Answer
from tests.hub_server.fixtures import Hub
from tests.models.conftest import api

__all__ = ["api"]


def test_an_alias_has_the_name_of_its_model_and_a_long_one_ends_in_a_hash():
    long = "a" * 70
    names = ("Qwen/Qwen3-0.6B", "my run", "a" * 40, f"{long}1", f"{long}2")
    *aliases, first, second = [alias_of("last-good-{model}", name) for name in names]
    assert aliases == ["last-good-qwen-qwen3-0-6b", "last-good-my-run", f"last-good-{'a' * 40}"]
    assert first != second


@given(st.text(min_size=1))
def test_every_name_makes_a_valid_alias(name: str):
    assert is_alias_name(alias_of("last-good-{model}", name * 9))


def test_a_checkpoint_has_the_name_of_its_training_and_another_model_its_own(tmp_path: Path):
    for name, expected in (("checkpoint-500", "run-7"), ("final", "final")):
        folder = write(tmp_path / "run-7", name)
        found = in_folder(folder, 60)
        assert (found.name, found.model, found.waits_for) == (expected, str(folder), None)


def test_a_whole_checkpoint_is_left_until_it_has_settled_and_a_deleted_one_is_old(tmp_path: Path):
    folder = write(tmp_path, "checkpoint-500", age=5)
    found = in_folder(folder, 60)
    assert "it is left for 60 s without a change" in str(found.waits_for)
    assert 5 <= found.age < 60
    assert in_folder(folder, 1).waits_for is None

    deleted = in_folder(tmp_path / "checkpoint-1", 60)
    assert "does not exist" in str(deleted.waits_for)
    assert deleted.age > 1e6


def test_a_checkpoint_that_is_written_again_is_another_revision_for_which_no_weights_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("regrade.models.fingerprints.file_sha256", lambda *_: 1 / 0)
    folder = write(tmp_path, "checkpoint-500")
    (folder / "optimizer.pt").write_bytes(b"decides no answer")
    seen = [in_folder(folder, 0).revision]
    for file in ("optimizer.pt", "model.safetensors"):
        os.utime(folder / file, (1e9, 1e9))
        seen.append(in_folder(folder, 0).revision)

    assert seen[0] == seen[1] != seen[2]
    assert "" not in seen


def test_a_machine_that_follows_needs_nothing_of_a_training():
    code = "import sys; import regrade.checkpoints.following; print('transformers' in sys.modules)"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.split() == ["False"]


def upload(api: HfApi, name: str, *files: str) -> str:
    api.create_repo(name, exist_ok=True)
    for file in files:
        api.upload_file(path_or_fileobj=b"{}", path_in_repo=file, repo_id=name)
    return str(api.model_info(name).sha)


def test_a_model_is_its_newest_commit_in_one_request_and_left_until_all_its_weights_have_come(
    hub: Hub, api: HfApi
):
    name = f"{hub.user}/large"
    seen = []
    parts = [f"model-0000{part}-of-00002.safetensors" for part in (2, 1)]
    for file in ("README.md", "config.json", *parts):
        commit = upload(api, name, file)
        asked = hub.requests("GET", f"/api/models/{name}")
        found = on_hub(name)
        assert hub.requests("GET", f"/api/models/{name}") == asked + 1
        assert (found.name, found.model, found.revision) == (name, f"{name}@{commit}", commit)
        seen.append(found.waits_for)

    assert seen == [
        "it has no 'config.json' (yet)",
        "it has no weights (yet)",
        "1 of its weight files are missing, such as 'model-00001-of-00002.safetensors'",
        None,
    ]


def test_a_pattern_stands_for_the_models_of_an_organisation_on_every_page_or_the_refusal_is_told(
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
    hub.fail("GET", r"/api/models$", Answer(403))
    with pytest.raises(HubError, match="listing its models"):
        matching(f"{hub.user}/*@main")

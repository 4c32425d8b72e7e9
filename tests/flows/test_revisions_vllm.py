"""The revisions of a repository on the Hub, evaluated by real vLLM that gets the weights of each in place."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from huggingface_hub import HfApi

from perf.workloads import checkpoint
from tests.command_line import ROOT, demo_parameters
from tests.crash.harness import Command
from tests.hub_server.fixtures import Hub
from tests.stored import by_row, sets_in

pytestmark = [pytest.mark.slow, pytest.mark.vllm, pytest.mark.prefect, pytest.mark.timeout(2400)]
LIMIT = 60
REVISIONS = ("step-1", "step-2", "step-3")


def test_revisions_of_a_repository_are_answered_in_place_as_if_each_were_alone(
    hub: Hub, demo_model: Path, prefect_server: str, tmp_path: Path
):
    name = f"{hub.user}/training"
    api = HfApi(endpoint=hub.endpoint, token=hub.token)
    api.create_repo(name)
    for seed, revision in enumerate(REVISIONS, start=1):
        folder = checkpoint(demo_model, tmp_path / revision, seed=seed)
        api.upload_folder(folder_path=folder, repo_id=name)
        api.create_tag(name, tag=revision)
    demo = demo_parameters()
    dataset = demo["datasets"][0]
    dataset["path"] = str(ROOT / dataset["path"])

    def run(home: str, model: str) -> str:
        given = {"model": model, "limit": LIMIT, "datasets": [dataset]}
        given["engine"] = {"kind": "vllm", "enforce_eager": True, "max_num_seqs": 8}
        file = tmp_path / f"{home}.yaml"
        file.write_text(yaml.safe_dump(given))
        environment = {
            "PREFECT_API_URL": prefect_server,
            "REGRADE_CACHE": str(tmp_path / "cache"),
            "HF_ENDPOINT": hub.endpoint,
            "HF_TOKEN": hub.token,
            "HF_HUB_CACHE": str(tmp_path / "hub"),
        }
        arguments = ["evaluate", "--config", str(file), "--answers", str(tmp_path / home)]
        ran = Command(tmp_path / f"home-{home}", arguments, environment).finish(timeout=1100)
        assert ran.code == 0, ran.err
        return ran.err

    told = run("together", f"{name}@step-*")
    alone = run("alone", f"{name}@{REVISIONS[-1]}")

    # The second's start proves that weights can be replaced, and the third gets them in place.
    assert told.count(" is ready after ") == 2
    assert alone.count(" is ready after ") == 1
    found = texts(tmp_path / "together")
    commits = [api.model_info(name, revision=revision).sha for revision in REVISIONS]
    assert list(found) == commits
    assert len({tuple(sorted(said.items())) for said in found.values()}) == len(REVISIONS)
    assert texts(tmp_path / "alone") == {commits[-1]: found[commits[-1]]}


def texts(folder: Path) -> dict[str | None, dict[tuple[str, int], Any]]:
    """Return the answers by the commit of their model, each of which was in memory as its files say."""
    found = {}
    for answers in sets_in(folder):
        manifest = answers.manifest
        assert manifest.state == "complete"
        (session,) = manifest.sessions
        assert session.weights is not None
        said = {key: row["text"] for key, row in by_row(answers, "text").items()}
        assert len(said) == LIMIT
        found[manifest.specification.model.revision] = said
    return found

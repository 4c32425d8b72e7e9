"""A sweep over models and sampling with real vLLM, compared with an evaluation of each point alone."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from perf.workloads import checkpoint
from regrade.answers.local import LocalRepository
from regrade.answers.sets import list_sets
from tests.command_line import ROOT, demo_parameters
from tests.crash.harness import Command
from tests.stored import by_row

pytestmark = [pytest.mark.slow, pytest.mark.vllm, pytest.mark.prefect, pytest.mark.timeout(2400)]
LIMIT = 60
TEMPERATURES = (0.0, 0.7)
Texts = dict[tuple[str, float], dict[tuple[str, int], Any]]
"""Answers by model and temperature, and by question and repeat."""


def test_a_sweep_over_models_and_sampling_keeps_its_engine_and_answers_as_each_point_alone(
    demo_model: Path, prefect_server: str, tmp_path: Path
):
    models = [
        str(checkpoint(demo_model, tmp_path / "run" / f"checkpoint-{seed}", seed=seed))
        for seed in (1, 2)
    ]
    dataset = demo_parameters()["datasets"][0]
    dataset["path"] = str(ROOT / dataset["path"])

    def run(home: str, command: str, *options: str, **more: Any) -> Any:
        given = {"model": models[0], "limit": LIMIT, "datasets": [dataset], **more}
        given["engine"] = {"kind": "vllm", "enforce_eager": True, "max_num_seqs": 8}
        file = tmp_path / f"{home}.yaml"
        file.write_text(yaml.safe_dump(given))
        environment = {"PREFECT_API_URL": prefect_server, "REGRADE_CACHE": str(tmp_path / "cache")}
        arguments = [command, "--config", str(file), *options, "--json"]
        answers = ["--answers", str(tmp_path / home.partition("-")[0])]
        ran = Command(tmp_path / f"home-{home}", [*arguments, *answers], environment).finish(
            timeout=1100
        )
        assert ran.code == 0, ran.err
        return json.loads(ran.out)

    # Each has an engine of its own: the second one's start proves that weights can be replaced.
    for temperature in TEMPERATURES:
        run(
            f"alone-{temperature}",
            "evaluate",
            more_models=models[1:],
            sampling={"temperature": temperature},
        )
    temperatures = ",".join(map(str, TEMPERATURES))

    swept = run(
        "swept", "sweep", *(f"--model={model}" for model in models), "--temperature", temperatures
    )

    assert swept["engine_starts"] == 1
    assert [point["benchmarks"][0]["rows"] for point in swept["points"]] == [LIMIT] * 4
    found: Texts = {}
    for point in swept["points"]:
        found |= texts(Path(point["answers"]))
    assert len(found) == len({tuple(sorted(said.items())) for said in found.values()}) == 4
    assert found == texts(tmp_path / "alone")


def texts(folder: Path) -> Texts:
    """Return the answers by model and temperature, each of them by a model whose files were in memory."""
    repository = LocalRepository(folder)
    found = {}
    for answers in list_sets(repository, repository.head() or ""):
        manifest = answers.manifest
        assert manifest.state == "complete"
        assert len({s.weights.memory for s in manifest.sessions if s.weights is not None}) == 1
        said = {key: row["text"] for key, row in by_row(answers, "text").items()}
        sampling = manifest.specification.sampling
        found[(manifest.specification.model.name, sampling.temperature)] = said
    return found

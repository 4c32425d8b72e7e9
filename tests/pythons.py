"""Other versions of Python on this machine: on the path, or among pyenv's."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

SUPPORTED = ("3.11", "3.12", "3.13")


def python(version: str) -> str:
    """Return the interpreter of a version, such as `3.12`; skip the test if there is none."""
    for candidate in _candidates(version):
        done = subprocess.run([candidate, "--version"], capture_output=True, check=False)
        if done.returncode == 0:
            return candidate
    pytest.skip(f"Python {version} is not installed here")


def _candidates(version: str) -> Iterator[str]:
    if found := shutil.which(f"python{version}"):
        yield found
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    yield from map(str, sorted(pyenv.glob(f"versions/{version}.*/bin/python")))

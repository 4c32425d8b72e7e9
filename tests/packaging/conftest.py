"""The wheel of this checkout, installed in a new environment, and a user's Prefect project."""

import subprocess
import sys
import sysconfig
import venv
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.command_line import ROOT, Ran, run


@dataclass(frozen=True)
class Installed:
    wheel: Path
    environment: Path
    user_project: Path
    """A Prefect project outside of the repository, with `flows/etl.py` and without `flows/__init__.py`."""

    @property
    def python(self) -> str:
        return str(self.environment / "bin/python")

    @property
    def package(self) -> Path:
        (found,) = self.environment.glob("lib/python*/site-packages/regrade")
        return found

    def regrade(self, *arguments: str | Path, **environment: str) -> Ran:
        """Run the installed command in the user's project."""
        return self.run([str(self.environment / "bin/regrade"), *map(str, arguments)], environment)

    def imported(self, code: str, **environment: str) -> str:
        """Run Python code in the user's project and return its output."""
        done = self.run([self.python, "-c", code], environment)
        assert done.code == 0, done.err
        return done.out.strip()

    def run(self, command: list[str], environment: dict[str, str]) -> Ran:
        # PYTHONPATH of the tests names the checkout.
        return run(command, 280, {"PYTHONPATH": "", **environment}, cwd=self.user_project)


def install(environment: Path, *what: str) -> None:
    """Create a virtual environment, and install a package with pip, without network."""
    venv.create(environment, symlinks=True)
    # Dependencies come from the tests' environment, whose .pth files, which name the checkout, are not read.
    (site_packages,) = environment.glob("lib/python*/site-packages")
    # One of them is: it lets torchvision be imported.
    lines = (sysconfig.get_path("purelib"), "import torchvision_operators")
    (site_packages / "dependencies.pth").write_text("\n".join(lines))
    pip = [sys.executable, "-m", "pip", "--python", str(environment / "bin/python"), "install"]
    # Of some hundred modules, the tests import a few.
    offline = ["--quiet", "--no-compile", "--no-index", "--no-deps", "--no-build-isolation"]
    subprocess.run([*pip, *offline, *what], check=True, capture_output=True)


@pytest.fixture(scope="session")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    home = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(home)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = home.glob("*.whl")
    install(home / "venv", str(wheel))
    user_project = home / "project"
    (user_project / "flows").mkdir(parents=True)
    (user_project / "flows/etl.py").write_text("ours = True\n")
    return Installed(wheel, home / "venv", user_project)

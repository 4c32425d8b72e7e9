"""In a container with Docker's default profile bubblewrap is refused with advice, and Landlock works."""

import subprocess
import sys

from tests.command_line import ROOT
from tests.processes.sandbox.bubblewrap import needs_bubblewrap

PROGRAM = """
import sys
from regrade.settings.errors import SandboxError
from regrade.processes.sandbox.running import Runner, Suite
from regrade.processes.sandbox.sandbox import open_sandbox
try:
    with open_sandbox(sys.argv[1]) as sandbox, Runner(sandbox) as runner:
        print(runner.run_tests(["def f(x): return x"], [Suite("assert f(1) == 1")]))
except SandboxError as error:
    print(error)
"""


def in_container(sandbox: str) -> str:
    command = ["-m", "tests.processes.sandbox.docker_like", sys.executable, "-c", PROGRAM, sandbox]
    done = subprocess.run(
        [sys.executable, *command],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    return done.stdout


@needs_bubblewrap
def test_bubblewrap_is_refused_with_advice():
    said = in_container("bwrap")
    assert "A sandbox did not start: " in said
    assert "Namespaces are not allowed here" in said
    assert "--sandbox landlock" in said


def test_landlock_works_where_namespaces_are_not_allowed():
    assert in_container("landlock") == "['passed']\n"

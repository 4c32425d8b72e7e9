"""SIGTERM at any moment of a command is one line and exit code 143."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.command_line import DEMO, ROOT

LINE = "regrade: Interrupted. Finished answers are kept: the same command continues from there, and `regrade publish` publishes them.\n"

AT_AN_IMPORT = """
import os, signal, sys

class Stopping:
    def find_spec(self, name, path=None, target=None):
        if name == module:
            sys.meta_path.remove(self)
            os.kill(os.getpid(), signal.SIGTERM)

module = sys.argv.pop(1)
sys.meta_path.insert(0, Stopping())
from regrade.cli.main import main
main()
"""
IN_A_COMMAND = """
import os, signal, sys, time
from pydantic import BaseModel, field_serializer
from regrade.cli import commands

def stop():
    os.kill(os.getpid(), signal.SIGTERM)

class Row(BaseModel):
    text: str

    @field_serializer("text")
    def stored(self, text: str) -> str:
        stop()
        return text

class Dropped:
    def __del__(self):
        stop()

def serialized(words):
    Row(text="").model_dump_json()

def dropped(words):
    Dropped()
    time.sleep(60)

def twice(words):
    try:
        stop()
    finally:
        stop()

def afterwards(words):
    import atexit
    atexit.register(stop)

def kept(words):
    import builtins
    builtins.kept = Dropped()  # Python deletes it when it has no signal handlers any more
    sys.stdout.write("printed, then flushed")

commands.call = globals()[sys.argv.pop(1)]
from regrade.cli.main import main
main()
"""


def ran(code: str, *words: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-c", code, *words],
        cwd=ROOT,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.mark.parametrize(
    ("command", "module"),
    [("sweep", "prefect"), *(("evaluate", m) for m in ("cyclopts", "orjson", "prefect"))],
)
def test_a_stop_in_an_import_is_one_line(command: str, module: str, tmp_path: Path):
    words = ("--answers", str(tmp_path), *(("--temperature", "0,1") if command == "sweep" else ()))
    # One of them with a server of its own, which imports for seconds until it ends.
    server = {"PREFECT_API_URL": "http://127.0.0.1:9/api"} if module != "cyclopts" else {}
    words = (module, command, "--config", str(DEMO / "demo.yaml"), *words)
    done = ran(AT_AN_IMPORT, *words, **server)
    assert (done.returncode, done.stderr) == (143, LINE)


@pytest.mark.parametrize("moment", ["serialized", "dropped", "twice", "afterwards"])
def test_a_stop_that_a_library_wraps_or_drops_or_that_comes_twice_or_late_is_one_line(moment: str):
    done = ran(IN_A_COMMAND, moment, "list")
    assert (done.returncode, done.stderr) == (143, LINE)


def test_python_does_not_take_itself_apart_after_a_command_so_no_signal_finds_it_without_a_handler():
    done = ran(IN_A_COMMAND, "kept", "list")
    assert (done.returncode, done.stdout, done.stderr) == (0, "printed, then flushed", "")

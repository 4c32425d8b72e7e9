"""Set before anything is imported: nothing reaches beyond this machine, and nothing of the user's is touched."""

import atexit
import gc
import os
import signal
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import settings
from xdist.scheduler import LoadFileScheduling

from regrade.processes import limited
from regrade.processes.environment import LIBRARY_DEFAULTS
from tests.command_line import loggers_as_before
from tests.prefect_login import LOGIN

if TYPE_CHECKING:
    from regrade.answers.local import LocalRepository

# Until all tests are collected, nothing that is imported goes: looking for garbage in it takes a quarter of the time.
gc.disable()
_HOME = Path(tempfile.mkdtemp(prefix="regrade-tests-"))
os.environ.update(
    {
        **LIBRARY_DEFAULTS,
        "HF_HUB_DISABLE_XET": "1",
        "HF_HOME": str(_HOME / "huggingface"),
        "PREFECT_HOME": str(_HOME / "prefect"),
        "PREFECT_API_AUTH_STRING": LOGIN,
        "REGRADE_QUESTIONS": str(_HOME / "questions"),
        "REGRADE_SPOOL": str(_HOME / "spool"),
        "REGRADE_LOGS": str(_HOME / "logs"),
        "REGRADE_CACHE": str(_HOME / "cache"),
        "REGRADE_CPU_NICE": "10",
        "REGRADE_FOLDERS": f"{tempfile.gettempdir()}:{Path(__file__).parents[1]}",
    }
)
# A machine with other work has no deadline that an example could be held to.
settings.register_profile("regrade", deadline=None)
settings.load_profile("regrade")
# The lanes have the cores already, and each child process of a scorer imports for seconds of a CPU.
limited.available_cores = lambda: 1
# Without it, each process that imports tests writes their assertions anew: ten seconds of a CPU.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
# No test cuts the power: flushing to the disk is a third of the time of tests of stored answers. Those that record it wrap this.
os.fsync = lambda fd: None
# A shell that starts the tests in the background has its processes ignore Ctrl-C, and those that they start.
signal.signal(signal.SIGINT, signal.default_int_handler)
# An address that nothing answers: a test that forgets its own Hub fails at once instead of asking the real one.
os.environ["HF_ENDPOINT"] = "http://127.0.0.1:9"
for _name in (
    "HF_TOKEN",
    "HUGGING_FACE_HUB_TOKEN",
    "PREFECT_API_URL",
    "MLFLOW_TRACKING_URI",
    "REGRADE_ANSWERS",
    "REGRADE_QUESTIONS_REPOSITORY",
    "REGRADE_VIEW_URL",
    "REGRADE_VIEW_TOKEN",
    "REGRADE_VIEW_HOSTS",
):
    os.environ.pop(_name, None)

pytest_plugins = [
    "tests.hub_server.fixtures",
    "tests.engine_fixtures",
    "tests.mlflow_fixtures",
    "tests.prefect_fixtures",
]


TOGETHER = {
    "tests/packaging/": "the wheel, built and installed in 5 s",
    **dict.fromkeys(
        ("tests/lm_eval/", "tests/checkpoints/training/"), "transformers, imported in 4 s"
    ),
}
"""Folders and files of tests -> what they share. A lane takes all that share it, so that no other lane makes it again."""
LONG = (
    "tests/flows/test_evaluate.py",
    "tests/tracking/",
    *TOGETHER,
    "tests/processes/sandbox/",
    "tests/exchange/importing/test_scored.py",
    "tests/benchmarks/questions/test_hub_source.py",
    "tests/orchestration/test_worker.py",
    "tests/cli/test_sandboxes.py",
    "tests/jobs/test_made_up_field.py",
    "tests/docs/test_examples.py",
    "tests/crash/",
)
"""Folders and files that take long for their number of tests: a lane that begins one last is alone with it at the end."""


@cache
def _uses_mlflow(file: str) -> bool:
    """Tests with MLflow go together: it is imported in 4 s of a CPU, and its server starts in 10 s."""
    code = (Path(__file__).parents[1] / file).read_text()
    return "mlflow_database" in code or "mlflow_server" in code


class Lanes(LoadFileScheduling):
    """Give whole files to whichever lane is free, in the order of the collected tests."""

    def _split_scope(self, nodeid: str) -> str:
        file = super()._split_scope(nodeid)
        shared = (what for path, what in TOGETHER.items() if file.startswith(path))
        return next(shared, "MLflow" if _uses_mlflow(file) else file)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Lanes | None:
    if config.getvalue("dist") != "loadfile":
        return None
    config.option.loadscopereorder = False
    return Lanes(config, log)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark what uses the engine or the server of the session; lanes begin with long files, then those of many tests."""
    tests = Counter(item.path for item in items)

    def rank(item: pytest.Item) -> tuple[int, int, str]:
        long = (n for n, path in enumerate(LONG) if item.nodeid.startswith(path))
        return next(long, len(LONG)), -tests[item.path], str(item.path)

    if hasattr(config, "workerinput"):  # elsewhere the order is the one that was asked for
        items.sort(key=rank)
    for item in items:
        names = getattr(item, "fixturenames", ())
        if not {"vllm_engine", "vllm_server"}.isdisjoint(names):
            item.add_marker(pytest.mark.vllm)
        if "prefect_server" in names:
            item.add_marker(pytest.mark.prefect)


def pytest_collection_finish() -> None:
    """Keep imports and collected tests from the collector of garbage: they stay until the end."""
    gc.freeze()
    gc.enable()


def pytest_unconfigure() -> None:
    """Collect garbage once at the end: pytest then does it five times, which takes half a second each."""
    gc.collect()
    gc.freeze()
    atexit.register(gc.unfreeze)  # else triton's binding takes what is left for leaked, and says so


@pytest.fixture(autouse=True)
def own_loggers() -> Iterator[None]:
    """A command that a test calls shows its log lines; those of the next test are not shown."""
    with loggers_as_before():
        yield


@pytest.fixture
def repository(tmp_path: Path) -> "LocalRepository":
    """An empty repository in a folder, which is made with the first commit."""
    from regrade.answers.local import LocalRepository

    return LocalRepository(tmp_path / "answers")


@pytest.fixture
def spool_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A spool of this test's own."""
    monkeypatch.setenv("REGRADE_SPOOL", str(tmp_path / "spool"))
    return tmp_path / "spool"

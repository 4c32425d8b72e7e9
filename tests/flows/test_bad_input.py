"""Bad input gives a one-line message and exit code 2, and leaves no files."""

import json
import os
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

import psutil
import pytest

from regrade.cli import flow_run
from regrade.engines.vllm import VllmEngine
from tests.command_line import DEMO, regrade
from tests.processes.trees import wait_until

MODEL = DEMO / "regrade-demo"
SUMS = ("--dataset.name", "sums", "--dataset.scorer", "number", "--dataset.path")


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("REGRADE_SPOOL", str(tmp_path / "spool"))
    monkeypatch.setenv("REGRADE_LOGS", str(tmp_path / "logs"))
    return tmp_path


def questions(path: Path, *rows: dict[str, object]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_a_missing_column_is_named_before_the_run_exists_and_its_server_ends(
    here: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(flow_run, "prefect_server", lambda *_, **__: pytest.fail("too late"))
    path = questions(here / "q.jsonl", {"frage": "1+1", "answer": "2"})
    # Other tests of this lane may have left the session's MLflow server, which is Uvicorn, too.
    before = set(psutil.Process().children(recursive=True))
    ran = regrade("evaluate", "--answers", here / "answers", "--model", MODEL, *SUMS, path)
    assert ran.code == 2, ran.err
    assert "Traceback" not in ran.err
    assert "question" in ran.err
    assert "frage" in ran.err
    assert not (here / "answers").exists()
    assert not [*(here / "spool").rglob("*.jsonl"), *(here / "spool").rglob("*.parquet")]

    def servers() -> list[psutil.Process]:
        left = set(psutil.Process().children(recursive=True)) - before
        return [child for child in left if "uvicorn" in _command(child)]

    wait_until(lambda: not servers())


def _command(process: psutil.Process) -> list[str]:
    with suppress(psutil.Error):  # it ended meanwhile
        return process.cmdline()
    return []


def no_access(
    real: Callable[..., bool], below: Path, path: Path, mode: int, **options: bool
) -> bool:
    return not Path(path).is_relative_to(below) and real(path, mode, **options)


@pytest.mark.prefect
@pytest.mark.usefixtures("prefect_api")
@pytest.mark.parametrize("missing", ["answers", "spool"])
def test_missing_write_access_is_known_before_an_engine_starts(
    here: Path, monkeypatch: pytest.MonkeyPatch, missing: str
):
    monkeypatch.setattr(VllmEngine, "open", lambda *_, **__: pytest.fail("too late"))
    path = questions(here / "q.jsonl", {"question": "1+1", "answer": "2"})
    if missing == "answers":
        monkeypatch.setattr(os, "access", partial(no_access, os.access, here))
    else:
        monkeypatch.setenv("REGRADE_SPOOL", "/proc/spool")  # nobody can make a folder there
    ran = regrade("evaluate", "--answers", here / "answers", "--model", MODEL, *SUMS, path)
    assert ran.code in (1, 2)
    assert {"answers": "is not writable", "spool": "'/proc/spool"}[missing] in ran.err

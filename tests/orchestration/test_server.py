"""A temporary Prefect server that does not start."""

from pathlib import Path

import pytest

from tests.command_line import regrade


@pytest.mark.prefect
def test_a_temporary_server_that_does_not_start_is_named_with_what_it_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    logs = tmp_path / "logs"
    nowhere = f"sqlite+aiosqlite:///{tmp_path}/no/such/folder/prefect.db"
    monkeypatch.setenv("PREFECT_API_DATABASE_CONNECTION_URL", nowhere)
    monkeypatch.setenv("REGRADE_LOGS", str(logs))

    ran = regrade("score", "--answers", tmp_path / "answers")

    assert ran.code == 1, ran.err
    assert "The temporary Prefect server ended while it was starting" in ran.err
    assert "set PREFECT_API_URL" in ran.err
    assert "Traceback" not in ran.err
    (log,) = logs.glob("*.log")
    assert str(log) in ran.err
    assert "unable to open database file" in log.read_text()

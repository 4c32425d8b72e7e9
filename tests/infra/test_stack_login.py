"""The login of the stack: created once, for its owner only, and known to its clients."""

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from infra.stack import parts, postgres
from infra.stack.layout import Layout, StackError
from infra.stack.login import NAME, read_login, shown_login, write_client_variables
from tests.command_line import ROOT, run


def test_the_login_is_made_once_and_only_we_can_read_it(place: Layout):
    login = read_login(place)
    name, _, password = login.partition(":")
    assert name == "regrade"
    assert len(password) >= 24
    assert place.login.stat().st_mode & 0o777 == 0o600
    moved = replace(place, prefect_port=4321)
    write_client_variables(moved)
    assert read_login(moved) == login
    assert "PREFECT_API_URL=http://127.0.0.1:4321/api\n" in place.login.read_text()
    assert place.login.stat().st_mode & 0o777 == 0o600


def test_a_file_without_a_login_is_named(place: Layout):
    place.login.write_text(f"{NAME}=\n")
    with pytest.raises(StackError, match=r"\.env has no line `PREFECT_API_AUTH_STRING="):
        read_login(place)


def test_a_shell_gets_the_variables_from_the_file(place: Layout):
    write_client_variables(place)
    script = f'set -a; . {place.login}; set +a; env | grep "^{NAME}="'
    told = run(["bash", "-c", script], 60, {})
    assert told.out.strip() == f"{NAME}={read_login(place)}"


def test_a_terminal_shows_the_login_and_a_log_where_it_is(
    place: Layout, monkeypatch: pytest.MonkeyPatch
):
    login = read_login(place)
    assert shown_login(place) == f"the value of {NAME} in {place.login}"
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    assert shown_login(place) == login


def test_servers_and_clients_have_the_same_login_and_only_own_pages_are_allowed(
    place: Layout, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(postgres, "binaries", lambda *_: Path("/usr/bin"))
    prefect, mlflow = parts.servers(place)
    login = read_login(place)
    assert prefect.environment["PREFECT_SERVER_API_AUTH_STRING"] == login
    assert prefect.environment["PREFECT_SERVER_CSRF_PROTECTION_ENABLED"] == "true"
    own = [f"http://127.0.0.1:{place.prefect_port}", f"http://localhost:{place.prefect_port}"]
    assert prefect.environment["PREFECT_SERVER_CORS_ALLOWED_ORIGINS"].split(",") == own
    assert mlflow.command[-2:] == ["--app-name", "guarded"]
    assert not any(login in value for value in mlflow.environment.values())
    for worker in parts.workers(place):
        assert worker.environment[NAME] == login
        assert login not in " ".join(worker.command)


def test_make_ui_gets_the_same_variables_as_a_script(place: Layout):
    told = run([sys.executable, "-m", "infra.stack.login"], 60, {}).out
    assert f"export PREFECT_SERVER_API_AUTH_STRING={read_login(place)}\n" in told
    assert "export MLFLOW_SERVER_CORS_ALLOWED_ORIGINS=http://127.0.0.1:5000," in told
    script = (ROOT / "infra/ui.sh").read_text()
    assert "-m infra.stack.login" in script
    assert "regrade.orchestration.server:create_app" in script
    assert "--app-name guarded" in script
    # Prefect's pages ask the API at this address, and at port 4200 without it.
    assert "PREFECT_SERVER_UI_API_URL=$prefect/api" in script
    assert "regrade.tracking.run_list import prepared_list" in script

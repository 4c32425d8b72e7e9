"""The user of the workers, if the stack is started as root."""

import os
import pwd
from pathlib import Path

import pytest

from infra.stack.layout import Layout, StackError
from infra.stack.users import VARIABLE, as_user, give_folders, worker_user
from tests.command_line import run

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can start processes of others")
NOBODY = "nobody"


@needs_root
def test_a_command_of_the_worker_has_no_rights_of_root(tmp_path: Path):
    secret = tmp_path / ".env"
    secret.write_text("a login")
    secret.chmod(0o600)
    user = pwd.getpwnam(NOBODY)
    told = run(as_user(user, ["cat", "/proc/self/status"]), 60, {})
    status = dict(line.split(":\t", 1) for line in told.out.splitlines())
    assert set(status["Uid"].split()) == {str(user.pw_uid)}
    assert (status["NoNewPrivs"], int(status["CapEff"], 16)) == ("1", 0)
    assert run(as_user(user, ["cat", str(secret)]), 60, {}).code != 0


@needs_root
def test_a_user_that_does_not_exist_is_named_with_how_to_create_it(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv(VARIABLE, "no-such-user")
    with pytest.raises(StackError, match=r"no user 'no-such-user'. Create it: useradd --system"):
        worker_user()


@needs_root
def test_a_python_that_the_user_cannot_reach_is_named_with_the_folder_and_its_owner(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    hidden = tmp_path / "hidden"
    hidden.mkdir(mode=0o700)
    tmp_path.chmod(0o755)
    python = hidden / "python"
    python.write_bytes(b"")
    python.chmod(0o755)
    monkeypatch.setattr("sys.executable", str(python))
    monkeypatch.setenv(VARIABLE, NOBODY)
    with pytest.raises(StackError, match=r"cannot enter .*, owned by root with mode 700"):
        worker_user()
    monkeypatch.setenv(VARIABLE, "root")
    assert worker_user() is None
    assert capsys.readouterr().err == ""


@needs_root
def test_folders_of_the_stack_are_given_and_others_only_checked(place: Layout, tmp_path: Path):
    user = pwd.getpwnam(NOBODY)
    (place.home / "answers").mkdir()
    (place.home / "answers/old").write_text("by root")
    given = {"REGRADE_ANSWERS": place.answers, "REGRADE_SPOOL": str(place.home / "spool")}
    (place.home / "answers/link").symlink_to("/etc/hostname")
    for later in ("answers/old", "answers/new"):
        (place.home / later).write_text("by root")  # as after `regrade promote` by root
        give_folders(place, user, given)
        for path in ("answers", later, "spool", "worker"):
            assert (place.home / path).owner() == NOBODY
    assert Path("/etc/hostname").owner() == "root"
    assert place.home.owner() == "root"

    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    with pytest.raises(StackError, match=f"cannot write to {elsewhere}.*chown -R {NOBODY}"):
        give_folders(place, user, {"REGRADE_SPOOL": str(elsewhere)})
    assert elsewhere.owner() == "root"

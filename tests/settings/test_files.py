import hashlib
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from regrade.answers.withheld import questions_folder
from regrade.settings.errors import SettingsError
from regrade.settings.files import (
    atomic_write,
    cache_folder,
    file_sha256,
    keep,
    log_file,
    spool_root,
)
from regrade.settings.model_pattern import is_pattern


def _write(path: Path, content: bytes) -> None:
    with atomic_write(path) as file:
        file.write(content)


def test_a_file_is_replaced_whole(tmp_path: Path) -> None:
    _write(tmp_path / "a", b"long content")
    _write(tmp_path / "a", b"short")

    assert (tmp_path / "a").read_bytes() == b"short"
    assert file_sha256(tmp_path / "a") == hashlib.sha256(b"short").hexdigest()
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_an_error_while_writing_leaves_the_file_as_it_was(tmp_path: Path) -> None:
    _write(tmp_path / "a", b"old")

    with pytest.raises(OSError, match="full"), atomic_write(tmp_path / "a") as file:
        file.write(b"half of the n")
        raise OSError("the disk is full")

    assert (tmp_path / "a").read_bytes() == b"old"
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_writers_at_the_same_time_leave_one_whole_file(tmp_path: Path) -> None:
    contents = [bytes([number]) * 1000 for number in range(100)]

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda content: _write(tmp_path / "a", content), contents))

    assert (tmp_path / "a").read_bytes() in contents
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_a_file_is_on_disk_before_it_replaces_the_old_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[str] = []
    fsync, replace = os.fsync, Path.replace

    def synced(descriptor: int) -> None:
        name = Path(f"/proc/self/fd/{descriptor}").readlink().name
        steps.append("folder" if name == tmp_path.name else "file")
        fsync(descriptor)

    def replaced(path: Path, target: Path) -> Path:
        steps.append("replace")
        return replace(path, target)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(Path, "replace", replaced)
    _write(tmp_path / "a", b"content")

    assert steps == ["file", "replace", "folder"]


def test_a_place_that_cannot_hold_logs_is_named_with_its_variable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    for place in ("/dev/null", tmp_path / "file", tmp_path / "file" / "logs"):
        monkeypatch.setenv("REGRADE_LOGS", str(place))
        with pytest.raises(SettingsError, match=f"'{place}' .*Set REGRADE_LOGS to a folder"):
            log_file("regrade")
    monkeypatch.setenv("REGRADE_LOGS", str(tmp_path / "new" / "logs"))
    assert log_file("regrade").parent.is_dir()


def test_a_cache_that_cannot_be_written_is_told_once_and_ends_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    (tmp_path / "file").touch()
    for name in ("a", "b"):
        keep(tmp_path / "file" / "folder" / name, b"content")
    [told] = [record.getMessage() for record in caplog.records]
    assert f"'{tmp_path}/file/folder'" in told
    keep(tmp_path / "new" / "folder" / "a", b"content")
    assert (tmp_path / "new" / "folder" / "a").read_bytes() == b"content"


@pytest.mark.parametrize("xdg", [False, True])
def test_folders_in_the_environment_may_begin_in_the_users_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, xdg: bool
):
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("CACHE", "SPOOL", "LOGS", "QUESTIONS"):
        monkeypatch.setenv(f"REGRADE_{name}", "" if xdg else "~/mine")
    for name in ("CACHE", "STATE", "DATA"):
        monkeypatch.setenv(f"XDG_{name}_HOME", "~/users")
    folders = [cache_folder(), spool_root(), questions_folder(), log_file("regrade").parent]
    users = tmp_path / "users" / "regrade"
    own = [users, users / "spool", users / "questions", users / "logs"]
    assert folders == (own if xdg else [tmp_path / "mine"] * 4)


def test_the_folder_of_an_unknown_user_is_refused_by_name() -> None:
    with pytest.raises(SettingsError, match="'~no-such-user/model' begins in the folder of a user"):
        is_pattern("~no-such-user/model")

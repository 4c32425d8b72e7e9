"""Backups, logs and sizes of `make stack`, without starting a stack."""

import json
import os
import tarfile
import time
from pathlib import Path

import pytest
import yaml

from infra.stack import backup, commands, growth, logs, parts, postgres, schema
from infra.stack.__main__ import main
from infra.stack.backup import DUMP, read_manifest
from infra.stack.layout import Layout, StackError
from infra.stack.restore import OPTIONS
from regrade.answers.local import LocalRepository
from tests.command_line import ROOT
from tests.stored import numbers, publish

MANIFEST = {
    "format": 1,
    "made": "2026-11-22T12:00:00+00:00",
    "packages": {"prefect": "3.7.7", "mlflow": "3.17.2"},
    "postgres": 15,
    "folders": ["artifacts"],
    "answers": "hf://datasets/team/answers",
}


@pytest.fixture
def no_server(monkeypatch: pytest.MonkeyPatch, place: Layout) -> Layout:
    """A stack whose dumps are empty files."""

    def dumped(_: Layout, program: str, *options: str) -> None:
        assert program == "pg_dump"
        Path(options[-1]).write_bytes(b"")

    monkeypatch.setattr(postgres, "client", dumped)
    place.cluster.mkdir()
    (place.cluster / "PG_VERSION").write_text("15\n")
    return place


def archive(path: Path, *, manifest: object = MANIFEST) -> Path:
    (path.parent / "backup.json").write_text(json.dumps(manifest))
    with tarfile.open(path, "w") as file:
        file.add(path.parent / "backup.json", "backup.json")
    return path


def test_what_is_no_whole_backup_is_refused_before_anything_is_created(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setenv("REGRADE_STACK", str(tmp_path / "stack"))
    whole = archive(tmp_path / "whole.tar")
    assert read_manifest(whole).answers == "hf://datasets/team/answers"
    (tmp_path / "text.tar").write_text("no archive")
    (tmp_path / "cut.tar").write_bytes(whole.read_bytes()[:700])
    archive(tmp_path / "other.tar", manifest={"format": 1})
    for name in ("missing.tar", "text.tar", "cut.tar", "other.tar"):
        assert main(["restore", str(tmp_path / name)]) == 1
        assert f"{name} is not a whole backup of a stack" in capsys.readouterr().err
    assert not (tmp_path / "stack").exists()


def test_a_backup_without_its_last_member_is_not_whole(tmp_path: Path):
    with tarfile.open(tmp_path / "stack.tar", "w") as file:
        file.add(__file__, "prefect.dump")
    with pytest.raises(StackError, match="last member is not backup.json"):
        read_manifest(tmp_path / "stack.tar")


def test_a_backup_of_a_newer_format_asks_for_a_newer_regrade(tmp_path: Path):
    newer = archive(tmp_path / "newer.tar", manifest={**MANIFEST, "format": 2})
    with pytest.raises(StackError, match=r"has format 2, expected 1\. Update regrade"):
        read_manifest(newer)


def test_a_backup_of_answers_is_a_repository_even_if_a_commit_came_in_between(
    no_server: Layout, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    place = no_server
    answers = LocalRepository(Path(place.answers))
    publish(answers, numbers(0, 3))
    head = answers.head()
    add = tarfile.TarFile.add

    def slow(self: tarfile.TarFile, name: Path, *rest: str, recursive: bool = True) -> None:
        add(self, name, *rest, recursive=recursive)
        if name == answers.folder / ".regrade/objects":
            publish(answers, numbers(3, 6), total=6)

    monkeypatch.setattr(tarfile.TarFile, "add", slow)
    backup.write(place, tmp_path / "stack.tar", backup.own_folders(place))
    assert answers.head() != head
    with tarfile.open(tmp_path / "stack.tar") as file:
        file.extractall(tmp_path / "restored", filter="tar")
    restored = LocalRepository(tmp_path / "restored/answers")
    assert restored.head() == head
    for path in restored.files(str(head)):
        restored.fetch(path, str(head))


def test_a_backup_that_fails_leaves_no_file(
    no_server: Layout, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    def refused(*_: object) -> None:
        raise StackError("pg_dump failed")

    monkeypatch.setattr(postgres, "client", refused)
    with pytest.raises(StackError, match="pg_dump failed"):
        backup.write(no_server, tmp_path / "stack.tar", {})
    assert not list(tmp_path.glob("stack.tar*"))
    with pytest.raises(StackError, match="cannot be written: No such file or directory"):
        backup.write(no_server, tmp_path / "missing/stack.tar", {})


def test_answers_elsewhere_are_not_part_of_a_backup(
    place: Layout, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    assert set(backup.own_folders(place)) == {"artifacts", "answers"}
    for elsewhere in ("hf://datasets/team/answers", str(tmp_path / "answers")):
        monkeypatch.setenv("REGRADE_ANSWERS", elsewhere)
        assert set(backup.own_folders(place)) == {"artifacts"}


def test_a_folder_without_a_stack_has_nothing_to_back_up(
    place: Layout, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    assert main(["backup", str(tmp_path / "stack.tar")]) == 1
    assert f"There is no stack in {place.home}" in capsys.readouterr().err
    assert main(["backup"]) == 2


def test_the_programs_of_postgres_are_those_of_the_databases(
    place: Layout, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(postgres, "installed", lambda: {15: Path("/15"), 17: Path("/17")})
    assert postgres.binaries(place) == Path("/17")  # new databases
    place.cluster.mkdir()
    (place.cluster / "PG_VERSION").write_text("15\n")
    assert postgres.binaries(place) == Path("/15")
    (place.cluster / "PG_VERSION").write_text("13\n")
    problem = r"of PostgreSQL 13, which is not installed \(installed: 15, 17\)\. Install it: apt-get install postgresql-13"
    with pytest.raises(StackError, match=problem):
        postgres.binaries(place)


def test_a_large_log_is_rotated_while_its_part_writes_on(
    place: Layout, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(logs, "LIMIT_BYTES", 10)
    path = place.logs / "prefect.log"
    with path.open("ab", buffering=0) as part:
        for number in range(6):
            part.write(f"line {number} of the log\n".encode())
            logs.tidy(place.logs)
        part.write(b"last\n")
    assert path.read_text() == "last\n"
    kept = sorted(place.logs.iterdir())
    assert [log.name for log in kept] == ["prefect.log", *(f"prefect.log.{n}" for n in (1, 2, 3))]
    assert [log.read_text()[5] for log in kept[1:]] == ["5", "4", "3"]


def test_old_logs_of_engines_are_deleted(place: Layout):
    old = time.time() - 31 * 24 * 3600
    for name, age in (
        ("vllm-20260101T000000-1.log", old),
        ("vllm-20260102T000000-1.log", None),
        ("deploy.log", old),
    ):
        (place.logs / name).write_text("x")
        if age is not None:
            os.utime(place.logs / name, (age, age))
    logs.tidy(place.logs)
    assert {path.name for path in place.logs.iterdir()} == {
        "vllm-20260102T000000-1.log",
        "deploy.log",
    }


def test_a_size_counts_every_file_once(tmp_path: Path):
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub/file").write_bytes(b"x" * 1500)
    (tmp_path / "link").hardlink_to(tmp_path / "sub/file")
    (tmp_path / "far").symlink_to("/usr")
    size = growth.size_of(tmp_path)
    assert 1500 <= size < 1600
    assert [growth.readable(n) for n in (0, 999, 1500, 20_000_000)] == [
        "0 bytes",
        "999 bytes",
        "1.5 kB",
        "20 MB",
    ]
    assert growth.size_of(tmp_path / "missing") == 0


def test_another_stack_on_the_same_port_is_not_touched(
    no_server: Layout, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    monkeypatch.setattr(postgres, "server_command", lambda _: ["postgres"])
    monkeypatch.setattr(postgres, "answers", lambda _: True)
    with pytest.raises(StackError, match="taken by another Postgres.* Set REGRADE_POSTGRES_PORT"):
        commands.back_up(no_server, tmp_path / "stack.tar")
    assert not (tmp_path / "stack.tar").exists()


def test_an_upgrade_that_fails_names_the_versions_and_the_backup(
    no_server: Layout, monkeypatch: pytest.MonkeyPatch
):
    place, asked = no_server, []

    def ask(_: Layout, database: str, statement: str) -> str:
        asked.append(statement)
        if "count(*)" in statement:
            return "1"
        return f"{database}==99.0"

    monkeypatch.setattr(postgres, "ask", ask)
    refuse = "import sys; sys.exit('Can not locate revision abc')"
    (place.home / "refuse.py").write_text(refuse)
    environment = {
        "PYTHONPATH": str(place.home),
        "MLFLOW_BACKEND_STORE_URI": "postgresql://mlflow@x/mlflow",
    }
    monkeypatch.setattr(schema, "COMMANDS", {"prefect": ("refuse",), "mlflow": ("refuse",)})
    servers = {
        name: parts.Part(name, [], environment, lambda: True) for name in ("prefect", "mlflow")
    }
    with pytest.raises(StackError) as refused:
        schema.upgrade(place, servers)
    (kept,) = place.backups.iterdir()
    assert read_manifest(kept).folders == []
    assert "Can not locate revision abc" in str(refused.value)
    assert "last used by prefect==99.0; prefect==" in str(refused.value)
    assert f"restore a backup of {place.backups}" in str(refused.value)
    assert not [statement for statement in asked if statement.startswith("COMMENT")]


def test_the_docs_dump_and_restore_with_the_options_that_are_tested():
    text = (ROOT / "docs/stack.md").read_text()
    for program, options in (("pg_dump", DUMP), ("pg_restore", OPTIONS)):
        assert f"{program} --username regrade {' '.join(options)}" in text
    image = yaml.safe_load((ROOT / "infra/compose.yaml").read_text())["services"]["postgres"][
        "image"
    ]
    major = image.partition(":")[2].partition(".")[0]
    assert f"one major version: {major} in compose.yaml" in text

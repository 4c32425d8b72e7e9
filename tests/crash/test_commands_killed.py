"""score, label and publish, each killed many times: nothing is lost or doubled."""

import csv
import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from regrade.answers.labelfile import label_files, read_labels
from regrade.answers.local import LocalRepository
from regrade.answers.origin import begin_session
from regrade.answers.sets import list_sets
from regrade.answers.spool import Spool, spool_folder
from regrade.answers.verify import verify
from regrade.cli.main import run
from tests.answers.page_reader import check
from tests.builders import description, row, session
from tests.command_line import ROOT
from tests.crash.harness import spooled, tell
from tests.judging.scripted import candidates
from tests.stored import score

SIGNALS = int(os.environ.get("REGRADE_TEST_SIGNALS", "12"))
"""Signals of each test, of which a command that is faster than they meets fewer."""
pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]


def killed(folder: Path, longest: float, *words: str, **environment: str) -> dict[str, Any]:
    """Run a command until signals at up to `longest` seconds, then to its end."""
    variables = {
        "REGRADE_SPOOL": str(folder / "spool"),
        "REGRADE_LOGS": str(folder / "logs"),
        "REGRADE_PUBLISH_SECONDS": "0.3",
        "REGRADE_TEST_OUTPUT": str(folder / "output.txt"),
        "MLFLOW_TRACKING_URI": f"sqlite:///{folder}/mlflow.db",
    }
    ran = subprocess.run(
        [sys.executable, "-m", "tests.crash.commands", str(SIGNALS), "1", str(longest), *words],
        cwd=ROOT,
        env=os.environ | variables | environment,
        capture_output=True,
        text=True,
        timeout=1700,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    output = (folder / "output.txt").read_text()
    found: dict[str, Any] = json.loads(ran.stdout)
    tell({"command": words[0], **found})
    assert found["last"] == 0, output[-3000:]
    assert found["signals"]
    assert "Traceback" not in output, output[-3000:]
    return found


def whole(folder: Path, *rows: int) -> LocalRepository:
    """Check the answers of a folder, with and without regrade, and their numbers of rows."""
    repository = LocalRepository(folder)
    head = repository.head()
    assert head is not None
    assert not verify(repository, head).problems
    assert [check(path) for path in folder.glob("answers/*/*/*/manifest.json")] == [[]] * len(rows)
    assert sorted(stored.manifest.rows for stored in list_sets(repository, head)) == sorted(rows)
    return repository


def test_score(tmp_path: Path):
    candidates(tmp_path / "answers", [f"It is {n}." for n in range(1, 5001)], scorers=("number",))
    killed(tmp_path, 4, "score", "--answers", str(tmp_path / "answers"))
    repository = whole(tmp_path / "answers", 5000)
    (stored,) = list_sets(repository, repository.head() or "")
    (file,) = stored.scores()
    assert (file.summary.overall.n, file.summary.overall.accuracy) == (5000, 1.0)


def test_label(tmp_path: Path):
    answers = candidates(
        tmp_path / "answers", [f"It is {n}." for n in range(1, 301)], scorers=("number",)
    )
    score(answers)
    sheet, words = tmp_path / "sheet.csv", ["label", answers.manifest.answer_set_id]
    words += ["--answers", answers.repository.uri]
    assert run([*words, "--sample", "200", "--out", str(sheet)]) == 0
    with sheet.open(encoding="utf-8-sig", newline="") as file:
        rows = list(csv.DictReader(file))
    with sheet.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(one | {"label": "right"} for one in rows)
    killed(tmp_path, 3, *words, "--read", str(sheet), "--rater", "ana")
    repository = whole(tmp_path / "answers", 300)
    (stored,) = list_sets(repository, repository.head() or "")
    files = repository.files(repository.head() or "", stored.labels_folder)
    tables = [read_labels(stored, f)[1] for path, f in files.items() if path.endswith(".json")]
    labelled = Counter(one["sample_id"] for table in tables for one in table.to_pylist())
    assert len(label_files(stored)) == 1
    assert (len(labelled), set(labelled.values())) == (200, {1})


def test_publish(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("REGRADE_SPOOL", str(tmp_path / "spool"))
    repository = LocalRepository(tmp_path / "answers")
    asked = description(3000)
    for share in range(6):
        folder = spool_folder(repository.uri, asked.specification.answer_set_id, f".{share}")
        with Spool(folder) as spool:
            begin_session(spool, repository.uri, asked, session(share))
            spool.append([row(n) for n in range(500 * share, 500 * share + 500)])
    killed(tmp_path, 3, "publish")
    whole(tmp_path / "answers", 3000)
    assert spooled(tmp_path / "spool") == {}

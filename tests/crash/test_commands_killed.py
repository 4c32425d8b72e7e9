"""score, label, publish, judge and sweep, each killed many times: nothing is lost, doubled, or asked again beyond what was in flight."""

import json
import os
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from regrade.answers.labelfile import label_files, read_labels
from regrade.answers.local import LocalRepository
from regrade.answers.origin import begin_session
from regrade.answers.sets import AnswerSet, list_sets
from regrade.answers.spool import Spool, spool_folder
from regrade.answers.verify import verify
from regrade.cli.main import run
from tests.answering import answering, said
from tests.answers.page_reader import check
from tests.builders import description, row, session
from tests.command_line import ROOT
from tests.crash.harness import config, many_questions, spooled, tell
from tests.judged import fill, rows_of
from tests.judging.scripted import ScriptedJudge, by_reference, candidates
from tests.pictures import image, picture_config
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
    assert set(found["codes"]) <= {"-9", "-15", "143", "0"}, output[-3000:]
    assert "Traceback" not in output, output[-3000:]
    return found


def whole(folder: Path, *rows: int) -> list[AnswerSet]:
    """Check the answers of a folder, with and without regrade, and their numbers of rows; return their sets."""
    repository = LocalRepository(folder)
    head = repository.head()
    assert head is not None
    assert not verify(repository, head).problems
    assert [check(path) for path in folder.glob("answers/*/*/*/manifest.json")] == [[]] * len(rows)
    found = list_sets(repository, head)
    assert sorted(stored.manifest.rows for stored in found) == sorted(rows)
    return found


def test_score(tmp_path: Path):
    candidates(tmp_path / "answers", [f"It is {n}." for n in range(1, 5001)], scorers=("number",))
    killed(tmp_path, 4, "score", "--answers", str(tmp_path / "answers"))
    (stored,) = whole(tmp_path / "answers", 5000)
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
    fill(sheet, [row | {"label": "right"} for row in rows_of(sheet)])
    killed(tmp_path, 3, *words, "--read", str(sheet), "--rater", "ana")
    (stored,) = whole(tmp_path / "answers", 300)
    files = stored.repository.files(stored.revision, stored.labels_folder)
    tables = [read_labels(stored, f)[1] for path, f in files.items() if path.endswith(".json")]
    labelled = Counter(row["sample_id"] for table in tables for row in table.to_pylist())
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


@pytest.mark.prefect
def test_generate_with_images(tmp_path: Path, prefect_server: str):
    shown = [image(number) for number in range(120)]

    def reply(_: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        time.sleep(0.1)
        return 200, said("#### 1")

    with answering(reply, lambda: {"id": "demo", "root": "/served/demo"}) as url:
        file = picture_config(tmp_path, url, shown)
        words = ["generate", "--config", str(file), "--model", "demo"]
        words += ["--answers", str(tmp_path / "answers")]
        killed(tmp_path, 12, *words, PREFECT_API_URL=prefect_server)
    (stored,) = whole(tmp_path / "answers", len(shown))
    listed = Counter(sha256 for shard in stored.images.index.shards for sha256 in shard.images)
    assert listed == Counter(image.sha256 for image in shown)


@pytest.mark.prefect
def test_judge(tmp_path: Path, prefect_server: str):
    questions = 150
    candidates(tmp_path / "answers", [f"It is {n}." for n in range(1, questions + 1)])

    def slow(texts: dict[str, str]) -> str:
        time.sleep(0.1)
        return by_reference(texts)

    judge = ScriptedJudge(slow)
    with judge.served() as url:
        words = ["judge", "org/tiny", "--judge", "judge-7b", "--rubric", "correct"]
        words += ["--engine", "openai", "--base-url", url, "--model-revision", "r1"]
        words += ["--max-concurrency", "1", "--answers", str(tmp_path / "answers")]
        found = killed(tmp_path, 12, *words, PREFECT_API_URL=prefect_server)
    whole(tmp_path / "answers", questions, questions)
    again = len(judge.prompts) - len(set(judge.prompts))
    tell({"asked": len(judge.prompts), "again": again})
    assert len(set(judge.prompts)) == questions
    assert again <= found["signals"]  # at most the one in flight


@pytest.mark.prefect
def test_sweep(tmp_path: Path, prefect_server: str):
    questions, asked = 60, Counter[str]()

    def reply(body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        asked[json.dumps([body["messages"], body["temperature"]])] += 1
        time.sleep(0.2)  # points below 10 s are asked again, to measure them
        return 200, said("#### 1")

    with answering(reply, lambda: {"id": "demo", "root": "/served/demo"}) as url:
        engine = {"kind": "openai", "base_url": url, "max_concurrency": 1}
        file = config(
            tmp_path / "c", engine, questions=many_questions(tmp_path, questions), model="demo"
        )
        words = ["sweep", "--config", str(file), "--temperature", "0,0.5"]
        words += ["--answers", str(tmp_path / "answers")]
        found = killed(tmp_path, 15, *words, PREFECT_API_URL=prefect_server)
    points = list((tmp_path / "answers").glob("sweeps/*/*/answers"))
    assert len(points) == 2
    for answers in points:
        whole(answers.parent, questions)
    again = asked.total() - len(asked)
    tell({"asked": asked.total(), "again": again})
    assert len(asked) == 2 * questions
    assert again <= found["signals"]

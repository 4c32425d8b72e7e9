"""A judge run whose process is killed: nothing that was answered is asked again."""

import os
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path

from regrade.answers.spool import Spool
from tests.command_line import ROOT
from tests.judging.running import run_judge_at, scored
from tests.judging.scripted import ScriptedJudge, by_reference, candidates

RUN = """
import sys
from pathlib import Path
from tests.judging.running import run_judge_at
run_judge_at(sys.argv[1], Path(sys.argv[2]), rubric="correct")
"""
ANSWERS = 24


def test_a_killed_judge_run_goes_on_where_it_was(tmp_path: Path):
    candidates(tmp_path / "answers", [f"It is {n}." for n in range(1, ANSWERS + 1)])
    reached = threading.Event()

    def slow(texts: dict[str, str]) -> str:
        if len(judge.bodies) >= ANSWERS // 3:
            reached.set()
        time.sleep(0.1)
        return by_reference(texts)

    judge = ScriptedJudge(slow)
    with judge.served() as url:
        command = [sys.executable, "-c", RUN, url, str(tmp_path)]
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        with subprocess.Popen(command, env=environment, cwd=ROOT) as process:
            assert reached.wait(60)
            process.kill()
        [folder] = (path for path in (tmp_path / "spool").iterdir() if path.is_dir())
        with Spool(folder) as spool:
            on_disk = {sample_id for sample_id, _ in spool.states().done}
        assert 0 < len(on_disk) < ANSWERS
        judge.judge = by_reference

        judge_set = run_judge_at(url, tmp_path, rubric="correct")

    assert scored(judge_set).summary.overall.n == ANSWERS
    assert len(set(judge.prompts)) == ANSWERS
    asked = Counter(judge.prompts)
    for prompt, times in asked.items():
        number = int(prompt.split("What is ")[1].split("?")[0])
        assert times == 1 or f"sample-{number:05d}" not in on_disk
    assert sum(session.rows for session in judge_set.manifest.sessions) == ANSWERS

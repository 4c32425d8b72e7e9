"""The script for Hugging Face Jobs: its head installs this version, and its body evaluates."""

import re
import runpy
import shutil
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import parse_wheel_filename

from regrade import __version__
from tests.command_line import DEMO, ROOT, run

SCRIPT = ROOT / "examples/hf_jobs/evaluate.py"
STORED = ROOT / "tests/frozen/format-3/complete"
HEAD = re.compile(r"^# /// script\n((?:#.*\n)+?)# ///$", re.MULTILINE)


def test_the_head_installs_this_version_with_an_extra_that_exists():
    (head,) = HEAD.findall(SCRIPT.read_text())
    stated = tomllib.loads("".join(line[2:] + "\n" for line in head.splitlines()))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]

    (dependency,) = map(Requirement, stated["dependencies"])
    assert stated["requires-python"] == project["requires-python"]
    assert dependency.name == project["name"]
    assert dependency.extras <= set(project["optional-dependencies"])
    assert dependency.url is not None
    name, version, *_ = parse_wheel_filename(dependency.url.rpartition("/")[2])
    assert (name, str(version)) == ("regrade", __version__)


def test_a_job_keeps_no_answers_on_its_own_disk(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setenv("JOB_ID", "687f911eaea852de79c4a50a")
    monkeypatch.delenv("REGRADE_ANSWERS", raising=False)
    main = runpy.run_path(str(SCRIPT))["main"]
    assert main(["--model", "org/model", "--answers", "answers"]) == 2
    assert "--answers hf://datasets/ORG/NAME" in capsys.readouterr().err


@pytest.mark.prefect
def test_the_script_evaluates_with_answers_in_a_folder(prefect_server: str, tmp_path: Path):
    answers = shutil.copytree(STORED, tmp_path / "answers")
    config = ("--config", str(DEMO / "demo.yaml"), "--limit", "40", "--json")
    spelled = ("--engine.extra", "load_format=auto", "--engine.extra", "seed=0")
    ran = run(
        [sys.executable, str(SCRIPT), *config, *spelled, "--answers", str(answers)],
        280,
        {"PREFECT_API_URL": prefect_server, "PYTHONPATH": str(ROOT)},
    )
    assert ran.code == 0, ran.err
    found = {result["benchmark"]: result for result in ran.document["answer_sets"]}
    assert found["demo-arithmetic"]["scores"][0]["metrics"]["accuracy"] == 0.75
    assert {result["generated"] for result in found.values()} == {0}

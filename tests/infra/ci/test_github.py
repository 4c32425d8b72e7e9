"""The scripts of GitHub's jobs, run as its runner does, in folders that an earlier run left dirty."""

import json
import signal
import subprocess
from pathlib import Path

import pytest
import yaml

from tests.command_line import run
from tests.infra.ci.runners import CI, Github, Job
from tests.infra.ci.stand_ins import Home, commands, package
from tests.processes.trees import wait_until

WORKFLOWS = {"github.yml": "trigger", "github-one-job.yml": "gate"}
"""File -> the command that writes its report."""
OLD = "# pass: an earlier model"
PASS, REGRESSION = "# pass: org/new", "# regression: org/new"


class Machine:
    """A runner, and a pull request with a comment of a person."""

    def __init__(self, folder: Path, *, gh: bool = True) -> None:
        self.home = Home(folder)
        workspace, temp = folder / "workspace", folder / "temp"
        for dirty in (workspace, temp, temp / "regrade.before"):
            dirty.mkdir()
            (dirty / "regrade.md").write_text(OLD)
            (dirty / "regrade.xml").write_text("<old/>")
            (dirty / "regrade.id").write_text("old-id")
        person = {"id": 1, "user": {"type": "User"}, "body": "<!-- regrade: regrade --> nice"}
        (folder / "comments").write_text(json.dumps([person]))
        self.home.will()
        self.runner = Github(workspace=workspace, temp=temp, bin=commands(folder / "bin", gh=gh))

    def run(self, workflow: str, regrade: str | Path, *, name: str = "", **more: str) -> Job:
        values = {"vars.REGRADE": str(regrade), "vars.REGRADE_ANSWERS": "hf://datasets/a/b"}
        values |= {"secrets.PREFECT_API_URL": "https://prefect.example/api"}
        values |= {"github.event.pull_request.number": "7"}
        inputs = {"model": 'org/new"; touch oops; "', "name": name}
        return self.runner.run(workflow, inputs=inputs, values=values, **more)


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


@pytest.mark.parametrize(("workflow", "judge"), WORKFLOWS.items())
def test_a_report_is_kept_and_commented_and_the_next_one_updates_the_comment(
    machine: Machine, tmp_path: Path, workflow: str, judge: str
) -> None:
    machine.home.will(**{judge: (0, PASS)})
    first = machine.run(workflow, package(tmp_path, "first"))
    assert first.status == "success", first.output
    assert first.artifacts == {"regrade.md": PASS, "regrade.xml": "<testsuites/>"}

    machine.home.will(**{judge: (1, REGRESSION)})
    second = machine.run(workflow, package(tmp_path, "second"))

    assert second.status == "failure"
    assert second.artifacts["regrade.md"] == REGRESSION
    person, ours = machine.home.comments()
    assert person.endswith("nice")
    assert ours == f"<!-- regrade: regrade -->\n{REGRESSION}"
    used = [call[0] for call in machine.home.calls()]
    assert set(used[: len(used) // 2]) == {"first"}
    assert set(used[len(used) // 2 :]) == {"second"}  # the same version, another tag
    assert not (machine.runner.workspace / "oops").exists()  # a model's name is no shell code


@pytest.mark.parametrize("workflow", WORKFLOWS)
def test_a_run_without_a_report_posts_nothing_of_an_earlier_one(
    machine: Machine, tmp_path: Path, workflow: str
) -> None:
    machine.home.will(trigger=(3, ""), evaluate=(2, ""))

    job = machine.run(workflow, package(tmp_path, "release"))

    assert job.status == "failure"
    assert "Comment the table" in job.ran
    assert "Judge" not in job.ran
    assert job.artifacts == {}
    assert len(machine.home.comments()) == 1


def test_after_a_failed_installation_nothing_is_posted(machine: Machine, tmp_path: Path) -> None:
    job = machine.run("github.yml", tmp_path / "no-such.whl")

    assert job.status == "failure"
    assert "Evaluate and judge" not in job.ran
    assert job.artifacts == {}
    assert len(machine.home.comments()) == 1


def test_pip_outside_of_an_environment_is_refused(machine: Machine) -> None:
    python = [str(machine.runner.bin / "python"), "-m", "pip", "--version"]
    done = run(python, 60, {"PATH": str(machine.runner.bin)})
    assert (done.code, done.out) == (1, "")


def test_without_a_folder_no_other_step_runs(machine: Machine, tmp_path: Path) -> None:
    machine.runner.temp.rename(tmp_path / "elsewhere")

    job = machine.run("github.yml", tmp_path / "no-such.whl")

    assert job.status == "failure"
    assert job.ran[1:] == ["Start with an empty folder"]


@pytest.mark.slow
def test_two_names_have_two_comments(machine: Machine, tmp_path: Path) -> None:
    wheel = package(tmp_path, "release")
    machine.home.will(trigger=(0, PASS))

    for name in ("small", "large"):
        machine.run("github.yml", wheel, name=name)

    assert [comment.split("\n")[0] for comment in machine.home.comments()[1:]] == [
        "<!-- regrade: small -->",
        "<!-- regrade: large -->",
    ]


@pytest.mark.parametrize(
    "missing",
    [
        pytest.param(True, id="no gh"),
        pytest.param(False, id="no right to comment", marks=pytest.mark.slow),
    ],
)
def test_a_comment_that_cannot_be_posted_is_a_warning(tmp_path: Path, missing: bool) -> None:
    machine = Machine(tmp_path, gh=not missing)
    (tmp_path / "refusing").touch()
    machine.home.will(trigger=(0, PASS))

    job = machine.run("github.yml", package(tmp_path, "release"))

    assert job.status == "success"
    assert "::warning title=regrade::No comment: " in job.output
    assert ("gh is not installed" in job.output) == missing


def test_a_cancelled_job_cancels_its_flow_run(machine: Machine, tmp_path: Path) -> None:
    job = machine.run(
        "github.yml", package(tmp_path, "release"), cancelled_after="Evaluate and judge"
    )

    assert "Cancel the flow run, if the signal did not" in job.ran
    (cancel,) = [call[1:] for call in machine.home.calls() if call[1].endswith("/prefect")]
    assert cancel[1:] == ["flow-run", "cancel", "the-id"]


def test_the_signal_of_a_cancelled_job_reaches_regrade(machine: Machine, tmp_path: Path) -> None:
    machine.home.will(trigger=(0, "waiting"))
    regrade = machine.runner.bin / "regrade"
    regrade.write_text(
        f"#!/bin/bash\nPYTHONPATH={package(tmp_path, 'release')} exec python3 -c "
        '"import regrade; regrade.main()" "$@"\n'
    )
    regrade.chmod(0o755)
    (job,) = yaml.safe_load((CI / "github.yml").read_text())["jobs"].values()
    (step,) = [step for step in job["steps"] if step.get("name") == "Evaluate and judge"]
    script = tmp_path / "script.sh"
    script.write_text(step["run"])
    process = subprocess.Popen(
        ["/bin/bash", "-e", str(script)],
        cwd=machine.runner.workspace,
        env={"HOME": str(tmp_path), "PATH": str(machine.runner.bin), "FOLDER": str(tmp_path)},
    )
    try:
        wait_until(lambda: ["ready"] in machine.home.calls())
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 128 + signal.SIGINT
    finally:
        process.kill()
        process.wait()
    assert ["signal", int(signal.SIGINT)] in machine.home.calls()

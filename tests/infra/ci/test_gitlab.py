"""The scripts of GitLab's jobs, run as its runner does, in a folder that an earlier job left dirty."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.infra.ci.runners import Gitlab, Job, started_jobs
from tests.infra.ci.stand_ins import Home, Notes, commands, gitlab_api, package

PASS, REGRESSION = "# pass: org/new", "# regression: org/new"


@pytest.fixture(scope="module")
def api() -> Iterator[Notes]:
    with gitlab_api() as notes:
        yield notes


class Machine:
    """A runner, and a merge request with notes of two persons."""

    def __init__(self, folder: Path, api: Notes, shell: str = "bash") -> None:
        self.home, self.api = Home(folder), api
        self.home.will()
        workspace = folder / "workspace"
        old = workspace / "regrade-reports" / "41"
        old.mkdir(parents=True)
        (old / "regrade.md").write_text("# pass: an earlier model")
        (old / "regrade.xml").write_text("<old/>")
        (workspace / "regrade.md").write_text("# pass: an earlier model")
        self.runner = Gitlab(workspace=workspace, bin=commands(folder / "bin"), shell=shell)
        api.refusing = False
        api.stored[:] = [
            {"id": number, "author": {"id": 2}, "body": "<!-- regrade: regrade -->\nnice"}
            for number in range(3)
        ]

    def run(self, job: str, regrade: Path | str, number: int = 42, **more: bool) -> Job:
        variables = {
            "MODEL": 'org/new"; touch oops; "',
            "REGRADE": str(regrade),
            "REGRADE_ANSWERS": "hf://datasets/a/b",
            "CI_JOB_ID": str(number),
            "CI_API_V4_URL": self.api.url,
            "CI_PROJECT_ID": "5",
            "CI_MERGE_REQUEST_IID": "7",
            "GITLAB_TOKEN": "api-token",
        }
        return self.runner.run(job, variables, **more)

    def ours(self) -> list[str]:
        return [note["body"] for note in self.api.stored if note["author"]["id"] == 1]


@pytest.mark.parametrize(
    ("job", "judge", "shell"), [("regrade", "trigger", "sh"), ("regrade-one-job", "gate", "bash")]
)
def test_a_report_is_kept_and_noted_and_the_next_one_updates_the_note(
    tmp_path: Path, api: Notes, job: str, judge: str, shell: str
) -> None:
    machine = Machine(tmp_path, api, shell)
    machine.home.will(**{judge: (0, PASS)})
    first = machine.run(job, package(tmp_path, "first"))
    assert first.status == "success", first.output
    assert first.artifacts["regrade-reports/42/regrade.md"] == PASS
    assert "regrade-reports/41/regrade.xml" not in first.artifacts

    machine.home.will(**{judge: (1, REGRESSION)})
    second = machine.run(job, package(tmp_path, "second"), 43)

    assert second.status == "failed"
    assert machine.ours() == [f"<!-- regrade: regrade -->\n{REGRESSION}"]
    assert len(api.stored) == 4
    used = [call[0] for call in machine.home.calls()]
    assert set(used[len(used) // 2 :]) == {"second"}  # the same version, another tag
    assert not (machine.runner.workspace / "oops").exists()


@pytest.mark.parametrize("installed", [True, False], ids=["no report", "not installed"])
def test_a_job_without_a_report_posts_nothing_of_an_earlier_one(
    tmp_path: Path, api: Notes, installed: bool
) -> None:
    machine = Machine(tmp_path, api)
    machine.home.will(trigger=(3, ""))

    job = machine.run(
        "regrade", package(tmp_path, "release") if installed else tmp_path / "no-such.whl"
    )

    assert job.status == "failed"
    assert "No comment: there is no merge request, or no report." in job.output
    assert machine.ours() == []
    assert not [name for name in job.artifacts if name.endswith(("regrade.md", "regrade.xml"))]


def test_a_note_that_is_refused_is_one_line(tmp_path: Path, api: Notes) -> None:
    machine = Machine(tmp_path, api)
    machine.home.will(trigger=(0, PASS))
    api.refusing = True

    job = machine.run("regrade", package(tmp_path, "release"))

    assert job.status == "success"
    assert "No comment: HTTP Error 403: Forbidden (" in job.output
    assert "Traceback" not in job.output


def test_a_canceled_job_cancels_its_flow_run(tmp_path: Path, api: Notes) -> None:
    machine = Machine(tmp_path, api)

    machine.run("regrade", package(tmp_path, "release"), canceled=True)

    (cancel,) = [call[1:] for call in machine.home.calls() if call[1].endswith("/prefect")]
    assert cancel[1:] == ["flow-run", "cancel", "the-id"]


@pytest.mark.parametrize(
    ("variables", "jobs"),
    [
        ({}, []),
        ({"MODEL": "m"}, ["regrade"]),
        ({"MODEL": "m", "REGRADE_IN_ONE_JOB": "1"}, ["regrade-one-job"]),
        ({"REGRADE_IN_ONE_JOB": "1"}, []),
    ],
)
def test_a_pipeline_with_a_model_starts_one_job(variables: dict[str, str], jobs: list[str]) -> None:
    assert started_jobs(variables) == jobs

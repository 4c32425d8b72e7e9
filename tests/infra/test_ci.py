"""The jobs in infra/ci and the commands in docs/ci.md: syntax, options, pinned actions."""

import re
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from regrade.cli.main import command_line
from tests.command_line import ROOT

CI = ROOT / "infra" / "ci"
WORKFLOWS = [CI / "github.yml", CI / "github-one-job.yml"]
PAGE = ROOT / "docs" / "ci.md"


def load(path: Path) -> dict[Any, Any]:
    return dict(yaml.safe_load(path.read_text()))


def steps(workflow: Path) -> list[dict[str, Any]]:
    (job,) = load(workflow)["jobs"].values()
    return list(job["steps"])


def step(workflow: Path, words: str) -> dict[str, Any]:
    (found,) = [one for one in steps(workflow) if words in one.get("name", "")]
    return found


def scripts() -> Iterator[tuple[str, str]]:
    for workflow in WORKFLOWS:
        for one in steps(workflow):
            if "run" in one:
                yield f"{workflow.name}: {one['name']}", one["run"]
    for name, job in load(CI / "gitlab.yml").items():
        if isinstance(job, dict) and "script" in job:
            yield f"gitlab.yml: {name}", "\n".join(job["script"])
            yield f"gitlab.yml: {name} after", "\n".join(job["after_script"])
    blocks = re.findall(r"^```bash\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    for number, block in enumerate(blocks):
        yield f"ci.md: {number}", block


SCRIPTS = dict(scripts())


def commands() -> Iterator[tuple[str, list[str]]]:
    for name, script in SCRIPTS.items():
        for line in script.replace("\\\n", " ").splitlines():
            words = shlex.split(line, comments=True)
            if "regrade" in words[:2] and words[0] in ("exec", "regrade"):
                yield name, words[words.index("regrade") + 1 :]


COMMANDS = list(commands())


def test_there_is_something_to_check():
    assert {words[0] for _, words in COMMANDS} >= {"trigger", "evaluate", "gate", "promote"}


@pytest.mark.parametrize("words", [words for _, words in COMMANDS], ids=[n for n, _ in COMMANDS])
def test_our_own_command_line_takes_each_command(words: list[str]):
    command, bound, _ = command_line().parse_args(words, exit_on_error=False, print_error=False)
    assert command.__name__.startswith(words[0])
    assert bound.arguments or len(words) == 1


@pytest.mark.parametrize("script", SCRIPTS.values(), ids=SCRIPTS.keys())
def test_each_script_is_bash(script: str):
    done = subprocess.run(["bash", "-n"], input=script, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.stem)
def test_actions_are_pinned_and_inputs_reach_scripts_through_the_environment(workflow: Path):
    for one in steps(workflow):
        if "uses" in one:
            assert re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40}", one["uses"])
        else:
            assert "${{" not in one["run"]  # a model's name is no shell code
    pins = re.findall(r"@[0-9a-f]{40} # v\d+\.\d+\.\d+$", workflow.read_text(), re.MULTILINE)
    assert len(pins) == sum("uses" in one for one in steps(workflow))


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.stem)
def test_reports_and_comment_come_whatever_the_verdict(workflow: Path):
    judged = next(i for i, one in enumerate(steps(workflow)) if "--baseline" in one.get("run", ""))
    names = [one.get("name") for one in steps(workflow)]
    for name in ("Keep the reports", "Comment the table"):
        assert step(workflow, name)["if"].startswith("always()")
        assert names.index(name) > judged
    kept = step(workflow, "Keep the reports")["with"]["path"].split()
    words = shlex.split(steps(workflow)[judged]["run"].replace("\\\n", " "))
    for option in ("--markdown", "--junit"):
        assert words[words.index(option) + 1] in kept
    document = load(workflow)
    assert document["permissions"]["pull-requests"] == "write"
    assert document["concurrency"]["cancel-in-progress"] is True


def test_a_cancelled_job_cancels_the_flow_run():
    judge = step(WORKFLOWS[0], "Evaluate and judge")["run"]
    cancel = step(WORKFLOWS[0], "Cancel")
    assert judge.strip().startswith("exec regrade trigger")  # bash would keep the signal for itself
    assert "--id-file regrade.id" in judge
    assert cancel["if"] == "cancelled()"
    assert 'flow-run cancel "$(cat regrade.id)"' in cancel["run"]


def test_no_secret_is_written_into_a_job():
    for path in [*WORKFLOWS, CI / "gitlab.yml"]:
        for line in path.read_text().splitlines():
            if re.search(r"^\s*\w*(TOKEN|AUTH_STRING|API_URL):\s*\S", line):
                assert "${{ secrets." in line or "${{ github.token" in line


def test_gitlab_keeps_reports_and_starts_only_for_a_model():
    jobs = load(CI / "gitlab.yml")
    shared = jobs[".regrade"]
    assert shared["artifacts"]["when"] == "always"
    assert shared["artifacts"]["reports"]["junit"] == "regrade.xml"
    assert shared["interruptible"] is True
    assert shared["rules"] == [{"if": "$MODEL"}]
    for name in ("regrade", "regrade-one-job"):
        assert jobs[name]["extends"] == ".regrade"
        assert jobs[name]["script"][-1].startswith("exec regrade")
        assert "--junit regrade.xml" in jobs[name]["script"][-1]
        note = next(one for one in jobs[name]["after_script"] if "python3" in one)
        compile(note.split("<<'EOF'\n")[1].split("\nEOF")[0], "note", "exec")

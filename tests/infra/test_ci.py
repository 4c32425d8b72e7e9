"""The jobs in infra/ci and the commands in docs/ci.md: options, pinned actions, permissions. tests/infra/ci runs them."""

import re
import shlex
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from regrade.cli.commands import command_line
from tests.command_line import ROOT, run

CI = ROOT / "infra" / "ci"
WORKFLOWS = [CI / "github.yml", CI / "github-one-job.yml"]
PAGE = ROOT / "docs" / "ci.md"


def load(path: Path) -> dict[Any, Any]:
    return dict(yaml.safe_load(path.read_text()))


def steps(workflow: Path) -> list[dict[str, Any]]:
    (job,) = load(workflow)["jobs"].values()
    return list(job["steps"])


def scripts() -> Iterator[tuple[str, str]]:
    for workflow in WORKFLOWS:
        for step in steps(workflow):
            if "run" in step:
                yield f"{workflow.name}: {step['name']}", step["run"]
    for name, job in load(CI / "gitlab.yml").items():
        if isinstance(job, dict) and "script" in job:
            yield f"gitlab.yml: {name}", "\n".join(job["script"])
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
    done = run(["bash", "-n", "-c", script], 60, {})
    assert done.code == 0, done.err


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.stem)
def test_actions_are_pinned_and_inputs_reach_scripts_through_the_environment(workflow: Path):
    for step in steps(workflow):
        if "uses" in step:
            assert re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40}", step["uses"])
        else:
            assert "${{" not in step["run"]  # a model's name is no shell code
    pins = re.findall(r"@[0-9a-f]{40} # v\d+\.\d+\.\d+$", workflow.read_text(), re.MULTILINE)
    assert len(pins) == sum("uses" in step for step in steps(workflow))


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.stem)
def test_only_the_job_may_write_and_only_comments(workflow: Path):
    document = load(workflow)
    (job,) = document["jobs"].values()
    assert document["permissions"] == {}
    assert job["permissions"] == {"pull-requests": "write"}


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.stem)
def test_a_called_workflow_declares_the_secrets_that_it_reads(workflow: Path):
    text = workflow.read_text()
    declared = load(workflow)[True]["workflow_call"]["secrets"]  # YAML 1.1 reads `on` as true
    assert set(re.findall(r"secrets\.(\w+)", text)) == set(declared)


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.stem)
def test_two_models_on_one_branch_do_not_cancel_each_other(workflow: Path):
    group = load(workflow)["concurrency"]["group"]
    assert group == "regrade-${{ github.ref }}-${{ inputs.name || inputs.model }}"


def test_the_call_after_a_training_fits_the_workflow(tmp_path: Path):
    actionlint = shutil.which("actionlint", path=str(Path(sys.executable).parent))
    if actionlint is None:
        pytest.skip("actionlint is not installed: `make .venv/installed-dev`")
    call = (CI / "github-call.yml").read_text()
    folder = tmp_path / ".github" / "workflows"
    folder.mkdir(parents=True)
    (tmp_path / ".git").mkdir()  # actionlint finds the called file from here
    shutil.copy(WORKFLOWS[0], folder / "regrade.yml")
    for name, text in (("good", call), ("bad", call.replace("PREFECT_API_URL:", "PREFECT_URL:"))):
        (folder / f"{name}.yml").write_text(text)
    good, bad = (
        run([actionlint, str(folder / f"{name}.yml")], 60, {}, cwd=tmp_path)
        for name in ("good", "bad")
    )
    assert good.code == 0, good.out
    assert 'secret "PREFECT_API_URL" is required' in bad.out


def test_no_secret_is_written_into_a_job():
    for path in [*WORKFLOWS, CI / "gitlab.yml"]:
        for line in path.read_text().splitlines():
            if re.search(r"^\s*\w*(TOKEN|AUTH_STRING|API_URL):\s*\S", line):
                assert "${{ secrets." in line or "${{ github.token" in line


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.stem)
def test_the_report_to_hand_on_is_attached_by_a_job_on_github(workflow: Path):
    verdicts = [
        words for name, words in COMMANDS if name.startswith(workflow.name) and "--html" in words
    ]
    (written,) = [Path(words[words.index("--html") + 1]).name for words in verdicts]
    (kept,) = [
        step["with"]["path"] for step in steps(workflow) if step.get("name") == "Keep the reports"
    ]
    assert written in [Path(line).name for line in kept.split()]


def test_the_report_to_hand_on_is_attached_by_both_jobs_on_gitlab():
    jobs = load(CI / "gitlab.yml")
    written = [
        words[words.index("--html") + 1]
        for name, words in COMMANDS
        if name.startswith("gitlab.yml") and "--html" in words
    ]
    assert len(written) == 2
    (kept,) = jobs[".regrade"]["artifacts"]["paths"]
    assert all(path.startswith(kept) for path in written)

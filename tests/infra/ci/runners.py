"""Run the scripts of a CI job as the runners of GitHub and GitLab do: shell, environment, conditions, what follows a failure.

Actions (`uses`) are not run; an upload is noted with the files that it would take.
"""

import os
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from tests.command_line import ROOT

CI = ROOT / "infra" / "ci"
OFFLINE = {"PIP_NO_INDEX": "1", "PIP_CONFIG_FILE": os.devnull, "PIP_NO_CACHE_DIR": "1"}
"""pip installs only the file that a test names."""
_TOKEN = re.compile(r"'[^']*'|&&|\|\||[!=]=|[()]|\w+\(\)|[\w.]+|\s+")


@dataclass
class Job:
    """Status, steps, output and kept files of a job that has run."""

    status: str = "success"
    ran: list[str] = field(default_factory=list)
    output: str = ""
    artifacts: dict[str, str] = field(default_factory=dict)
    """Name of a kept file -> its text."""


@dataclass(frozen=True, kw_only=True)
class Github:
    """A self-hosted runner that does not clean its folders; `bin` holds the commands installed on it."""

    workspace: Path
    temp: Path
    bin: Path

    def run(
        self,
        workflow: str,
        *,
        inputs: Mapping[str, str],
        values: Mapping[str, str],
        event: str = "pull_request",
        cancelled_after: str = "",
    ) -> Job:
        """Run the only job of a workflow.

        Args:
            workflow: File in infra/ci.
            inputs: Inputs of the workflow.
            values: Secrets, variables and fields of the event, such as `secrets.HF_TOKEN`.
            event: Name of the event.
            cancelled_after: Name of the step after which somebody cancels the job.
        """
        (job,) = yaml.safe_load((CI / workflow).read_text())["jobs"].values()
        done = Job()
        known = {**values, "github.event_name": event, "github.token": "job-token"}
        known |= {f"inputs.{name}": text for name, text in inputs.items()}
        files = {name: self.temp.parent / name for name in ("GITHUB_ENV", "GITHUB_PATH")}
        for path in files.values():
            path.write_text("")
        environment = {
            "HOME": str(self.temp.parent),
            "RUNNER_TEMP": str(self.temp),
            "GITHUB_REPOSITORY": "my-team/training",
            **{name: str(path) for name, path in files.items()},
            **{name: _filled(text, known) for name, text in job["env"].items()},
        }
        for step in job["steps"]:
            later = dict(
                line.split("=", 1) for line in files["GITHUB_ENV"].read_text().splitlines()
            )
            now = environment | later
            context = known | {f"env.{name}": text for name, text in now.items()}
            if not _holds(step.get("if", "success()"), context, done.status):
                continue
            name = step.get("name", step.get("uses"))
            done.ran.append(name)
            if "uses" in step:
                done.artifacts |= _uploaded(
                    step.get("with", {}).get("path", ""), context, self.workspace
                )
                continue
            added = files["GITHUB_PATH"].read_text().split()
            now |= {key: _filled(text, context) for key, text in step.get("env", {}).items()}
            now["PATH"] = os.pathsep.join([*reversed(added), str(self.bin)])
            script = self.temp.parent / "step.sh"
            script.write_text(step["run"])
            ended = _shell(["bash", "-e", str(script)], self.workspace, now)
            done.output += ended.stdout
            if ended.returncode:
                done.status = "failure"
            if name == cancelled_after:
                done.status = "cancelled"
        return done


@dataclass(frozen=True, kw_only=True)
class Gitlab:
    """A runner whose folder is not cleaned; `shell` is `bash`, or `sh` for images without it."""

    workspace: Path
    bin: Path
    shell: str = "bash"

    def run(self, name: str, variables: Mapping[str, str], *, canceled: bool = False) -> Job:
        """Run a job of gitlab.yml: `before_script` and `script` in one shell, `after_script` in another."""
        document = yaml.safe_load((CI / "gitlab.yml").read_text())
        job = document[".regrade"] | document[name]
        environment = document["variables"] | variables
        environment |= {"HOME": str(self.workspace.parent), "PATH": str(self.bin)}
        strict = "set -eo pipefail" if self.shell == "bash" else "set -e"
        done = Job()
        ended = self._script([strict, *job["before_script"], *job["script"]], environment)
        done.output += ended.stdout
        if ended.returncode:
            done.status = "failed"
        if canceled:
            done.status = "canceled"
        after = self._script(
            [strict, *job["after_script"]], environment | {"CI_JOB_STATUS": done.status}
        )
        done.output += after.stdout
        for kept in sorted(self.workspace.glob(job["artifacts"]["paths"][0] + "**/*")):
            if kept.is_file():
                done.artifacts[str(kept.relative_to(self.workspace))] = kept.read_text()
        return done

    def _script(
        self, lines: Sequence[str], environment: Mapping[str, str]
    ) -> "subprocess.CompletedProcess[str]":
        command = [self.shell, "-c", "\n".join(lines)]
        return _shell(command, self.workspace, environment)


def started_jobs(variables: Mapping[str, str]) -> list[str]:
    """Names of the jobs of gitlab.yml that a pipeline with these variables has."""
    document = yaml.safe_load((CI / "gitlab.yml").read_text())
    given = document["variables"] | variables
    started = []
    for name, job in document.items():
        if name.startswith(".") or "script" not in job:
            continue
        for rule in job["rules"]:
            variable, _, _ = rule["if"].removeprefix("$").partition(' == ""')
            assert variable.isidentifier(), rule
            if bool(given.get(variable)) != (' == ""' in rule["if"]):
                if rule.get("when") != "never":
                    started.append(name)
                break
    return started


def _shell(
    command: Sequence[str], folder: Path, environment: Mapping[str, str]
) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [shutil.which(command[0]) or command[0], *command[1:]],
        cwd=folder,
        env={**environment, **OFFLINE},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=120,
        check=False,
    )


def _uploaded(paths: str, context: Mapping[str, str], workspace: Path) -> dict[str, str]:
    found = [workspace / _filled(line, context) for line in paths.split("\n") if line]
    return {path.name: path.read_text() for path in found if path.exists()}


def _filled(text: str, context: Mapping[str, str]) -> str:
    return re.sub(r"\$\{\{(.*?)\}\}", lambda found: str(_value(found[1], context, "")), str(text))


def _holds(condition: str, context: Mapping[str, str], status: str) -> bool:
    """Without `always()` or `cancelled()`, a step is skipped after a failure."""
    if not re.search(r"\b(always|cancelled|failure|success)\(\)", condition):
        condition = f"success() && ({condition})"
    return bool(_value(condition, context, status))


def _value(expression: str, context: Mapping[str, str], status: str) -> Any:
    """Value of an expression of GitHub: names, texts, `==`, `!=`, `&&`, `||` and the functions of a status."""
    operators = {"&&": "and", "||": "or"}
    functions = {"always()": True, "success()": status == "success"}
    functions |= {"cancelled()": status == "cancelled", "failure()": status == "failure"}
    words = []
    for token in _TOKEN.findall(expression):
        if token in functions:
            words.append(str(functions[token]))
        elif re.fullmatch(r"[a-z]\w*\.[\w.]+", token):
            words.append(repr(context.get(token, "")))
        else:
            words.append(operators.get(token, token))
    if "".join(_TOKEN.findall(expression)) != expression:
        raise ValueError(f"unknown words in the expression {expression!r}")
    return eval(" ".join(words), {"__builtins__": {}})

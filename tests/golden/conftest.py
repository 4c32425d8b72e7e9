"""The command line within this process, in a folder with frozen answers."""

import itertools
import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from regrade.answers.local import LocalRepository
from regrade.answers.sets import AnswerSet
from regrade.cli import terminal
from regrade.cli.command_list import COMMANDS
from regrade.cli.output import Output
from regrade.scoring import score as scoring
from tests import command_line
from tests.command_line import run_here
from tests.golden.golden import matches_golden, normalised, without_seconds
from tests.golden.inputs import make_answers, make_judged

SCREEN = {"_force_terminal": True, "_width": 80, "_color_system": None}
"""Fields of a console of 80 columns without colours."""
FILE = SCREEN | {"_force_terminal": False}
"""Fields of a console without a terminal, which shows no progress."""


class Ran(command_line.Ran):
    @property
    def document(self) -> dict[str, Any]:
        """The result, without the version of regrade in front."""
        document: dict[str, Any] = super().document
        del document["regrade_version"]
        return document

    @property
    def shown(self) -> str:
        """Output for a person: the result, what goes beside it, and an exit code that is not 0."""
        parts = [self.out.rstrip("\n")]
        if self.err.strip():
            parts.append(f"-- stderr\n{self.err.rstrip()}")
        if self.code:
            parts.append(f"-- exit code {self.code}")
        return "\n".join(parts)


@dataclass(frozen=True)
class Door:
    """The command line, which writes into one folder."""

    folder: Path
    sets: dict[str, AnswerSet]
    """Answer sets by name: those of `answers`, and those of `judged`."""
    capfd: pytest.CaptureFixture[str]
    monkeypatch: pytest.MonkeyPatch

    def json(self, name: str, arguments: str) -> Ran:
        """Run a command for a program, and compare the document and the exit code."""
        command, _, rest = arguments.partition(" ")
        ran = self.run(f"{command} --json {rest}")
        code = f"-- exit code {ran.code}\n" if ran.code else ""
        self.matches(f"{name}.json", ran.out + code)
        return ran

    def both(self, name: str, arguments: str) -> None:
        """Run a command for a program and on a terminal, and compare both."""
        self.json(name, arguments)
        self.screen(name, arguments)

    def of_flow(self, name: str, arguments: str, found: object) -> None:
        """Compare both forms of a command whose flow has this result, or returns it when it is called with the form of the output."""

        def run_flow(_: str, __: type, ___: object, output: Output, *____: object) -> object:
            terminal.show_logs("regrade")
            return found(output) if callable(found) else found

        module = COMMANDS[arguments.split()[0]].function.partition(":")[0]
        with self.monkeypatch.context() as patched:
            patched.setattr(f"regrade.cli.{module}.run_flow", run_flow)
            self.both(name, arguments)

    def screen(self, name: str, arguments: str) -> Ran:
        """Run a command on a terminal of 80 columns, and compare what it shows."""
        with self.on_screen():
            ran = self.run(arguments)
        shown = without_seconds(ran.shown) if arguments.startswith("score ") else ran.shown
        self.matches(f"{name}.txt", shown)
        return ran

    @contextmanager
    def on_screen(self) -> Iterator[None]:
        """Show what the block prints on a terminal of 80 columns without colours."""
        with self.monkeypatch.context() as patched:
            for field, value in SCREEN.items():
                patched.setattr(terminal.stdout, field, value)
            for field, value in FILE.items():
                patched.setattr(terminal.stderr, field, value)
            yield

    def run(self, arguments: str) -> Ran:
        """Run a command; nothing that it sets for its process lasts.

        Args:
            arguments: Words, in which `{NAME}` is the id of an answer set, and `{answers}`, `{judged}` and `{folder}` are folders.
        """
        folders = {"folder": self.folder, "answers": self.folder / "answers"}
        folders["judged"] = self.folder / "judged"
        ids = {name: found.manifest.answer_set_id for name, found in self.sets.items()}
        words = [word.format(**folders, **ids) for word in arguments.split()]
        self.capfd.readouterr()
        with self.monkeypatch.context() as patched:
            for field, value in FILE.items():
                patched.setattr(terminal.stderr, field, value)
            code = run_here(words)
        return Ran(code, *self.capfd.readouterr())

    def matches(self, name: str, text: str) -> None:
        """Compare a text with a golden file."""
        stored = self.folder.rglob(".regrade/commits/*/*.json")
        commits = {json.loads(file.read_text())["revision"] for file in stored}
        matches_golden(name, normalised(text, folder=self.folder, commits=commits))


@pytest.fixture(scope="session")
def world(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, AnswerSet]]:
    """The frozen answers, made once."""
    folder = tmp_path_factory.mktemp("golden")
    with pytest.MonkeyPatch.context() as patched:  # each scoring takes a quarter of a second
        patched.setattr(scoring, "monotonic", itertools.count(0, 0.25).__next__)
        return folder, make_answers(folder) | make_judged(folder)


@pytest.fixture
def door(
    world: tuple[Path, dict[str, AnswerSet]],
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    mlflow_database: Path,
) -> Door:
    """The command line with a copy of the frozen answers, which a test may change."""
    for name in ("answers", "judged"):
        shutil.copytree(world[0] / name, tmp_path / name)
    for name in ("logs", "spool", "cache", "questions"):
        monkeypatch.setenv(f"REGRADE_{name.upper()}", str(tmp_path / name))
    monkeypatch.delenv("PREFECT_API_URL", raising=False)
    sets = {
        name: replace(found, repository=LocalRepository(tmp_path / Path(found.repository.uri).name))
        for name, found in world[1].items()
    }
    return Door(tmp_path, sets, capfd, monkeypatch)

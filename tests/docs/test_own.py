"""The pages "Add a scorer" and "Add a benchmark", followed step by step in an empty folder."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from regrade.benchmarks import open_dataset
from regrade.settings import DatasetBenchmark
from tests.command_line import ROOT

BLOCK = re.compile(r"```(\w+)\n(.*?)```", re.DOTALL)


class Reader:
    """A person who follows a page: writes its files, and runs its commands."""

    def __init__(self, folder: Path, page: str, **environment: str) -> None:
        text = (ROOT / "docs" / page).read_text()
        self.blocks = BLOCK.findall(text)
        self.folder = folder
        (folder / "bin").mkdir()
        command = folder / "bin" / "regrade"
        command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m regrade.cli.main "$@"\n')
        command.chmod(0o755)
        path = f"{command.parent}{os.pathsep}{os.environ['PATH']}"
        own = {"PYTHONPATH": str(ROOT), "PATH": path, "REGRADE_ANSWERS": "", "COLUMNS": "200"}
        spool = {"REGRADE_SPOOL": str(folder / "spool")}
        self.environment = {**os.environ, **own, **spool, **environment}

    def write(self, name: str, kind: str, number: int = 0) -> None:
        (self.folder / name).write_text([text for k, text in self.blocks if k == kind][number])

    def run(self, number: int) -> str:
        """Run a block of commands; `ID` is the first answer set of the list."""
        lines = [text for kind, text in self.blocks if kind == "bash"][number].splitlines()
        first = next((place for place, line in enumerate(lines) if "ID" in line), len(lines))
        shown = self._shell("\n".join(lines[:first]))
        if lines[first:]:
            (answer_set,) = json.loads(self._shell("regrade list --json"))["answer_sets"]
            commands = "\n".join(lines[first:])
            shown += self._shell(commands.replace("ID", answer_set["answer_set_id"]))
        return shown

    def _shell(self, commands: str) -> str:
        done = subprocess.run(
            ["bash", "-e", "-o", "pipefail", "-c", commands],
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=280,
            check=False,
        )
        assert done.returncode == 0, f"{commands}\n{done.stderr}"
        return done.stdout


@pytest.mark.slow
@pytest.mark.prefect
def test_a_scorer_is_added_as_the_page_says(tmp_path: Path, prefect_api: str):
    reader = Reader(tmp_path, "add-a-scorer.md")
    for number, name in enumerate(("scoring.py", "more.py", "columns.py")):
        reader.write(name, "python", number)

    reader.run(0)
    scored = reader.run(1)
    shown = reader.run(2)
    more, columns = reader.run(3), reader.run(4)

    assert re.search(r"33\.3 ± 33\.3 % +city v1 +3 +33\.3 %", scored), scored
    assert "It is Lyon, not Paris." in shown
    assert "no idea" in shown
    assert re.search(r"66\.7 ± 33\.3 .*characters +17\.6667", more, re.DOTALL), more
    assert re.search(r"33\.3 ± 33\.3 % +short v1 +3", columns), columns


@pytest.mark.slow
@pytest.mark.vllm
@pytest.mark.prefect
def test_a_benchmark_is_added_as_the_page_says(tmp_path: Path, prefect_api: str, demo_model: Path):
    reader = Reader(tmp_path, "add-a-benchmark.md", MODEL=str(demo_model))
    reader.write("job.yaml", "yaml")
    with (tmp_path / "job.yaml").open("a") as job:
        job.write("engine:\n  enforce_eager: true\n")  # as in the demo; compiling needs a compiler

    reader.run(0)
    reader.run(1)

    (answer_set,) = json.loads(reader._shell("regrade list --json"))["answer_sets"]
    assert (answer_set["benchmark"], answer_set["rows"]) == ("capitals", 3)


def test_the_job_of_the_page_asks_what_it_says(tmp_path: Path):
    reader = Reader(tmp_path, "add-a-benchmark.md")
    reader.run(0)
    reader.write("job.yaml", "yaml")
    (described,) = yaml.safe_load((tmp_path / "job.yaml").read_text())["datasets"]
    described["path"] = str(tmp_path / described["path"])
    benchmark = open_dataset(DatasetBenchmark.model_validate(described))

    first = benchmark.samples()[0]

    assert [message["content"] for message in benchmark.prompt(first)] == [
        "You know the cities of Europe.",
        "What is the capital of Italy?\nEnd with a line of the form `Answer: <city>`.",
    ]
    assert (first.subset, first.target) == ("Europe", '["Rome", "Roma"]')

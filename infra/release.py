"""Make a release: `python -m infra.release`, or `make release`. Nothing is uploaded, and no tag is set.

Builds sdist and wheel into `dist/` (the wheel out of the sdist), checks both, installs the wheel in a fresh environment from that
folder and its dependencies from the package index of this machine, imports and scores stored answers of the demo there, and writes
the version's notes out of CHANGELOG.md.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
import venv
from pathlib import Path

from regrade.settings.project_folder import VERSION

ROOT = Path(__file__).parents[1]
PACKAGES = ROOT / "requirements/release.txt"
STORED = ROOT / "tests/frozen/format-3/complete"
"""Answers of the demo, with their scores."""
_BENCHMARK = "demo-arithmetic"


class ReleaseError(Exception):
    """An obstacle to a release."""


def check_version(root: Path) -> str:
    """Return the version that pyproject.toml names.

    Raises:
        ReleaseError: If the code has another one.
    """
    named = str(tomllib.loads((root / "pyproject.toml").read_text())["project"]["version"])
    if named != VERSION:
        raise ReleaseError(
            f"pyproject.toml has version {named}, regrade/settings/project_folder.py has {VERSION}. Write the same into both."
        )
    return named


def notes(changelog: str, version: str) -> str:
    """Return the notes of a version: its section of the changelog.

    Raises:
        ReleaseError: If it has no section `## VERSION (YYYY-MM-DD)`, or one without a line.
    """
    heading = rf"^## {re.escape(version)} \(\d{{4}}-\d\d-\d\d\)\n(.*?)(?=^## |\Z)"
    found = re.search(heading, changelog, re.MULTILINE | re.DOTALL)
    if found is None or not found[1].strip():
        raise ReleaseError(
            f"CHANGELOG.md says nothing below a heading `## {version} (YYYY-MM-DD)`. Give what is below `## Unreleased` that heading."
        )
    return f"# regrade {version}\n\n{found[1].strip()}\n"


def check_committed(root: Path) -> None:
    """Raise `ReleaseError` if files of the tree are not committed: the sdist would have them, and the commit would not."""
    listing = ["git", "status", "--porcelain"]
    changed = subprocess.run(listing, cwd=root, capture_output=True, text=True, check=True).stdout
    if changed:
        raise ReleaseError(f"Not committed, so that the release would be of no commit:\n{changed}")


def environment(folder: Path) -> Path:
    """Create a new virtual environment and return its Python."""
    venv.create(folder, clear=True, with_pip=True, symlinks=True)
    return folder / "bin/python"


def run(step: str, *command: str | Path, cwd: Path = ROOT) -> str:
    """Run a step and return its output; it sees no package of this checkout.

    Raises:
        ReleaseError: If it fails; has the end of what it printed.
    """
    print(f"{step} ...", flush=True)
    variables = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    words = [str(word) for word in command]
    done = subprocess.run(
        words, cwd=cwd, env=variables, capture_output=True, text=True, check=False
    )
    if done.returncode:
        printed = (done.stdout + done.stderr)[-4000:]
        raise ReleaseError(f"{step}: exit code {done.returncode} of `{' '.join(words)}`\n{printed}")
    return done.stdout


def build(root: Path, tools: Path, dist: Path) -> None:
    """Build sdist and wheel into an empty folder, and check both."""
    shutil.rmtree(dist, ignore_errors=True)
    python = environment(tools)
    pinned = ["install", "--no-deps", "--require-hashes", "--requirement", str(PACKAGES)]
    run("installing requirements/release.txt", python, "-m", "pip", *pinned)
    run("building sdist and wheel", python, "-m", "build", "--no-isolation", "--outdir", dist, root)
    run("checking both", python, "-m", "twine", "check", "--strict", *sorted(dist.iterdir()))


def install(folder: Path, dist: Path, version: str) -> Path:
    """Install the wheel in a fresh environment and return its Python.

    The wheel first and alone, from `dist` only: a package index may have a package of this name.
    """
    python = environment(folder)
    pip: tuple[str | Path, ...] = (python, "-m", "pip", "--disable-pip-version-check")
    local = ("--no-index", "--no-deps", "--find-links", dist)
    run("installing the wheel", *pip, "install", *local, f"regrade=={version}")
    run("installing its dependencies", *pip, "install", f"regrade=={version}")
    run("checking that they fit", *pip, "check")
    return python


def score_demo(python: Path, folder: Path) -> float:
    """Import stored answers of the demo and score them, with the installed wheel; return their accuracy.

    Raises:
        ReleaseError: If a command fails, or the imported answers get another accuracy than the stored ones.
    """
    stored = shutil.copytree(STORED, folder / "stored", dirs_exist_ok=True)
    (file,) = (stored / "answers" / _BENCHMARK).rglob("*.parquet")
    command = python.with_name("regrade")
    imported = folder / "imported"
    run(
        *("importing", command, "import", file, "--format", "table", "--answers", imported),
        *("--column.question", "question", "--column.target", "target", "--column.text", "text"),
        *("--model", "regrade-demo", "--benchmark", _BENCHMARK, "--scorer", "number"),
        cwd=folder,
    )
    accuracies = []
    for answers in (imported, stored):
        chosen = ("--answers", answers, "--benchmark", _BENCHMARK, "--scorer", "number", "--json")
        scored = run(f"scoring the {answers.name} answers", command, "score", *chosen, cwd=folder)
        ((score,),) = (found["scores"] for found in json.loads(scored)["answer_sets"])
        accuracies.append(float(score["metrics"]["accuracy"]))
    if accuracies[0] != accuracies[1]:
        raise ReleaseError(
            f"imported answers have accuracy {accuracies[0]}, stored ones {accuracies[1]}"
        )
    return accuracies[0]


def release(root: Path, work: Path, dist: Path) -> Path:
    """Build, check, install, score and write the notes; return their file."""
    version = check_version(root)
    text = notes((root / "CHANGELOG.md").read_text(), version)
    shutil.rmtree(work, ignore_errors=True)
    build(root, work / "tools", dist)
    python = install(work / "environment", dist, version)
    accuracy = score_demo(python, work)
    print(f"regrade {version} scores the demo's answers: {100 * accuracy:.1f} %")
    written = dist / f"notes-{version}.md"
    written.write_text(text)
    return written


def main() -> int:
    """Make the release of this commit."""
    try:
        check_committed(ROOT)
        written = release(ROOT, ROOT / ".release", ROOT / "dist")
    except ReleaseError as error:
        print(error, file=sys.stderr)
        return 1
    print("\n".join(str(path.relative_to(ROOT)) for path in sorted(written.parent.iterdir())))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

"""Look up known vulnerabilities of the pinned packages with pip-audit: `python -m infra.audit`.

Exit codes: 0 none is known, 1 some are known, 3 could not be looked up. pip-audit alone says "No known vulnerabilities" of
packages that the index knows nothing about, as mirrors of PyPI often do.
"""

import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
LISTS = ("requirements/cpu.txt", "requirements/stack.txt")
NONE_KNOWN, SOME_KNOWN, NOT_LOOKED_UP = 0, 1, 3
PROBE = "requests==2.19.0"
"""A version with vulnerabilities that are known since 2018: a source that knows none has no information."""


class NotLookedUpError(Exception):
    """pip-audit gave no result."""


def pinned() -> list[str]:
    """Return `name==version` of all packages of the CPU environment and the stack."""
    found: list[str] = []
    for name in LISTS:
        found += re.findall(r"^[a-z0-9._-]+==[^ ;\\]+", (ROOT / name).read_text(), re.MULTILINE)
    # PyPI knows the vulnerabilities of torch without the name of its build, `+cpu`.
    found += re.findall(r'^torch="(torch==[^+"]+)', (ROOT / "infra/install.sh").read_text(), re.M)
    return found


def look_up(packages: Sequence[str], options: Sequence[str] = ()) -> dict[str, Any]:
    """Return pip-audit's JSON for packages with pinned versions.

    Raises:
        NotLookedUpError: If it gives none, such as without a connection.
    """
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
        file.write("".join(f"{package}\n" for package in packages))
        file.flush()
        done = subprocess.run(
            [
                *(sys.executable, "-m", "pip_audit", "--requirement", file.name, "--no-deps"),
                *("--disable-pip", "--format", "json", "--progress-spinner", "off", *options),
            ],
            capture_output=True,
            text=True,
            check=False,
        )
    try:
        return dict(json.loads(done.stdout))
    except ValueError as error:
        last = done.stderr.strip().splitlines()[-1:] or [f"exit code {done.returncode}"]
        raise NotLookedUpError(last[0]) from error


def verdict(document: Mapping[str, Any]) -> tuple[int, list[str]]:
    """Return the exit code and the lines to print for pip-audit's JSON."""
    lines, skipped = [], []
    for package in document["dependencies"]:
        if "skip_reason" in package:
            skipped.append(package["name"])
        for found in package.get("vulns", ()):
            fixed = ", ".join(found["fix_versions"]) or "no version"
            names = ", ".join([found["id"], *found.get("aliases", ())])
            lines.append(f"{package['name']} {package['version']}: {names}; fixed in {fixed}")
    code = SOME_KNOWN if lines else NOT_LOOKED_UP if skipped else NONE_KNOWN
    looked_up = len(document["dependencies"]) - len(skipped)
    lines.append(f"{looked_up} packages looked up, {len(lines)} known vulnerabilities.")
    if skipped:
        lines.append(f"NOT looked up, the index has no information: {', '.join(skipped)}")
    return code, lines


def main(options: Sequence[str]) -> int:
    """Print what is known, and return the exit code."""
    try:
        probed, _ = verdict(look_up([PROBE], options))
        if probed != SOME_KNOWN:
            raise NotLookedUpError(f"it has no information on {PROBE}, which has known ones")
        code, lines = verdict(look_up(pinned(), options))
    except NotLookedUpError as error:
        print(
            f"Known vulnerabilities could NOT be looked up: {error}. Try `ARGS='--vulnerability-service osv'`, "
            "or another machine.",
            file=sys.stderr,
        )
        return NOT_LOOKED_UP
    print("\n".join(lines))
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

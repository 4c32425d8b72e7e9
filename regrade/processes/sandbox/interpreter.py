"""Find a Python that can run inside the sandbox, where the user is `nobody` and homes are out of reach."""

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regrade.settings.errors import SandboxError

NOBODY = 65534
"""User and group of programs if regrade runs as root."""
OLDEST = (3, 9)
PACKAGES = ("numpy",)
"""Packages, beside the standard library, that programs and tests can import."""
_SYSTEM = ("/usr/bin/python3", "/usr/local/bin/python3")
_ASK = """
import ctypes, json, sys, sysconfig
print(json.dumps({"version": sys.version.split()[0], "tag": sysconfig.get_config_var("SOABI"), "prefix": sys.base_prefix,
                  "library": sysconfig.get_path("stdlib"), "info": list(sys.version_info[:2])}))
"""


@dataclass(frozen=True, slots=True)
class Interpreter:
    """A Python installation, and the packages that programs can import."""

    path: str
    version: str
    prefix: str
    library: str
    """Folder of the standard library."""
    packages: tuple[str, ...]
    """Folders of `PACKAGES`, and of the libraries that come with them; empty if none fits this Python."""


def credentials() -> dict[str, Any]:
    """Return the arguments of `subprocess.Popen` that drop root; empty if regrade does not run as root."""
    if os.geteuid() != 0:
        return {}
    return {"user": NOBODY, "group": NOBODY, "extra_groups": []}


def find_interpreter() -> Interpreter:
    """Return the first usable of: this process's Python, the system's, the first on the path.

    Raises:
        SandboxError: If none is usable; names each with its problem.
    """
    on_path = shutil.which("python3")
    candidates = [os.path.realpath(sys.executable), *_SYSTEM, *([on_path] if on_path else [])]
    problems = []
    for path in dict.fromkeys(candidates):
        answer, problem = _ask(path)
        if answer is not None:
            return Interpreter(
                path=os.path.realpath(path),
                version=answer["version"],
                prefix=answer["prefix"],
                library=answer["library"],
                packages=_packages(answer["tag"]),
            )
        problems.append(f"{path} ({problem})")
    raise SandboxError(
        f"No Python can run untrusted programs: {'; '.join(problems)}. The user 'nobody' must be able to start one that "
        "does not lie in a home: install the system's (`apt install python3`), or a Python below /usr/local or /opt."
    )


def _ask(path: str) -> tuple[dict[str, Any] | None, str]:
    """Start a Python as an unprivileged user; return its version and paths, or None and the problem."""
    try:
        done = subprocess.run(
            [path, "-I", "-S", "-c", _ASK],
            cwd="/",
            env={},
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
            **credentials(),
        )
        answer = json.loads(done.stdout)
    except PermissionError as error:
        return None, f"the user 'nobody' may not start it: {error.strerror}"
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        stderr = getattr(error, "stderr", None) or str(error)
        return None, str(stderr).strip().splitlines()[-1][:200]
    if tuple(answer["info"]) < OLDEST:
        return None, f"it is {answer['version']}; {OLDEST[0]}.{OLDEST[1]} or newer is needed"
    return answer, ""


def _packages(tag: str) -> tuple[str, ...]:
    """Return the folders of the packages whose extension modules are made for this Python (`SOABI`)."""
    folders: list[str] = []
    for name in PACKAGES:
        spec = importlib.util.find_spec(name)
        if spec is None or not spec.submodule_search_locations:
            continue
        folder = Path(spec.submodule_search_locations[0])
        if not any(folder.rglob(f"*.{tag}.so")):
            continue
        libraries = folder.with_name(f"{name}.libs")
        folders += [str(path) for path in (folder, libraries) if path.is_dir()]
    return tuple(folders)

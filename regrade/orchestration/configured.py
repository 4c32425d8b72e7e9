"""Check if a Prefect server is configured, without importing Prefect, which takes more than a second, if none can be."""

import os
import tomllib
from pathlib import Path

from regrade.processes.importing import quick_imports

_GROUP = "PREFECT_API"
"""Variable with all settings of the server's API, as JSON."""
_VARIABLES = ("PREFECT_API_URL", "PREFECT_PROFILE", "PREFECT_PLUGINS", "PREFECT_EXPERIMENTS")
"""Prefixes of variables that can name a server: its address, a profile, or plugins, which set variables."""
_FILES = (".env", "prefect.toml")
"""Files in the working folder that Prefect reads."""


def has_server() -> bool:
    """Return True if a Prefect server is configured, so that no temporary one is needed."""
    if not may_have_server():
        return False
    with quick_imports():
        from prefect.settings import PREFECT_API_URL  # noqa: PLC0415 - slow

    return PREFECT_API_URL.value() is not None


def may_have_server() -> bool:
    """Return False if no place in which Prefect looks for the address of a server has one.

    These places are environment variables, files in the working folder, and the file of profiles:
    https://docs.prefect.io/v3/concepts/settings-and-profiles
    """
    home = Path(os.environ.get("PREFECT_HOME") or Path.home() / ".prefect")
    return (
        any(name == _GROUP or name.startswith(_VARIABLES) for name in map(str.upper, os.environ))
        or any(Path(name).exists() for name in _FILES)
        or (home / "profiles.toml").exists()
        or _has_table(Path("pyproject.toml"))
    )


def _has_table(project: Path) -> bool:
    """Return True if a project's file has settings of Prefect, or cannot be read."""
    try:
        document = tomllib.loads(project.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return False
    except (OSError, ValueError):
        return True
    return "prefect" in document.get("tool", {})

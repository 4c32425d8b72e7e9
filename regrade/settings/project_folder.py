"""Folder of the Prefect project: `flows`, `tasks` and `prefect.yaml`.

In a checkout, the folder is the root of the repository. In a wheel, it is `regrade/project` inside the package,
because a top-level package `flows` in site-packages would hide the `flows` folder of other projects.
"""

import sys
from pathlib import Path

VERSION = "0.2.0"
"""Version of regrade; pyproject.toml has the same."""
PACKAGE = Path(__file__).parents[1]
"""Folder of the package `regrade`."""


def is_checkout() -> bool:
    """True in a checkout, including an editable installation."""
    root = PACKAGE.parent
    return (root / "prefect.yaml").is_file() and (root / "flows").is_dir()


def project_folder() -> Path:
    """Absolute path of the project folder."""
    return PACKAGE.parent if is_checkout() else PACKAGE / "project"


def make_flows_importable() -> None:
    """Put the project folder first on `sys.path`, so that `import flows` finds regrade's flows."""
    folder = str(project_folder())
    if sys.path[:1] != [folder]:
        sys.path.insert(0, folder)


def install_command(extra: str, target: str) -> str:
    """Command that installs an optional part.

    Args:
        extra: Extra of the wheel, such as `vllm`.
        target: Target of the Makefile that installs the part in a checkout.
    """
    return f"make {target}" if is_checkout() else f"pip install 'regrade[{extra}]'"

"""The pull step of the deployments: what a worker does before it imports a flow (prefect.yaml)."""

import os
from pathlib import Path

from regrade.answers.spool import spool_root
from regrade.project_folder import is_checkout, make_flows_importable, project_folder


def use_installed_project() -> dict[str, str]:
    """Make the flows of this machine's regrade importable, and change to the working folder.

    Runs on the worker, so that a deployment names no path of the machine that deployed it. Prefect imports flows with
    module-path entrypoints from `sys.path`, whatever the working folder is.

    Relative paths in a run's parameters are relative to the working folder: `REGRADE_HOME`, else the checkout. Without
    a checkout it is the folder that holds spool and logs, because nothing should be written into site-packages.

    Returns:
        The working folder, as `directory`.
    """
    make_flows_importable()
    if configured := os.environ.get("REGRADE_HOME"):
        home = Path(configured)
    elif is_checkout():
        home = project_folder()
    else:
        home = spool_root().parent
        home.mkdir(parents=True, exist_ok=True)
    os.chdir(home)
    return {"directory": str(Path.cwd())}

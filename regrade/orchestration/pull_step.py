"""The pull step in prefect.yaml, which a worker runs before it imports a flow."""

import os
from pathlib import Path

from regrade.answers.spool import spool_root
from regrade.project_folder import is_checkout, make_flows_importable, project_folder


def use_installed_project() -> dict[str, str]:
    """Make the flows of the regrade on this machine importable, and change to the working folder.

    Runs on the worker, so that a deployment contains no path of the machine that deployed it. Prefect imports flows with
    module-path entrypoints from `sys.path`, not from the working folder.

    Relative paths in a run's parameters are relative to the working folder: `REGRADE_HOME`, else the checkout. An
    installed package uses the folder that holds spool and logs, because nothing should be written into site-packages.

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

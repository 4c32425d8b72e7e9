"""Process of a flow run, started by `regrade worker`: run the flow that the worker chose, from the installed project."""

import runpy

from regrade.orchestration.pull_step import use_installed_project

if __name__ == "__main__":
    use_installed_project()
    runpy.run_module("prefect.engine", run_name="__main__", alter_sys=True)

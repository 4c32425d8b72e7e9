"""Process of a flow run, started by `regrade worker`: run the flow that the worker chose, from the installed project."""

import runpy
import signal

from regrade.orchestration.project_job import use_installed_project

if __name__ == "__main__":
    # Ctrl-C in the worker's terminal reaches this process too, which would crash: the worker stops it with SIGTERM.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    use_installed_project()
    runpy.run_module("prefect.engine", run_name="__main__", alter_sys=True)

"""Run a flow in this process and return its result, for commands with results of their own."""

import contextlib
import importlib
import logging
import sys
from collections.abc import Callable
from typing import Any, TypeVar, cast

from regrade.cli.terminal import TerminalDisplay, log_to
from regrade.orchestration.server import flow_result, prefect_server
from regrade.results.display import log_file, shown_on
from regrade.settings.errors import OperationError
from regrade.settings.project_folder import make_flows_importable
from regrade.tracking.process import prepare

logger = logging.getLogger("regrade")
_R = TypeVar("_R")


def run_flow(name: str, kind: type[_R], parameters: dict[str, Any], *, quiet: bool) -> _R:
    """Run a flow on the configured Prefect server or a temporary one; show its progress on stderr.

    Args:
        name: Module and function of the flow.
        kind: Type of its result.
        parameters: Parameters of the flow.
        quiet: Show only warnings and errors.

    Raises:
        RegradeError: If the flow raises it, or the Prefect server cannot be used.
    """
    log = log_file("regrade")
    log_to(log, quiet=quiet)
    prepare(log)
    display = TerminalDisplay(quiet=quiet)

    def flow() -> Callable[..., _R]:
        make_flows_importable()
        return cast("Callable[..., _R]", getattr(importlib.import_module(f"flows.{name}"), name))

    try:
        # Output of libraries must not mix with the JSON on stdout.
        with (
            contextlib.redirect_stdout(sys.stderr),
            display.shown(),
            shown_on(display),
            prefect_server(log, meanwhile=flow),
        ):
            result = flow_result(flow(), parameters)
    except OperationError:
        logger.info("the log with the output of all libraries: %s", log)
        raise
    if not isinstance(result, kind):
        raise TypeError(f"flow '{name}' returned {type(result).__name__}, expected {kind.__name__}")
    return result

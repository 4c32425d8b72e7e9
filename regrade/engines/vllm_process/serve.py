"""Worker side: serve the owner, and send it the errors that it should raise."""

import importlib.util
import signal
import socket
import sys
from collections.abc import Callable

from regrade.engines.vllm_process.channel import Channel
from regrade.processes.supervised import end_with_supervisor, take_descriptor
from regrade.processes.supervisor import CHANNEL_VARIABLE
from regrade.settings.errors import SettingsError

GRACE = 2.0
"""Seconds from SIGTERM to SIGKILL for vLLM's processes if the supervisor has ended."""
REFUSED_STATUS = 3
"""Exit status after sending the owner an error."""


def serve_owner(serve: Callable[[Channel], int]) -> int:
    """Serve the owner of this process, which the supervisor started, and return the exit status.

    Args:
        serve: Serves the owner until it closes the channel, and returns the exit status. The first message is `open`. The
            owner raises errors in the settings.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the owner handles Ctrl-C
    end_with_supervisor(GRACE)
    channel = Channel(socket.socket(fileno=take_descriptor(CHANNEL_VARIABLE)))
    if importlib.util.find_spec("vllm") is None:
        return refuse(channel, "not_installed", sys.executable)
    try:
        return serve(channel)
    except SettingsError as error:
        return refuse(channel, "settings", str(error))


def refuse(channel: Channel, kind: str, message: str) -> int:
    """Send the owner an error, and return the exit status."""
    channel.send({"type": "error", "kind": kind, "message": message})
    return REFUSED_STATUS

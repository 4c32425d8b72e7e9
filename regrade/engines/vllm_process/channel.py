"""Newline-delimited JSON over a socket, between an engine's owner and its worker.

Owner to worker: `open` (with a sample of the planned requests), `ahead` (planned requests), `load`; `images` (before the requests that show them); then `requests`, `tokenised` (of the planned ones), `withdraw`,
`cancel`, `measure`, `limit`; between two rounds `reload`, `probe`, `batches`, `sleep` and `wake`; `read_ahead`.
Worker to owner: `progress`, `loaded`, `completions`, `measured`, `swapped`, `error`.
"""

import select
import socket
import threading
from collections.abc import Mapping
from typing import Any

import orjson

Message = dict[str, Any]


class Channel:
    """One end of a connection. Several threads may send while another one receives."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._sending = threading.Lock()
        self._received = bytearray()
        self._searched = 0

    def send(self, message: Mapping[str, Any]) -> None:
        """Send a message; blocks while the other side does not read.

        Raises:
            BrokenPipeError, ConnectionResetError: If the other side has closed.
        """
        line = orjson.dumps(message, dict, orjson.OPT_APPEND_NEWLINE)  # `dict` of other mappings
        with self._sending:
            self._connection.sendall(line)

    def receive(self) -> Message | None:
        """Return the next message, or None after the other side has closed."""
        while (line := self._next_line()) is None:
            try:
                received = self._connection.recv(1 << 20)
            except ConnectionResetError:
                return None
            if not received:
                return None
            self._received += received
        message: Message = orjson.loads(line)
        return message

    def has_message(self, seconds: float = 0.0) -> bool:
        """Return True if at least the beginning of a message has arrived, or arrives within some seconds."""
        if self._received.find(b"\n", self._searched) >= 0:
            return True
        poll = select.poll()
        poll.register(self._connection, select.POLLIN)
        return bool(poll.poll(1000 * seconds))

    def close(self) -> None:
        """Close this end."""
        self._connection.close()

    def _next_line(self) -> bytes | None:
        end = self._received.find(b"\n", self._searched)
        if end < 0:
            self._searched = len(self._received)
            return None
        line = bytes(self._received[:end])
        del self._received[: end + 1]
        self._searched = 0
        return line

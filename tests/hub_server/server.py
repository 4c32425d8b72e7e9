"""The test Hub as a local server: call `HubServer.start()`, then point a client at `endpoint`."""

import re
import socket
import threading
import time

import uvicorn

from tests.hub_server.app import Routes
from tests.hub_server.faults import Action, FaultLayer, Rule, Seen
from tests.hub_server.store import Store

START_SECONDS = 20.0
"""Longest time to start or to stop."""


class HubServer:
    """A Hub on a free port of 127.0.0.1; its storage is at `localhost`, a different origin."""

    def __init__(self) -> None:
        self.store = Store()
        self._routes = Routes(self.store)
        self._layer = FaultLayer(self._routes.app())
        self._server = uvicorn.Server(
            uvicorn.Config(
                self._layer, log_level="critical", lifespan="off", timeout_graceful_shutdown=1
            )
        )
        self._thread: threading.Thread | None = None
        self.endpoint = ""

    def start(self) -> None:
        listener = socket.socket()
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
        self.endpoint = self._routes.base = f"http://127.0.0.1:{port}"
        self._routes.cdn = f"http://localhost:{port}"
        self._thread = threading.Thread(
            target=self._server.run, kwargs={"sockets": [listener]}, name="test-hub", daemon=True
        )
        self._thread.start()
        until = time.monotonic() + START_SECONDS
        while not self._server.started:
            if time.monotonic() > until or not self._thread.is_alive():
                raise RuntimeError("the test Hub did not start")
            time.sleep(0.01)

    def stop(self) -> None:
        self._server.should_exit = True
        if self._thread is not None:
            self._thread.join(START_SECONDS)

    def fail(
        self, method: str, path: str, action: Action, *, count: int = 1, after: int = 0
    ) -> None:
        """Apply `action` to the next `count` requests with this method and a path matching regex `path`."""
        self._layer.rules.append(Rule(method, re.compile(path), action, count, after))

    @property
    def seen(self) -> list[Seen]:
        """All requests since the last `forget`."""
        return self._layer.seen

    def requests(self, method: str, path: str) -> int:
        """Count the requests so far with this method and a path matching regex `path`."""
        return sum(
            1 for seen in self._layer.seen if seen.method == method and re.search(path, seen.path)
        )

    def forget(self) -> None:
        """Remove rules and recorded requests, and reset the settings of the store."""
        self._layer.rules.clear()
        self._layer.seen.clear()
        self.store.page_size = 1000
        self.store.preupload_tells_oids = True

"""Serve the viewer: address, allowed hosts, token."""

import os
import socket
from dataclasses import dataclass
from urllib.parse import urlsplit

from regrade.answers.base import Repository
from regrade.pages.viewer.app import Viewer, protected
from regrade.pages.viewer.guarding import MIN_TOKEN
from regrade.processes.web_guard import LOOPBACK_NAMES, App, in_address, is_loopback
from regrade.settings.errors import SettingsError
from regrade.settings.view_address import view_prefix

HOSTS = "REGRADE_VIEW_HOSTS"
"""Environment variable with further names under which the viewer is reached, separated by commas; without ports."""
TOKEN = "REGRADE_VIEW_TOKEN"
"""Environment variable with the token that each request needs."""


@dataclass(frozen=True, slots=True)
class ViewerAddress:
    """Address of a viewer, and who may use it."""

    host: str
    port: int
    token: str | None
    hosts: tuple[str, ...]
    """Names without port under which it is reached."""
    prefix: str | None
    """Address under which browsers see it (REGRADE_VIEW_URL), if it is another."""

    @property
    def origins(self) -> tuple[str, ...]:
        """Origins of its own pages."""
        own = [f"http://{host}:{self.port}" for host in self.hosts]
        if self.prefix is not None:
            parts = urlsplit(self.prefix)
            own.append(f"{parts.scheme}://{parts.netloc}")
        return tuple(own)

    @property
    def root(self) -> str:
        """Path of the prefix, without a slash at the end."""
        return "" if self.prefix is None else urlsplit(self.prefix).path.rstrip("/")

    @property
    def url(self) -> str:
        """Address of the first page on this machine."""
        return f"http://{in_address(self.host)}:{self.port}{self.root}"


def place_for(host: str, port: int) -> ViewerAddress:
    """Return the place for a viewer, as environment variables set it.

    Raises:
        SettingsError: If other machines could reach it without a token, or the token is short.
    """
    token = os.environ.get(TOKEN) or None
    if token is not None and len(token) < MIN_TOKEN:
        raise SettingsError(
            f"{TOKEN} has {len(token)} characters, expected {MIN_TOKEN} or more: `openssl rand -hex 24` makes one."
        )
    if token is None and not is_loopback(host):
        raise SettingsError(
            f"`--host {host}` lets other machines read the answers. Set {TOKEN} to a token that they need "
            f"({MIN_TOKEN} characters or more: `openssl rand -hex 24`), or leave `--host` out."
        )
    prefix = view_prefix()
    further = [name.strip() for name in (os.environ.get(HOSTS) or "").split(",") if name.strip()]
    public = [] if prefix is None else [urlsplit(prefix).hostname or ""]
    names = dict.fromkeys([*LOOPBACK_NAMES, in_address(host), *public, *further])
    return ViewerAddress(host, port, token, tuple(names), prefix)


def bound_socket(host: str, port: int) -> socket.socket:
    """Return a socket that listens for the viewer; port 0 takes any free one.

    Raises:
        SettingsError: If the address is taken, or not one of this machine.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        raise SettingsError(
            f"The viewer cannot listen on {host}:{port}: {error.strerror}. Choose another port with `--port`; "
            "`--port 0` takes any free one."
        ) from error
    return listener


def application(repository: Repository, place: ViewerAddress) -> App:
    """Return the viewer of a repository at a place."""
    viewer = Viewer(repository, place.root)
    return protected(viewer, origins=place.origins, hosts=place.hosts, token=place.token)


def serve(app: App, listener: socket.socket, place: ViewerAddress) -> None:
    """Serve until the process is interrupted."""
    import uvicorn  # noqa: PLC0415 - only this function needs it

    config = uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,
        server_header=False,
        root_path=place.root,
        lifespan="off",
        timeout_graceful_shutdown=2,
    )
    uvicorn.Server(config).run(sockets=[listener])

"""A viewer's pages over HTTP, as text."""

import html
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import httpx2
import uvicorn
from starlette.testclient import TestClient

from regrade.answers.local import LocalRepository
from regrade.pages.viewer.app import Viewer
from regrade.pages.viewer.serving import application, bound_socket, place_for


@dataclass(frozen=True)
class Page:
    status: int
    html: str
    location: str | None

    @property
    def text(self) -> str:
        """The text that a reader sees, without tags, on one line."""
        return " ".join(html.unescape(re.sub(r"<[^>]*>", " ", self.html)).split())

    @property
    def rows(self) -> list[str]:
        """The text of each row of the list."""
        found = re.findall(r"<tr data-row.*?</tr>", self.html, re.DOTALL)
        return [Page(200, row, None).text for row in found]

    def links(self, pattern: str = "") -> list[str]:
        """Addresses of links that match."""
        found = [html.unescape(link) for link in re.findall(r'<a[^>]* href="([^"]*)"', self.html)]
        return [link for link in found if re.search(pattern, link)]

    def keyed(self, key: str) -> str | None:
        """Address of the link with a key."""
        tags = [tag for tag in re.findall(r"<a [^>]*>", self.html) if f'data-key="{key}"' in tag]
        found = re.search(r'href="([^"]*)"', tags[0]) if tags else None
        return html.unescape(found[1]) if found else None


class Reader:
    """Reads the pages of a repository."""

    def __init__(self, folder: Path, root: str = "") -> None:
        self.repository = LocalRepository(folder)
        self.viewer = Viewer(self.repository, root)
        self._client = TestClient(self.viewer.application(), follow_redirects=False)

    def get(self, address: str) -> Page:
        response: httpx2.Response = self._client.get(address)
        return Page(response.status_code, response.text, response.headers.get("location"))

    def page(self, address: str) -> Page:
        """A page that must be there."""
        page = self.get(address)
        assert page.status == 200, f"{address}: {page.status} {page.location} {page.text[:600]}"
        return page


@contextmanager
def served(repository: LocalRepository, token: str | None = None) -> Iterator[str]:
    """Serve a viewer, for a browser; yield its address."""
    with bound_socket("127.0.0.1", 0) as listener:
        place = place_for("127.0.0.1", 0)
        place = replace(place, port=listener.getsockname()[1], token=token)
        app = application(repository, place)
        server = uvicorn.Server(uvicorn.Config(app, log_level="warning", lifespan="off"))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
        thread.start()
        yield place.url
        server.should_exit = True
        thread.join(20)

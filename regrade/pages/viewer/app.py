"""The viewer as an ASGI application: its routes, and its errors as pages. Reads only."""

from collections.abc import Collection
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from regrade.answers.base import Repository
from regrade.answers.figures import figures_in
from regrade.pages.viewer import parameters as p
from regrade.pages.viewer.answer_list import answer_list
from regrade.pages.viewer.filters import AnswerFilters, PairFilters
from regrade.pages.viewer.guarding import HEADERS, TokenRequired
from regrade.pages.viewer.judged import People
from regrade.pages.viewer.library import Library, NotFoundError
from regrade.pages.viewer.links import Links, PairVisit, Visit
from regrade.pages.viewer.one_answer import one_answer
from regrade.pages.viewer.pair_index import Pairing
from regrade.pages.viewer.pair_list import pair_list
from regrade.pages.viewer.pair_page import pair_page
from regrade.pages.viewer.provenance import provenance, shown_place
from regrade.pages.viewer.set_list import SetFilters, set_list
from regrade.pages.viewer.templating import page_templates, style_sheet
from regrade.processes.web_guard import App, OwnPagesOnly, WithHeaders
from regrade.settings.errors import (
    DamagedAnswersError,
    HubError,
    RegradeError,
    RepositoryError,
    UnknownNameError,
    UserError,
)


class Viewer:
    """The pages of one repository."""

    def __init__(self, repository: Repository, root: str = "") -> None:
        """Make the pages; nothing is read yet.

        Args:
            repository: Answer repository.
            root: Path of the prefix under which browsers see the pages, without a slash at the end.
        """
        self.library = Library(repository)
        self._pairing = Pairing()
        self._people = People()
        self._links = Links(root)
        self._pages = page_templates()

    def application(self) -> Starlette:
        """Return the application without protection; see `protected`."""
        routes = [
            Route("/", self._home, methods=["GET"]),
            Route("/compare", self._compare_form, methods=["GET"]),
            Route("/compare/{base}/{candidate}", self._compare, methods=["GET"]),
            Route("/compare/{base}/{candidate}/question", self._question, methods=["GET"]),
            Route("/sets/{answer_set}", self._answers, methods=["GET"]),
            Route("/sets/{answer_set}/answer", self._answer, methods=["GET"]),
            Route("/sets/{answer_set}/image/{sha256}", self._image, methods=["GET"]),
            Route("/health", self._health, methods=["GET"]),
            Route("/static/style.css", self._style, methods=["GET"]),
            Mount(
                "/static", StaticFiles(packages=[("regrade.pages.viewer", "static")]), name="static"
            ),
        ]
        # Keyed by class: Starlette takes the handler of the nearest base class.
        handlers: dict[Any, Any] = {RegradeError: self._failed, HTTPException: self._refused}
        return Starlette(routes=routes, exception_handlers=handlers)

    def _style(self, _: Request) -> Response:
        return Response(style_sheet(), media_type="text/css")

    def _home(self, request: Request) -> Response:
        filters = SetFilters.of(_given(request, *SetFilters.__dataclass_fields__))
        if filters.query != request.url.query:
            return RedirectResponse(self._links.home(filters), 302)
        shelf = self.library.shelf(filters.at)
        page = set_list(shelf, filters, self._links)
        labelled = {
            row.stored.id: self.library.calibration(row.stored, row.stored.headline)
            for row in page.rows
        }
        return self._page(
            "sets.html",
            filters.at,
            page=page,
            shelf=shelf,
            labelled=labelled,
            figures=figures_in("viewer"),
        )

    def _visit(self, request: Request, *others: str) -> Visit:
        filters = AnswerFilters.of(_given(request, *AnswerFilters.__dataclass_fields__, *others))
        shelf = self.library.shelf(filters.at)
        stored = shelf.find(request.path_params["answer_set"])
        return Visit(self.library, shelf, stored, filters, self._links)

    def _answers(self, request: Request) -> Response:
        visit = self._visit(request)
        stored, filters = visit.stored, visit.filters
        if filters.query != request.url.query or request.path_params["answer_set"] != stored.id:
            return RedirectResponse(self._links.answers(stored.id, filters), 302)
        page = answer_list(visit)
        labelled = self.library.calibration(stored, page.scoring)
        settings = list(provenance(stored, page.scoring))
        return self._page(
            "answers.html", filters.at, page=page, labelled=labelled, settings=settings
        )

    def _answer(self, request: Request) -> Response:
        given = _listed(request)
        sample_id, repeat = p.text(given, "sample"), p.whole(given, "number")
        if sample_id is None:
            raise NotFoundError("The address of an answer names its question: `sample=...`.")
        visit = self._visit(request, "sample", "number", "full", "models")
        page = one_answer(
            visit,
            self._people,
            sample_id,
            repeat or 0,
            full=_is_whole(given),
            every_model=p.one_of(given, "models", ("all",), "") == "all",
        )
        return self._page("answer.html", visit.filters.at, page=page)

    def _image(self, request: Request) -> Response:
        """Send an image as its content says; an address of anything else is not found."""
        shelf = self.library.shelf(p.text(_given(request, "at"), "at"))
        stored = shelf.find(request.path_params["answer_set"])
        images, sha256 = self.library.images(stored.answers), request.path_params["sha256"]
        if sha256 not in images:
            raise NotFoundError(f"No image '{sha256[:80]}' is stored beside '{stored.id}'.")
        image = images.read(sha256)
        return Response(image.content, media_type=image.media_type)

    def _compare_form(self, request: Request) -> Response:
        """Send the form of two chosen answer sets on to their comparison."""
        given = _given(request, "base", "candidate", "at")
        at = p.text(given, "at")
        shelf = self.library.shelf(at)
        chosen = [p.text(given, side) for side in ("base", "candidate")]
        base, candidate = (None if name is None else shelf.find(name).id for name in chosen)
        if base is None or candidate is None:
            raise p.AddressError("base", chosen[0] or "", "chosen, and `candidate` too")
        return RedirectResponse(self._links.comparison(base, candidate, PairFilters(at=at)), 302)

    def _pair_visit(self, request: Request, *others: str) -> PairVisit:
        filters = PairFilters.of(_given(request, *PairFilters.__dataclass_fields__, *others))
        shelf = self.library.shelf(filters.at)
        base, candidate = (shelf.find(request.path_params[side]) for side in ("base", "candidate"))
        return PairVisit(self.library, base, candidate, filters, self._links)

    def _compare(self, request: Request) -> Response:
        visit = self._pair_visit(request)
        page = pair_list(visit, self._pairing)
        return self._page("compare.html", visit.filters.at, page=page)

    def _question(self, request: Request) -> Response:
        given = _listed(request)
        sample_id = p.text(given, "sample")
        if sample_id is None:
            raise NotFoundError("The address of a question names it: `sample=...`.")
        visit = self._pair_visit(request, "sample", "full")
        page = pair_page(visit, self._pairing, sample_id, full=_is_whole(given))
        return self._page("question.html", visit.filters.at, page=page)

    def _health(self, request: Request) -> Response:  # noqa: ARG002 - of a route
        return PlainTextResponse("ok")

    def _page(self, template: str, at: str | None, status: int = 200, **values: object) -> Response:
        uri = self.library.repository.uri
        # The name of a folder is enough for its readers; the whole path is its title.
        html = self._pages.get_template(template).render(
            links=self._links, uri=uri, where=shown_place(uri), at=at, **values
        )
        return HTMLResponse(html, status)

    def _failed(self, request: Request, error: Exception) -> Response:  # noqa: ARG002
        match error:
            case NotFoundError() | RepositoryError():
                status, title = 404, "Not found"
            case DamagedAnswersError():
                status, title = 500, "Damaged answers"
            case HubError():
                status, title = 502, "The Hub does not answer"
            case UserError():
                status, title = 400, "This address cannot be shown"
            case _:
                status, title = 500, "This page cannot be shown"
        return self._page("error.html", None, status, title=title, message=str(error))

    def _refused(self, request: Request, error: Exception) -> Response:  # noqa: ARG002
        status = error.status_code if isinstance(error, HTTPException) else 500
        title = "Not found" if status == 404 else "Not possible"
        message = "This viewer has no such page." if status == 404 else "The viewer only reads."
        return self._page("error.html", None, status, title=title, message=message)


def protected(
    viewer: Viewer, *, origins: Collection[str], hosts: Collection[str], token: str | None
) -> App:
    """Return the application as it is served: only its own pages may use it, with safe headers, and a token if given.

    Args:
        viewer: The pages.
        origins: Origins of its own pages.
        hosts: Names without port under which it is reached.
        token: Token that each request needs; None: none.
    """
    app: App = viewer.application()
    if token is not None:
        app = TokenRequired(app, token)
    return WithHeaders(OwnPagesOnly(app, origins=origins, hosts=hosts), HEADERS)


def _listed(request: Request) -> dict[str, list[str]]:
    return {name: request.query_params.getlist(name) for name in request.query_params}


def _given(request: Request, *known: str) -> dict[str, list[str]]:
    """Return the values in an address by their names, of which those that its page has are `known`.

    Raises:
        UnknownNameError: If there is another one, which would be left out of what is asked.
    """
    for name in request.query_params:
        if name not in known:
            raise UnknownNameError("name in the address", name[:80], known)
    return _listed(request)


def _is_whole(given: p.Parameters) -> bool:
    """Return True if long texts are shown whole."""
    return p.one_of(given, "full", ("yes",), "") == "yes"

"""Addresses of the viewer's pages, below the path of its prefix, and what a reader looks at on them."""

from dataclasses import dataclass
from typing import Any

from regrade.pages.viewer.filters import AnswerFilters, PairFilters
from regrade.pages.viewer.library import Library, Shelf, StoredSet
from regrade.pages.viewer.parameters import PageState
from regrade.settings.view_address import answer_path, comparison_path, pair_path, set_path


@dataclass(frozen=True, slots=True)
class Links:
    """Makes the links on the pages."""

    root: str
    """Path of the prefix, without a slash at the end; empty for none."""

    def home(self, state: PageState | str = "") -> str:
        """Return the address of the list of answer sets."""
        return _with(f"{self.root}/", state)

    def answers(self, answer_set_id: str, filters: AnswerFilters) -> str:
        """Return the address of a list of answers."""
        return _with(f"{self.root}{set_path(answer_set_id)}", filters)

    def answer(
        self,
        answer_set_id: str,
        sample_id: str,
        repeat: int,
        filters: AnswerFilters,
        more: str = "",
    ) -> str:
        """Return the address of one answer in a list, as the filters make it."""
        path = answer_path(answer_set_id, sample_id, repeat)
        return _with(_with(f"{self.root}{path}", filters.but()), more)

    def image(self, answer_set_id: str, sha256: str, revision: str) -> str:
        """Return the address of an image of an answer set's benchmark, at a revision."""
        return f"{self.root}{set_path(answer_set_id)}/image/{sha256}?at={revision}"

    def comparison(self, base: str, candidate: str, filters: PairFilters) -> str:
        """Return the address of a comparison of two answer sets."""
        return _with(f"{self.root}{comparison_path(base, candidate)}", filters)

    def pair(
        self, base: str, candidate: str, sample_id: str, filters: PairFilters, more: str = ""
    ) -> str:
        """Return the address of a question in a comparison."""
        path = pair_path(base, candidate, sample_id)
        return _with(_with(f"{self.root}{path}", filters), more)

    def static(self, name: str) -> str:
        """Return the address of a file for all pages."""
        return f"{self.root}/static/{name}"


@dataclass(frozen=True, slots=True)
class Visit:
    """Answers of a set that pass the filters of an address, at a revision, with the addresses of others."""

    library: Library
    shelf: Shelf
    stored: StoredSet
    filters: AnswerFilters
    links: Links

    def answers(self, **changes: Any) -> str:  # noqa: ANN401 - values of filters
        """Return the address of the list with other filters."""
        return self.links.answers(self.stored.id, self.filters.but(**changes))

    def answer(self, sample_id: str, repeat: int, more: str = "", **changes: Any) -> str:  # noqa: ANN401 - as above
        """Return the address of one answer of the set, with other filters."""
        return self.links.answer(
            self.stored.id, sample_id, repeat, self.filters.but(**changes), more
        )


@dataclass(frozen=True, slots=True)
class PairVisit:
    """Questions of a comparison that pass the filters of an address, with the addresses of others."""

    library: Library
    base: StoredSet
    candidate: StoredSet
    filters: PairFilters
    links: Links

    def questions(self, **changes: Any) -> str:  # noqa: ANN401 - as above
        """Return the address of the comparison with other filters."""
        return self.links.comparison(self.base.id, self.candidate.id, self.filters.but(**changes))

    def question(self, sample_id: str, more: str = "", **changes: Any) -> str:  # noqa: ANN401 - as above
        """Return the address of one of its questions, with other filters."""
        filters = self.filters.but(**changes)
        return self.links.pair(self.base.id, self.candidate.id, sample_id, filters, more)


def _with(path: str, state: PageState | str) -> str:
    query = state if isinstance(state, str) else state.query
    if not query:
        return path
    return f"{path}{'&' if '?' in path else '?'}{query}"

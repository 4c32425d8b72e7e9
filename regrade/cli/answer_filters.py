"""Options that filter the answers of a set."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Annotated, Literal, Self

from cyclopts import Parameter

from regrade.pages.viewer.filters import AnswerFilters
from regrade.pages.viewer.parameters import AddressError
from regrade.pages.viewer.verdicts import VERDICTS
from regrade.settings.errors import SettingsError

NOT_RIGHT = ("partly right", "wrong", "unparsed", "unfinished", "timeout")
UNREAD = ("unparsed", "unfinished")


@contextmanager
def named_as_options() -> Iterator[None]:
    """Name the option in an error that the viewer's filters raise, in place of the part of an address."""
    try:
        yield
    except AddressError as error:
        option = f"--{error.name.replace('_', '-')}"
        raise SettingsError(f"`{option} {error.value}` should be {error.expected}.") from error


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class FilterOptions(AnswerFilters):
    """Filters and order of the answers: those of the viewer, and some that stand for them."""

    wrong: bool = False
    """Only answers that are not right; unparsed ones are wrong too."""
    unparsed: bool = False
    """Only answers from which nothing could be extracted, or whose reasoning never ended."""
    sample: str | None = None
    """Only questions whose id begins with this text."""
    q: Annotated[str | None, Parameter(name="--search")] = None
    """Only with this text in question or answer, ignoring case."""
    against: Annotated[str | None, Parameter(name=("--baseline", "--against"))] = None
    """Only answers whose value differs from that in this answer set (id, model or alias)."""
    scorer: str | None = None
    """Scorer, a function in a file (`path/to/file.py:name`), or a stored scoring; the headline's if not given."""
    format: Annotated[Literal["plain", "markdown"], Parameter(parse=False)] = "plain"
    at: Annotated[str | None, Parameter(parse=False)] = None

    def spelled(self) -> Self:
        """Return the filters with the verdicts that `wrong` and `unparsed` stand for.

        Raises:
            SettingsError: If two options contradict each other.
        """
        if self.change is not None and self.against is None:
            raise SettingsError("`--change` needs `--baseline ANSWER_SET`.")
        verdicts = {*self.verdict}
        for flag, names in ((self.wrong, NOT_RIGHT), (self.unparsed, UNREAD)):
            if flag:
                verdicts = verdicts & {*names} if verdicts else {*names}
        if not verdicts and (self.wrong or self.unparsed or self.verdict):
            raise SettingsError("`--wrong`, `--unparsed` and `--verdict` exclude each other here.")
        return replace(self, verdict=tuple(name for name in VERDICTS if name in verdicts))

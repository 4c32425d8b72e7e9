"""Options that filter the answers of a set."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from typing import Annotated, Any, Literal

from cyclopts import Parameter

from regrade.pages.viewer.filters import AnswerFilters, Within
from regrade.pages.viewer.parameters import AddressError
from regrade.pages.viewer.verdicts import VERDICTS, Verdict
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
class Filters:
    """Filters of the answers, which combine; those of the viewer."""

    wrong: Annotated[
        bool,
        Parameter(
            negative="", help="Only answers that are not right; unparsed ones are wrong too."
        ),
    ] = False
    unparsed: Annotated[
        bool,
        Parameter(
            negative="",
            help="Only answers from which nothing could be extracted, or whose reasoning never ended.",
        ),
    ] = False
    verdict: Annotated[
        tuple[Verdict, ...], Parameter(help="Only this verdict. May be given several times.")
    ] = ()
    truncated: Annotated[
        Literal["yes", "no"] | None,
        Parameter(help="Only answers that end at the limit of tokens, or only the others."),
    ] = None
    subset: Annotated[str | None, Parameter(help="Only this subset.")] = None
    sample: Annotated[
        str | None, Parameter(help="Only questions whose id begins with this text.")
    ] = None
    repeat: Annotated[int | None, Parameter(help="Only this answer to each question, from 0.")] = (
        None
    )
    search: Annotated[
        str | None,
        Parameter(help="Only with this text in question or answer, ignoring case."),
    ] = None
    within: Annotated[Within, Parameter(help="Texts in which `--search` looks.")] = "both"
    min_length: Annotated[
        int | None,
        Parameter(help="Shortest answer, in tokens; in characters if tokens are not known."),
    ] = None
    max_length: Annotated[int | None, Parameter(help="Longest answer, in the same unit.")] = None
    min_seconds: Annotated[float | None, Parameter(help="Least seconds that an answer took.")] = (
        None
    )
    max_seconds: Annotated[float | None, Parameter(help="Most seconds that an answer took.")] = None
    against: Annotated[
        str | None,
        Parameter(
            name=("--baseline", "--against"),
            help="Only answers whose value differs from that in this answer set (id, model or alias).",
        ),
    ] = None
    change: Annotated[
        Literal["worse", "better", "same", "any"] | None,
        Parameter(
            help="With `--baseline`: only this change. `worse` is a lower value than there, `better` a higher one."
        ),
    ] = None

    def of_list(self, **more: Any) -> AnswerFilters:  # noqa: ANN401 - values of the fields
        """Return the filters as the viewer has them, without `sample`.

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
        same = {f.name for f in fields(AnswerFilters)} & {f.name for f in fields(self)}
        chosen = {name: getattr(self, name) for name in same} | {
            "verdict": tuple(name for name in VERDICTS if name in verdicts),
            "truncated": self.truncated or "",
            "q": self.search,
            "change": (self.change or "any") if self.against else "",
        }
        return AnswerFilters(**chosen, **more)

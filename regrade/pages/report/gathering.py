"""Gather what a report shows: answer sets with a scoring, comparisons with a baseline, and chosen answers."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property

from regrade.answers.base import Repository
from regrade.answers.opening import open_repository
from regrade.answers.result import Result
from regrade.answers.scorefile import ScoreFile
from regrade.comparing.likeness import NotComparableError
from regrade.comparing.models import Comparison
from regrade.judging.labels.calibrate import calibrate
from regrade.pages.report.choosing import ChosenAnswer, chosen_answers
from regrade.pages.report.examples import examples_of
from regrade.pages.report.request import MAX_EXAMPLES, ReportRequest
from regrade.pages.viewer.filters import PairFilters
from regrade.pages.viewer.library import Library, Shelf, StoredSet
from regrade.pages.viewer.pair_index import PairIndex, Pairing
from regrade.pages.viewer.settings_apart import settings_apart
from regrade.settings.errors import DamagedAnswersError, SettingsError
from regrade.stats.metrics import SubsetMetrics
from regrade.stats.scale import SHARES, Scale
from regrade.text.blocks import Fold

WORST_SUBSETS = 10
"""Most subsets listed for an answer set: those with the lowest accuracy."""


@dataclass(frozen=True)
class ReportedSet:
    """An answer set of a report."""

    stored: StoredSet
    """Its headline is the chosen scorer's, if one is chosen."""
    apart: dict[str, str]
    """Settings that tell it from the other sets of its benchmark in the report."""
    base: StoredSet | None = None
    pair: PairIndex | None = None
    """Comparison with `base`."""
    refusal: str | None = None
    """Reason why it was not compared with `base`."""

    @property
    def scoring(self) -> ScoreFile | None:
        """The scoring that is shown; None: not scored by the chosen scorer."""
        return self.stored.headline

    @property
    def scale(self) -> Scale:
        """Scale of the scores."""
        return SHARES if self.scoring is None else self.scoring.scale

    @cached_property
    def calibration(self) -> str:
        """Figure corrected by people's labels, or `uncalibrated`; "" without a judge and labels."""
        if self.scoring is None:
            return ""
        found = calibrate(Result(self.stored.answers, self.scoring))
        return "" if found is None else f"by people's labels: {found.text}"

    @property
    def comparison(self) -> Comparison | None:
        """Comparison with the baseline."""
        return None if self.pair is None else self.pair.compared.comparison

    @property
    def subsets(self) -> tuple[SubsetMetrics, ...]:
        """Subsets with an accuracy, the lowest first; none if there is only one."""
        known = [] if self.scoring is None else [*self.scoring.summary.subsets]
        known = [subset for subset in known if subset.metrics.accuracy is not None]
        if len(known) < 2:
            return ()
        return tuple(sorted(known, key=lambda subset: (subset.metrics.accuracy or 0, subset.name)))


@dataclass(frozen=True, slots=True)
class Report:
    """Content of a report."""

    request: ReportRequest
    repository: Repository
    revision: str
    made_at: datetime
    sets: tuple[ReportedSet, ...]
    examples: tuple[Fold, ...]
    available: int
    """Answers of the shown kinds, of which `examples` are a part."""
    left_out: tuple[DamagedAnswersError, ...]
    """Damage of answer sets that a report of all sets leaves out."""

    @property
    def title(self) -> str:
        """Models and benchmarks, and the baseline, in one line."""
        models = dict.fromkeys(item.stored.model for item in self.sets)
        benchmarks = dict.fromkeys(item.stored.benchmark for item in self.sets)
        against = "" if self.request.base is None else f" against {self.request.base}"
        return f"{_some(models)}{against} · {_some(benchmarks)}"


def gather(request: ReportRequest) -> Report:
    """Read everything that a report shows, at the newest commit of the repository.

    Raises:
        RepositoryError: If a repository, or a named answer set, does not exist.
        SettingsError: If no set is scored by `request.scorer`, or no benchmark can be compared.
        DamagedAnswersError: If a named answer set or a baseline is damaged, or all sets are.
    """
    if not 0 <= request.examples <= MAX_EXAMPLES:
        raise SettingsError(
            f"`--examples {request.examples}` should be from 0 to {MAX_EXAMPLES}: a report is one file to read."
        )
    library = Library(open_repository(request.answers, create=False))
    shelf = library.shelf()
    bases = [stored.scored_by(request.scorer) for stored in _bases(request, library, shelf)]
    chosen = [stored.scored_by(request.scorer) for stored in _chosen(request, library, shelf)]
    if not request.names and request.base_answers is None:
        chosen = [stored for stored in chosen if stored.id not in {base.id for base in bases}]
    left_out = () if request.names else shelf.damaged
    while True:
        try:
            return _report(request, library, shelf.revision, bases, chosen, left_out)
        except DamagedAnswersError as error:
            folders = {f"/{stored.manifest.specification.folder}/": stored for stored in chosen}
            damaged = [stored for folder, stored in folders.items() if folder in error.path]
            if request.names or not damaged:
                raise
            left_out = (*left_out, error)
            chosen = [stored for stored in chosen if stored not in damaged]


def _report(
    request: ReportRequest,
    library: Library,
    revision: str,
    bases: Sequence[StoredSet],
    chosen: Sequence[StoredSet],
    left_out: tuple[DamagedAnswersError, ...],
) -> Report:
    if not chosen:
        if left_out:
            raise left_out[0]
        raise SettingsError("There is no answer set beside the baseline: name one.")
    if damaged := [error for stored in chosen for error in stored.damaged]:
        raise damaged[0]
    apart = settings_apart([stored.manifest for stored in chosen])
    pairing = Pairing()
    sets = tuple(
        _reported(stored, settings, bases, len(chosen), request, pairing)
        for stored, settings in zip(chosen, apart, strict=True)
    )
    _check(request, sets)
    choices, available = _choices(request, library, sets)
    return Report(
        request,
        library.repository,
        revision,
        datetime.now(UTC),
        sets,
        tuple(examples_of(library, choices)),
        available,
        left_out,
    )


def _chosen(request: ReportRequest, library: Library, shelf: Shelf) -> list[StoredSet]:
    if not request.names:
        return list(shelf.sets)
    found = [stored for name in request.names for stored in library.named(name, shelf)]
    return list({stored.id: stored for stored in found}.values())


def _bases(request: ReportRequest, library: Library, shelf: Shelf) -> list[StoredSet]:
    if request.base is None:
        return []
    if request.base_answers is not None:
        library = Library(open_repository(request.base_answers, create=False))
        shelf = library.shelf()
    names = request.base_sets or (request.base,)
    return [stored for name in names for stored in library.named(name, shelf)]


def _reported(
    stored: StoredSet,
    apart: dict[str, str],
    bases: Sequence[StoredSet],
    count: int,
    request: ReportRequest,
    pairing: Pairing,
) -> ReportedSet:
    base = _base_of(stored, bases, count)
    if base is None or base.id == stored.id:
        return ReportedSet(stored, apart)
    filters = PairFilters(allow=request.allow, scorer=request.scorer)
    try:
        pair = pairing.of(base, stored, filters)
    except NotComparableError as error:
        return ReportedSet(stored, apart, base, refusal=str(error))
    return ReportedSet(stored, apart, base, pair)


def _base_of(stored: StoredSet, bases: Sequence[StoredSet], count: int) -> StoredSet | None:
    """Return the baseline of a set: the one to the same benchmark, or the only one if there is only one set."""
    for base in bases:
        if base.benchmark == stored.benchmark:
            return base
    return bases[0] if len(bases) == 1 and count == 1 else None


def _check(request: ReportRequest, sets: Sequence[ReportedSet]) -> None:
    unscored = all(item.scoring is None and item.pair is None for item in sets)
    if request.scorer is not None and unscored:
        raise SettingsError(
            f"None of these answer sets has a scoring by '{request.scorer}'. Make it first: "
            f"`regrade score --scorer {request.scorer}`."
        )
    if request.base is not None and all(item.pair is None for item in sets):
        reasons = [item.refusal for item in sets if item.refusal is not None]
        reason = reasons[0] if reasons else "the two sides have no benchmark in common."
        raise SettingsError(f"Nothing can be compared with '{request.base}': {reason}")


def _choices(
    request: ReportRequest, library: Library, sets: Sequence[ReportedSet]
) -> tuple[list[ChosenAnswer], int]:
    if request.examples == 0:
        return [], 0
    indexed = [
        (item.stored, library.index(item.stored, item.scoring), item.base, item.pair)
        for item in sets
    ]
    return chosen_answers(indexed, request.examples)


def _some(names: dict[str, None]) -> str:
    listed = list(names)
    rest = f" and {len(listed) - 3} more" if len(listed) > 3 else ""
    return ", ".join(listed[:3]) + rest

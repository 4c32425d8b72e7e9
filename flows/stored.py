"""Grading what is stored: shared by the flows `score-answers` and `rescore-answers`."""

import logging
from collections.abc import Sequence
from datetime import UTC, date

from flows.scoring import grade
from regrade.answers.opening import open_repository
from regrade.answers.sets import AnswerSet, readable_sets
from regrade.errors import RepositoryError, SettingsError
from regrade.job import default_answers
from regrade.reporting.results import Evaluation
from regrade.scoring.score import stale_scorers

logger = logging.getLogger("regrade.score")


def score_stored(
    answers: str | None,
    *,
    model: str | None = None,
    benchmark: str | None = None,
    answer_set: str | None = None,
    scorer: str | None = None,
    revision: str | None = None,
    since: date | None = None,
    until: date | None = None,
    stale: bool = False,
    force: bool = False,
    intact: bool = False,
    tracking_uri: str | None = None,
) -> Evaluation:
    """Score the answer sets of a repository that fit, all at one pinned commit; `score_answers` says what is what.

    Raises:
        RepositoryError: If there is no such repository, or no answer set that fits.
        SettingsError: If filters contradict each other, or the scorer does not fit.
        DamagedAnswersError: If answers are damaged.
    """
    if since is not None and until is not None and since > until:
        raise SettingsError(f"No day is since {since} and until {until}: exchange the two.")
    if stale and force:
        raise SettingsError(
            "`--force` scores everything anew, `--stale` only what is stale: choose one."
        )
    repository = open_repository(answers or default_answers(), create=False)
    pinned = repository.resolve(revision) if revision else repository.head()
    if pinned is None:
        raise RepositoryError(
            repository.uri, "it holds no answers yet. Generate some with `regrade generate`."
        )
    found, damaged = readable_sets(
        repository, pinned, benchmark=benchmark, model=model, answer_set_id=answer_set
    )
    sets = [one for one in found if _is_between(one, since, until)]
    if not sets and damaged:
        raise damaged[0]
    if not sets:
        raise RepositoryError(
            repository.uri, "no answer set fits. `regrade list` shows what is there."
        )
    names = _stale(sets, scorer) if stale else None
    if names is not None:
        sets = [one for one in sets if one.manifest.answer_set_id in names]
    if not sets:
        logger.info("nothing is stale in %s", repository.uri)
        if damaged:
            raise damaged[0]
        return Evaluation(answer_sets=(), repository=repository.uri)
    return grade(
        sets,
        scorers=(scorer,) if scorer else None,
        force=force,
        tracking_uri=tracking_uri,
        generated={},
        stale=names,
        intact=intact,
        damaged=damaged,
    )


def _stale(sets: Sequence[AnswerSet], scorer: str | None) -> dict[str, tuple[str, ...]]:
    """Return the scorers that are stale by answer set id, without the sets where none is."""
    found = {one.manifest.answer_set_id: stale_scorers(one) for one in sets}
    chosen = {
        key: tuple(name for name in names if scorer in (None, name)) for key, names in found.items()
    }
    return {key: names for key, names in chosen.items() if names}


def _is_between(answers: AnswerSet, since: date | None, until: date | None) -> bool:
    begun = answers.manifest.created_at.astimezone(UTC).date()
    grown = answers.manifest.updated_at.astimezone(UTC).date()
    return (since is None or grown >= since) and (until is None or begun <= until)

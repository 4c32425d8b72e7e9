"""Score stored answers at a pinned revision. Never generates."""

import logging
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import UTC, datetime
from threading import Lock
from time import monotonic
from typing import Protocol, runtime_checkable

import numpy as np
import pyarrow as pa

from regrade.answers.result import Result
from regrade.answers.scorefile import ORIGINAL, ScoreFile, environment_suffix
from regrade.answers.sets import AnswerSet
from regrade.answers.verify import check_rows, intact_part
from regrade.records.columns import SCORING_SCHEMA
from regrade.scorers import load_scorer, method_of, stored_name
from regrade.scorers.base import Scorer
from regrade.scorers.sessions import AnyScorer, ScoringContext, SessionScorer
from regrade.scoring.batches import KNOWN_BY, batches_for, is_known, score_batch
from regrade.scoring.fit import better_scorers
from regrade.scoring.source_hash import source_hash
from regrade.settings import ScoringOptions
from regrade.settings.errors import (
    DamagedAnswersError,
    PluginError,
    SettingsError,
    UnknownNameError,
)
from regrade.stats.estimates import IntArray
from regrade.stats.metrics import Metrics, summarise
from regrade.stats.scale import SHARES, Scale

# Interface of scorers whose values are not shares, such as a judge that grades from 1 to 3.


@runtime_checkable
class ScaledScorer(Protocol):
    """Scorer with its own scale; all others give shares from 0 to 1."""

    def scale(self, context: ScoringContext) -> Scale:
        """Return the scale of the values that the scorer gives these answers."""


# Parts of an answer set that a `SessionScorer` scores at once.

PIECE_ROWS = 256
"""Rows of a part that is not a subset. Progress is shown after each part, and a scorer's processes wait at its end."""


def _pieces(batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[IntArray, pa.RecordBatch]]:
    """Yield rows that follow each other, with their positions, shape (n_rows,), from 0."""
    first = 0
    for batch in batches:
        for start in range(0, batch.num_rows, PIECE_ROWS):
            part = batch.slice(start, PIECE_ROWS)
            yield np.arange(first, first + part.num_rows), part
            first += part.num_rows


def _subsets(batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[IntArray, pa.RecordBatch]]:
    """Yield all rows of each subset, with their positions; keeps all subsets in memory.

    Raises:
        SettingsError: If a subset is too large for one part.
    """
    kept = list(batches)
    if not kept:
        return
    table = pa.Table.from_batches(kept)
    codes = table["subset"].combine_chunks().dictionary_encode()
    for code, subset in enumerate(codes.dictionary.to_pylist()):
        positions = np.flatnonzero(codes.indices.to_numpy() == code)
        parts = table.take(positions).combine_chunks().to_batches()
        if len(parts) > 1:
            raise SettingsError(
                f"Subset '{subset}' holds more than 2 GiB of text, which its scorer cannot read at once."
            )
        yield positions, parts[0]


logger = logging.getLogger("regrade.score")
N_THREADS = 2
"""Scoring threads: Arrow and RE2 release the interpreter lock; more threads would only wait for the reader."""


ONE_AT_A_TIME = Lock()
"""Answer sets are scored in several threads; a `SessionScorer` uses all cores for one of them."""
OnScored = Callable[[int, int], None]
"""Called with the number of rows scored so far, and of all rows."""


def label_of(scorer: str, options: ScoringOptions | None = None) -> str:
    """Return the label of a scoring with the current version of a scorer; see `ScoreFile.label`.

    Raises:
        SettingsError: If the scorer cannot run here.
    """
    environment = _environment(load_scorer(scorer), options or ScoringOptions())
    return f"{code_label(scorer)}{environment_suffix(environment)}"


def check_scorers(names: Sequence[str], options: ScoringOptions | None) -> None:
    """Refuse scorers that cannot run here, before answers for them are generated.

    Raises:
        UserError: If a scorer is not installed, or lacks a package or a sandbox.
    """
    for name in names:
        label_of(name, options)


def code_label(scorer: str) -> str:
    """Return `<scorer>-<version>-<hash>` of the current version of a scorer."""
    scorer = stored_name(scorer)
    return f"{scorer}-{load_scorer(scorer).version}-{source_hash(scorer)}"


def label_now(scorer: str) -> str | None:
    """Return `code_label(scorer)`, or None if the scorer is not installed or cannot be used."""
    try:
        return code_label(scorer)
    except (UnknownNameError, PluginError):
        return None


def is_stale(file: ScoreFile, answers: AnswerSet) -> bool:
    """Return True if a scoring is by an older version of its scorer, or lacks answers of the answer set.

    A scoring by a scorer that is not installed does not count as older, and neither does one in another environment, such
    as another sandbox: it says where it was made.
    """
    older = label_now(file.scorer) not in (None, file.code_label)
    return older or bool(file.left_out) or set(file.answers) != {*answers.hashes}


def counts_missing_as_wrong(file: ScoreFile, answers: AnswerSet) -> bool:
    """Return True if a scoring counts rows without an answer as unparsed, as earlier versions did by the same scorer.

    It reads what tells if they are known, and only if the scoring has unparsed ones of a kind among which such rows can be: imported,
    or ranked choices.
    """
    specification, overall = answers.manifest.specification, file.summary.overall
    may_lack = specification.model.kind == "imported" or specification.method == "rank"
    if not overall.unparsed or not may_lack:
        return False
    columns = load_scorer(file.scorer).columns
    read = [name for name in KNOWN_BY if name in (*columns, "error")]
    missing = 0
    with suppress(DamagedAnswersError):  # told where the answers are scored
        for batch in answers.batches(read):
            missing += int(
                (~is_known(batch, columns) | np.asarray(batch["error"].is_valid())).sum()
            )
    return missing > overall.failed


def stale_scorers(
    answers: AnswerSet, on_unknown: Callable[[str], object] = lambda _: None
) -> tuple[str, ...]:
    """Return the scorers whose stored scorings of an answer set are all stale.

    Args:
        answers: The answer set.
        on_unknown: Called with each scorer that cannot be used here, of which nothing can be told: of a function in a file, only the
            name is stored.

    Raises:
        DamagedAnswersError: If a scoring or answers are damaged.
    """
    scored = [file for file in answers.scores() if file.scorer != ORIGINAL]
    files = [file for file in scored if label_now(file.scorer)]
    for name in {file.scorer for file in scored} - {file.scorer for file in files}:
        on_unknown(name)
    current = {
        file.scorer
        for file in files
        if not is_stale(file, answers) and not counts_missing_as_wrong(file, answers)
    }
    return tuple(dict.fromkeys(file.scorer for file in files if file.scorer not in current))


def score_answers(
    answers: AnswerSet,
    scorer_name: str,
    *,
    force: bool = False,
    intact: bool = False,
    options: ScoringOptions | None = None,
    on_scored: OnScored | None = None,
) -> Result:
    """Score an answer set, unless the current version of the scorer has scored the same answers before and they are still there.

    A new scoring is not stored; its result has a table.

    Args:
        answers: Answer set at a pinned revision.
        scorer_name: Name of an installed scorer, or `path/to/file.py:name`.
        force: Score again even then.
        intact: Leave damaged shards out instead of raising an error. If shards are left out, the label says so and the
            scoring counts as stale.
        options: How scorers run that need processes or a sandbox.
        on_scored: Told about the progress of such scorers; the others take seconds.

    Raises:
        UnknownNameError: If the scorer is not installed.
        PluginError: If the scorer is installed but cannot be used.
        SettingsError: If the scorer cannot compare with the targets of these answers, or cannot run here.
        DamagedAnswersError: If the answers do not match their manifest.
    """
    scorer_name = stored_name(scorer_name)
    options = options or ScoringOptions()
    label = label_of(scorer_name, options)
    if not force:
        for file in answers.intact_scores():  # scoring refuses damaged answers, or leaves them out
            is_same = file.label == label and not is_stale(file, answers)
            if is_same and not counts_missing_as_wrong(file, answers):
                return Result(answers, file)
    scorer = load_scorer(scorer_name)
    specification = answers.manifest.specification
    if method_of(scorer) == "rank" and specification.method != "rank":
        raise SettingsError(
            f"Scorer '{scorer_name}' compares log-probabilities, but answer set "
            f"'{answers.manifest.answer_set_id}' ({specification.benchmark.name}) holds generated text. "
            "Choose another scorer with `--scorer`."
        )
    started = monotonic()
    scored, left_out = _without_damaged(answers) if intact else (answers, ())
    context = ScoringContext(options, specification)
    if isinstance(scorer, SessionScorer):
        table = _session_scores(scored, scorer, context, on_scored)
        aggregates = tuple(scorer.aggregates(table, context))
    else:
        table = pa.Table.from_batches(_scores(scored, scorer), schema=SCORING_SCHEMA)
        aggregates = ()
    check_rows(scored, table)
    votes = scorer.votes if isinstance(scorer, SessionScorer) else True
    passes = bool(getattr(scorer, "passes", True))
    scale = scorer.scale(context) if isinstance(scorer, ScaledScorer) else SHARES
    summary = summarise(table, answers.manifest.groups, votes=votes, passes=passes, scale=scale)
    file = ScoreFile(
        answer_set_id=answers.manifest.answer_set_id,
        scorer=scorer_name,
        version=scorer.version,
        source_hash=source_hash(scorer_name),
        environment=_environment(scorer, options),
        answers_revision=answers.revision,
        answers=scored.hashes,
        left_out=left_out,
        better_scorers=better_scorers(scored, scorer_name, summary.overall),
        low_coverage=_low_coverage(scorer, summary.overall, options),
        scale=scale,
        summary=summary,
        aggregates=aggregates,
        scored_at=datetime.now(UTC),
        score_seconds=monotonic() - started,
    )
    return Result(answers, file, table)


def _without_damaged(answers: AnswerSet) -> tuple[AnswerSet, tuple[str, ...]]:
    """Return the answer set without damaged shards, and the names of the damaged shards.

    Raises:
        DamagedAnswersError: If no shard is left.
    """
    kept, problems = intact_part(answers)
    if problems and not kept.manifest.shards:
        raise DamagedAnswersError(problems[0].path, problems[0].problem)
    for problem in problems:
        logger.warning("left out: %s: %s", problem.path, problem.problem)
    intact = {shard.name for shard in kept.manifest.shards}
    names = [shard.name for shard in answers.manifest.shards]
    return kept, tuple(name for name in names if name not in intact)


def _low_coverage(scorer: AnyScorer, overall: Metrics, options: ScoringOptions) -> float | None:
    """Return the share of rows with a value if it is below the floor of a scorer that has one."""
    if not getattr(scorer, "needs_coverage", False):
        return None
    coverage = overall.n / overall.rows if overall.rows else 0.0
    return coverage if coverage < options.min_coverage else None


def _environment(scorer: AnyScorer, options: ScoringOptions) -> dict[str, str]:
    return dict(scorer.environment(options)) if isinstance(scorer, SessionScorer) else {}


def _scores(answers: AnswerSet, scorer: Scorer) -> Iterator[pa.RecordBatch]:
    with ThreadPoolExecutor(N_THREADS) as pool:
        pending = []
        for batch in batches_for(answers, scorer):
            pending.append(pool.submit(score_batch, scorer.score, scorer.columns, batch))
            if len(pending) > 2 * N_THREADS:  # bounds memory
                yield pending.pop(0).result()
        for future in pending:
            yield future.result()


def _session_scores(
    answers: AnswerSet, scorer: SessionScorer, context: ScoringContext, on_scored: OnScored | None
) -> pa.Table:
    """Return the scores in the order of the answers."""
    rows, positions, scores = answers.manifest.rows, [], []
    done = 0
    parts = _pieces if scorer.unit == "rows" else _subsets
    with ONE_AT_A_TIME, scorer.session(context) as score:
        for position, batch in parts(batches_for(answers, scorer)):
            scores.append(score_batch(score, scorer.columns, batch, scorer.unit))
            positions.append(position)
            done += batch.num_rows
            if on_scored is not None:
                on_scored(done, rows)
    table = pa.Table.from_batches(scores, schema=SCORING_SCHEMA)
    return table.take(np.argsort(np.concatenate(positions))) if positions else table


def latency_percentiles(answers: AnswerSet) -> dict[str, float]:
    """Return percentiles of latency and time to first token in seconds; empty if none were recorded."""
    percentiles: dict[str, float] = {}
    batches = list(answers.batches(["latency", "time_to_first_token"]))
    for name in ("latency", "time_to_first_token"):
        columns = (batch[name].drop_null().to_numpy(zero_copy_only=False) for batch in batches)
        values = np.concatenate([np.empty(0), *columns])
        if values.size:
            levels = np.percentile(values, [50, 90, 99])
            percentiles.update(
                {f"{name}_p{p}": float(v) for p, v in zip((50, 90, 99), levels, strict=True)}
            )
    return percentiles

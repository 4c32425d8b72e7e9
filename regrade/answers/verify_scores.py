"""Verify the scorings of an answer set: their rows, and the metrics that follow from them."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence

import pyarrow as pa

from regrade.answers.problems import Problem, Verified
from regrade.answers.scorefile import ScoreFile
from regrade.answers.sets import AnswerSet
from regrade.columns import KEYS
from regrade.errors import DamagedAnswersError
from regrade.stats.metrics import summarise

_COUNTS = {"unfinished": "unfinished", "timeout": "timeouts"}
"""Fields of `Metrics` that a later version added, by the prefix of all fields about them."""


def verify_scores(answers: AnswerSet, intact: AnswerSet, verified: Verified) -> None:
    """Add the problems of all scorings of an answer set.

    Args:
        answers: The answer set.
        intact: The same, reduced to its intact shards.
        verified: Receives counts and problems.
    """
    files = answers.repository.files(answers.revision, answers.scores_folder)
    for path, file in sorted(files.items()):
        stem, _, suffix = path.rpartition(".")
        if suffix == "json":
            verified.scorings += 1
            try:
                record = answers.score_file(file)
                problems = list(_score_problems(answers, intact, record))
            except DamagedAnswersError as error:
                problems = [Problem(path, error.problem)]
            verified.problems += problems
        elif suffix != "parquet":
            verified.problems.append(Problem(path, "it is not the file of a scoring."))
        elif f"{stem}.json" not in files:
            verified.problems.append(Problem(path, "the scoring has no JSON file."))


def _differences(
    recorded: object, computed: object, where: str = ""
) -> Iterator[tuple[str, object, object]]:
    """Yield the places in which two summaries differ, with both values; floats to 9 digits after the point."""
    pairs: Iterable[tuple[object, object, object]] = ()
    if isinstance(recorded, Mapping) and isinstance(computed, Mapping):
        names = dict.fromkeys([*recorded, *computed])
        later = [  # counts that scorings of earlier versions do not have
            prefix
            for prefix in ("unfinished", "timeout")
            if recorded.get(_COUNTS[prefix], 0) is None
        ]
        pairs = (
            (name, recorded.get(name), computed.get(name))
            for name in names
            if not str(name).startswith(tuple(later))
        )
    elif (
        isinstance(recorded, Sequence)
        and isinstance(computed, Sequence)
        and not isinstance(recorded, str)
        and len(recorded) == len(computed)
    ):
        pairs = zip(range(len(recorded)), recorded, computed, strict=True)
    elif isinstance(recorded, float) and isinstance(computed, float):
        if not math.isclose(recorded, computed, rel_tol=0, abs_tol=1e-9):
            yield where, recorded, computed
        return
    elif recorded != computed:
        yield where, recorded, computed
    for name, stored, given in pairs:
        yield from _differences(stored, given, f"{where}.{name}" if where else str(name))


def _score_problems(answers: AnswerSet, intact: AnswerSet, record: ScoreFile) -> Iterator[Problem]:
    stem = f"{answers.scores_folder}/{record.label}"
    try:
        table = answers.score_table(record.label)
    except DamagedAnswersError as error:
        yield Problem(f"{stem}.parquet", error.problem)
        return
    known = {shard.sha256 for shard in answers.manifest.shards}
    if unknown := set(record.answers) - known - set(answers.manifest.replaced):
        yield Problem(
            f"{stem}.json", f"the scored shard {min(unknown)[:8]} is not in the manifest."
        )
        return
    if not known.issuperset(record.answers):
        return  # the rows that were scored are only at older revisions
    scored = answers.only(record.answers)
    if table.num_rows != scored.manifest.rows:
        yield Problem(
            f"{stem}.parquet",
            f"it has {table.num_rows:,} rows, the scored shards have {scored.manifest.rows:,}.",
        )
        return
    votes = record.summary.majority_samples is not None
    passes = votes or bool(record.summary.pass_at)
    computed = summarise(
        table, answers.manifest.groups, votes=votes, passes=passes, scale=record.scale
    ).model_dump()
    recorded = record.summary.model_dump()
    if record.summary.samples is None:  # stored before all metrics were defined as they are now
        names = ("n", "unparsed", "accuracy")
        recorded, computed = (
            {name: summary["overall"][name] for name in names} for summary in (recorded, computed)
        )
    difference = next(_differences(recorded, computed), None)
    if difference is not None:
        where, stored, given = difference
        yield Problem(f"{stem}.json", f"its {where} is {stored}, its rows give {given}.")
    if {s.sha256 for s in scored.manifest.shards} <= {s.sha256 for s in intact.manifest.shards}:
        keys = table.select(list(KEYS))
        if not pa.Table.from_batches(scored.batches(KEYS), keys.schema).equals(keys):
            yield Problem(f"{stem}.parquet", "its rows do not match the scored answers.")

"""What changed between two scorings of the same answers: the scorer, since the answers and the model did not."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict

from regrade.answers.scorefile import ScoreFile
from regrade.answers.sets import AnswerSet
from regrade.errors import DamagedAnswersError, SettingsError
from regrade.stats.estimates import FloatArray, IntArray
from regrade.stats.metrics import score_values
from regrade.stats.paired import PairedDifference, paired_difference

SHOWN = ("sample_id", "repeat", "prompt", "target", "text", "reasoning")
Mask = NDArray[np.bool_]


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True)


class Side(_Part):
    """One of the two scorings."""

    label: str
    scorer: str
    version: int
    source_hash: str
    stored: bool
    """Whether it is kept in the repository; otherwise it was made for this comparison."""
    scored_at: str
    accuracy: float | None
    n: int
    unparsed: int
    failed: int

    @property
    def title(self) -> str:
        """Scorer, version and source as people read them."""
        return f"{self.scorer} v{self.version} {self.source_hash}"


class Changes(_Part):
    """How many answers changed, and how; with the change of the mean."""

    right_to_wrong: int
    wrong_to_right: int
    newly_parsed: int
    """Nothing was read before, something is now, right or wrong."""
    newly_unparsed: int
    read_differently: int
    """Something was read before and now, but not the same; of these some changed from right to wrong or back."""
    before: float | None
    """Mean over the answers that have a value on both sides."""
    after: float | None
    difference: float | None
    """`after - before`, as are `low` and `high`, the ends of its paired 95 % interval."""
    stderr: float | None
    low: float | None
    high: float | None
    n: int
    samples: int


class SubsetChanges(_Part):
    """Changes in one subset."""

    name: str
    changes: Changes


class Example(_Part):
    """One answer that is graded differently now."""

    kind: str
    """`right to wrong`, `wrong to right`, `newly parsed` or `newly unparsed`."""
    sample_id: str
    repeat: int
    subset: str
    prompt: str
    text: str | None
    target: str
    extracted_before: str | None
    extracted_after: str | None


class Diff(_Part):
    """Two scorings of the same answers, compared row by row."""

    answer_set_id: str
    benchmark: str
    model: str
    repository: str
    revision: str
    rows: int
    before: Side
    after: Side
    overall: Changes
    subsets: tuple[SubsetChanges, ...]
    """Those in which something changed, by name; empty where there are no subsets."""
    examples: tuple[Example, ...]


def compare(
    answers: AnswerSet,
    before: tuple[ScoreFile, pa.Table],
    after: tuple[ScoreFile, pa.Table],
    *,
    stored: tuple[bool, bool] = (True, True),
    subset: str | None = None,
    examples: int = 3,
) -> Diff:
    """Compare two scorings of the same answers.

    Args:
        answers: The answer set, at the revision to read examples from.
        before: What is kept of the older scoring, and its table.
        after: The same of the newer one.
        stored: Whether each of them is kept in the repository.
        subset: Only answers of this subset.
        examples: Of each kind of change, at most this many are read.

    Raises:
        SettingsError: If they scored different answers, or there is no such subset.
        DamagedAnswersError: If a table of scores is not of the answers that it says it is of.
    """
    _check_same_answers(answers, before[0], after[0])
    rows = _aligned(answers, before, after)
    if subset is not None:
        chosen = np.asarray(rows.subset == subset)
        if not chosen.any():
            known = ", ".join(f"'{name}'" for name in sorted(set(rows.subset))[:20])
            raise SettingsError(f"There is no subset '{subset}' in these answers. Known: {known}.")
    else:
        chosen = np.ones(len(rows.subset), np.bool_)
    specified = answers.manifest.specification
    return Diff(
        answer_set_id=answers.manifest.answer_set_id,
        benchmark=specified.benchmark.name,
        model=specified.model.name,
        repository=answers.repository.uri,
        revision=answers.revision,
        rows=int(chosen.sum()),
        before=_side(before[0], stored[0]),
        after=_side(after[0], stored[1]),
        overall=rows.changes(chosen),
        subsets=tuple(rows.by_subset(chosen)),
        examples=tuple(_examples(answers.only(before[0].answers), rows, chosen, examples)),
    )


def _check_same_answers(answers: AnswerSet, before: ScoreFile, after: ScoreFile) -> None:
    if set(before.answers) != set(after.answers):
        raise SettingsError(
            f"'{before.label}' scored {len(before.answers)} shards of answer set "
            f"'{answers.manifest.answer_set_id}', '{after.label}' scored {len(after.answers)} others. Only "
            "scorings of the same answers are compared; score again with `regrade score`."
        )


class _Rows:
    """The rows of both scorings side by side, in the order of the stored answers."""

    def __init__(self, before: pa.Table, after: pa.Table) -> None:
        self.tables = before, after
        self.subset = _strings(before, "subset")
        encoded = before["sample_id"].combine_chunks().dictionary_encode()
        self.sample: IntArray = encoded.indices.to_numpy().astype(np.int64)
        self.value: tuple[FloatArray, FloatArray] = (score_values(before), score_values(after))
        unparsed = tuple(_strings(table, "outcome") == "unparsed" for table in self.tables)
        failed = tuple(np.isnan(value) for value in self.value)
        right = tuple(value == 1 for value in self.value)
        extracted = tuple(_strings(table, "extracted") for table in self.tables)
        either = ~(failed[0] | failed[1])
        both_read = either & ~unparsed[0] & ~unparsed[1]
        self.kinds: dict[str, Mask] = {
            "right to wrong": either & right[0] & ~right[1],
            "wrong to right": either & ~right[0] & right[1],
            "newly parsed": either & unparsed[0] & ~unparsed[1],
            "newly unparsed": either & ~unparsed[0] & unparsed[1],
        }
        self.read_differently: Mask = both_read & np.asarray(extracted[0] != extracted[1], np.bool_)

    def changes(self, chosen: Mask) -> Changes:
        counts = {
            name.replace(" ", "_"): int((mask & chosen).sum()) for name, mask in self.kinds.items()
        }
        paired: PairedDifference = paired_difference(
            self.value[0][chosen], self.value[1][chosen], self.sample[chosen]
        )
        different = int((self.read_differently & chosen).sum())
        return Changes(**counts, read_differently=different, **asdict(paired))

    def by_subset(self, chosen: Mask) -> list[SubsetChanges]:
        changed = np.any([*self.kinds.values(), self.read_differently], axis=0) & chosen
        names = sorted(set(self.subset[changed]) - {""})
        return [
            SubsetChanges(name=name, changes=self.changes(chosen & (self.subset == name)))
            for name in names
        ]


def _aligned(
    answers: AnswerSet, before: tuple[ScoreFile, pa.Table], after: tuple[ScoreFile, pa.Table]
) -> _Rows:
    keys = ["sample_id", "repeat"]
    if before[1].select(keys).equals(after[1].select(keys)):
        return _Rows(before[1], after[1])
    path = f"{answers.scores_folder}/{before[0].label}.parquet"
    raise DamagedAnswersError(
        path,
        f"its rows are not those of '{after[0].label}', though both say that they are of the same shards. "
        "`regrade verify` tells which is wrong.",
    )


def _examples(answers: AnswerSet, rows: _Rows, chosen: Mask, count: int) -> list[Example]:
    """Return the first few changes of each kind; only shards that hold one are read."""
    wanted: dict[int, str] = {}
    for kind, mask in rows.kinds.items():
        for row in np.flatnonzero(mask & chosen)[:count]:
            wanted.setdefault(int(row), kind)
    found: list[Example] = []
    start = 0
    for shard in answers.manifest.shards:
        here = [row for row in wanted if start <= row < start + shard.rows]
        if here:
            for row, stored in _stored_rows(answers, shard.sha256, start, here):
                found.append(_example(rows, row, wanted[row], stored))
        start += shard.rows
    order = list(rows.kinds)
    return sorted(found, key=lambda example: order.index(example.kind))


def _stored_rows(
    answers: AnswerSet, sha256: str, start: int, rows: Sequence[int]
) -> list[tuple[int, dict[str, Any]]]:
    found: list[tuple[int, dict[str, Any]]] = []
    for batch in answers.only({sha256}).batches(SHOWN):
        here = sorted(row for row in rows if start <= row < start + batch.num_rows)
        taken = batch.take(pa.array([row - start for row in here], pa.int64()))
        found.extend(zip(here, taken.to_pylist(), strict=True))
        start += batch.num_rows
    return found


def _example(rows: _Rows, row: int, kind: str, stored: dict[str, Any]) -> Example:
    before, after = (table["extracted"][row].as_py() for table in rows.tables)
    return Example(
        kind=kind,
        sample_id=stored["sample_id"],
        repeat=stored["repeat"],
        subset=str(rows.subset[row]),
        prompt=stored["prompt"],
        text=stored["text"],
        target=stored["target"],
        extracted_before=before,
        extracted_after=after,
    )


def _side(file: ScoreFile, stored: bool) -> Side:
    overall = file.summary.overall
    return Side(
        label=file.label,
        scorer=file.scorer,
        version=file.version,
        source_hash=file.source_hash,
        stored=stored,
        scored_at=file.scored_at.isoformat(timespec="seconds"),
        accuracy=overall.accuracy,
        n=overall.n,
        unparsed=overall.unparsed,
        failed=overall.failed,
    )


def _strings(table: pa.Table, column: str) -> NDArray[np.object_]:
    found: NDArray[np.object_] = table[column].to_numpy()
    return found

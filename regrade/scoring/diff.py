"""Compare two scorings of the same answers: only the scorer differs, the answers and the model do not."""

from dataclasses import asdict
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict

from regrade.answers.scorefile import ScoreFile
from regrade.answers.sets import AnswerSet
from regrade.records.columns import KEYS
from regrade.records.messages import asked
from regrade.scoring.batches import stored_rows
from regrade.settings.errors import DamagedAnswersError, SettingsError
from regrade.settings.turn_ids import question_numbers
from regrade.stats.estimates import FloatArray, IntArray
from regrade.stats.metrics import score_values
from regrade.stats.paired import MeanDifference, paired_difference
from regrade.stats.scale import SHARES, Scale

COLUMNS = (*KEYS, "question", "prompt", "target", "text", "reasoning")
Mask = NDArray[np.bool_]


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True)


class ScoringSide(_Part):
    """One of the two scorings."""

    label: str
    scorer: str
    version: int
    source_hash: str
    stored: bool
    """Stored in the repository; otherwise computed for this comparison."""
    scored_at: str
    accuracy: float | None
    n: int
    unparsed: int
    failed: int

    @property
    def title(self) -> str:
        """Scorer, version and source hash, for display."""
        return f"{self.scorer} v{self.version} {self.source_hash}"


class Changes(_Part):
    """Numbers of changed answers by kind, and the change of the mean."""

    right_to_wrong: int
    wrong_to_right: int
    value_rose: int
    """Values that are higher now, of grades such as 0.5 too; those from wrong to right are among them."""
    value_fell: int
    """Values that are lower now; those from right to wrong are among them."""
    newly_parsed: int
    """Unparsed before, parsed now, right or wrong."""
    newly_unparsed: int
    newly_scored: int
    """Without a value before, such as answers at which the scorer failed, and with one now; in none of the means."""
    no_longer_scored: int
    """With a value before, and without one now; in none of the means."""
    read_differently: int
    """Parsed before and now, with different extracted answers; may also be right to wrong or wrong to right."""
    before: float | None
    """Mean over the answers with a value on both sides; None if there are none."""
    after: float | None
    difference: float | None
    """`after - before`; `low` and `high` are the ends of its paired 95 % interval."""
    stderr: float | None
    low: float | None
    high: float | None
    n: int
    samples: int

    @property
    def is_graded(self) -> bool:
        """True if values moved that are neither right before nor right now."""
        crossed = self.wrong_to_right, self.right_to_wrong
        return (self.value_rose, self.value_fell) != crossed


class SubsetChanges(_Part):
    """Changes in one subset."""

    name: str
    changes: Changes


class ChangedExample(_Part):
    """An answer whose score changed."""

    kind: str
    """`right to wrong`, `wrong to right`, `value fell`, `value rose`, `newly parsed`, `newly unparsed`, `newly scored` or `no longer
    scored`: the first that fits."""
    sample_id: str
    repeat: int
    subset: str
    prompt: str | None
    """The question where no prompt is stored; None for imported answers with neither."""
    text: str | None
    target: str | None
    """None for imported answers without a right answer."""
    extracted_before: str | None
    extracted_after: str | None
    value_before: float | None
    """On the scale of the scores; None without a value."""
    value_after: float | None


class Diff(_Part):
    """Two scorings of the same answers, compared row by row."""

    answer_set_id: str
    benchmark: str
    model: str
    repository: str
    revision: str
    rows: int
    scale: Scale = SHARES
    """Scale of the scores; means and differences are in its unit."""
    before: ScoringSide
    after: ScoringSide
    overall: Changes
    subsets: tuple[SubsetChanges, ...]
    """Subsets with a change, sorted by name; empty if the benchmark has no subsets."""
    examples: tuple[ChangedExample, ...]


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
        before: Metadata and score table of the older scoring.
        after: Metadata and score table of the newer scoring.
        stored: Before and after: stored in the repository, or computed for this comparison.
        subset: Subset to compare. None: all answers.
        examples: Largest number of examples of each kind of change.

    Raises:
        SettingsError: If the scorings are of different answers, or the subset does not exist.
        DamagedAnswersError: If a score table does not match the answers that its metadata names.
    """
    if set(before[0].answers) != set(after[0].answers):
        raise SettingsError(
            f"'{before[0].label}' scored {len(before[0].answers)} shards of answer set "
            f"'{answers.manifest.answer_set_id}', '{after[0].label}' scored {len(after[0].answers)} others. Both should "
            "be of the same answers: score them again with `regrade score`."
        )
    if before[0].scale != after[0].scale:
        raise SettingsError(
            f"'{before[0].label}' and '{after[0].label}' have different scales, which cannot be compared."
        )
    if not before[1].select(list(KEYS)).equals(after[1].select(list(KEYS))):
        path = f"{answers.scores_folder}/{before[0].label}.parquet"
        raise DamagedAnswersError(
            path,
            f"its rows differ from those of '{after[0].label}', although both name the same shards. `regrade verify` "
            "reports which file is damaged.",
        )
    rows = _Rows(before[1], after[1], before[0].scale)
    if subset is not None:
        chosen = np.asarray(rows.subset == subset)
        if not chosen.any():
            known = ", ".join(f"'{name}'" for name in sorted(set(rows.subset))[:20])
            raise SettingsError(f"These answers have no subset '{subset}'. Known: {known}.")
    else:
        chosen = np.ones(len(rows.subset), np.bool_)
    specification = answers.manifest.specification
    return Diff(
        answer_set_id=answers.manifest.answer_set_id,
        benchmark=specification.benchmark.name,
        model=specification.model.name,
        repository=answers.repository.uri,
        revision=answers.revision,
        rows=int(chosen.sum()),
        scale=before[0].scale,
        before=_side(before[0], stored[0]),
        after=_side(after[0], stored[1]),
        overall=rows.changes(chosen),
        subsets=tuple(rows.by_subset(chosen)),
        examples=tuple(_examples(answers, before[0], rows, chosen, examples)),
    )


class _Rows:
    """Rows of both scorings, in the order of the stored answers."""

    def __init__(self, before: pa.Table, after: pa.Table, scale: Scale) -> None:
        self.tables = before, after
        self.scale = scale
        self.subset = _strings(before, "subset")
        encoded = before["sample_id"].combine_chunks().dictionary_encode()
        ids = map(str, encoded.dictionary.to_pylist())
        question = np.array(question_numbers(ids), np.int64)
        self.question: IntArray = question[encoded.indices.to_numpy()]
        self.value: tuple[FloatArray, FloatArray] = (
            scale.shares(score_values(before)),
            scale.shares(score_values(after)),
        )
        outcomes = (_strings(before, "outcome"), _strings(after, "outcome"))
        unparsed = tuple((o == "unparsed") | (o == "unfinished") for o in outcomes)
        failed = tuple(np.isnan(value) for value in self.value)
        right = tuple(value == 1 for value in self.value)
        extracted = tuple(_strings(table, "extracted") for table in self.tables)
        valued = ~(failed[0] | failed[1])
        parsed = valued & ~unparsed[0] & ~unparsed[1]
        self.kinds: dict[str, Mask] = {
            "right to wrong": valued & right[0] & ~right[1],
            "wrong to right": valued & ~right[0] & right[1],
            "value fell": valued & (self.value[1] < self.value[0]),
            "value rose": valued & (self.value[1] > self.value[0]),
            "newly parsed": valued & unparsed[0] & ~unparsed[1],
            "newly unparsed": valued & ~unparsed[0] & unparsed[1],
            "newly scored": failed[0] & ~failed[1],
            "no longer scored": ~failed[0] & failed[1],
        }
        self.read_differently: Mask = parsed & np.asarray(extracted[0] != extracted[1], np.bool_)

    def changes(self, chosen: Mask) -> Changes:
        counts = {
            name.replace(" ", "_"): int((mask & chosen).sum()) for name, mask in self.kinds.items()
        }
        paired: MeanDifference = paired_difference(
            self.value[0][chosen], self.value[1][chosen], self.question[chosen]
        )
        numbers = asdict(paired)
        for name in ("before", "after"):
            numbers[name] = self.scale.value_of(numbers[name])
        for name in ("difference", "stderr", "low", "high"):
            numbers[name] = numbers[name] and self.scale.span * numbers[name]
        different = int((self.read_differently & chosen).sum())
        return Changes(**counts, read_differently=different, **numbers)

    def by_subset(self, chosen: Mask) -> list[SubsetChanges]:
        changed = np.any([*self.kinds.values(), self.read_differently], axis=0) & chosen
        names = sorted(set(self.subset[changed]) - {""})
        return [
            SubsetChanges(name=name, changes=self.changes(chosen & (self.subset == name)))
            for name in names
        ]


def _examples(
    answers: AnswerSet, file: ScoreFile, rows: _Rows, chosen: Mask, count: int
) -> list[ChangedExample]:
    """Return the first `count` changes of each kind; none if some of the scored answers are only at older revisions."""
    scored = answers.only(file.answers)
    if len(scored.manifest.shards) < len(file.answers):
        return []
    kinds: dict[int, str] = {}
    crossed = rows.kinds["right to wrong"] | rows.kinds["wrong to right"]
    for kind, mask in rows.kinds.items():
        left = chosen & ~crossed if kind.startswith("value") else chosen
        for row in np.flatnonzero(mask & left)[:count]:
            kinds.setdefault(int(row), kind)
    numbers = sorted(kinds)
    stored = stored_rows(scored, numbers, COLUMNS)
    keys = rows.tables[0].select(list(KEYS)).take(pa.array(numbers, pa.int64())).to_pylist()
    if keys != [{name: row[name] for name in KEYS} for row in stored]:
        raise answers.other_rows(file)
    examples = [
        _example(rows, number, kinds[number], answers.public(row))
        for number, row in zip(numbers, stored, strict=True)
    ]
    order = list(rows.kinds)
    return sorted(examples, key=lambda example: order.index(example.kind))


def _example(rows: _Rows, row: int, kind: str, stored: dict[str, Any]) -> ChangedExample:
    before, after = (table["extracted"][row].as_py() for table in rows.tables)
    values = (float(value[row]) for value in rows.value)
    lower, later = (None if np.isnan(v) else rows.scale.value_of(v) for v in values)
    return ChangedExample(
        kind=kind,
        sample_id=stored["sample_id"],
        repeat=stored["repeat"],
        subset=str(rows.subset[row]),
        prompt=asked(stored),
        text=stored["text"],
        target=stored["target"],
        extracted_before=before,
        extracted_after=after,
        value_before=lower,
        value_after=later,
    )


def _side(file: ScoreFile, stored: bool) -> ScoringSide:
    overall = file.summary.overall
    return ScoringSide(
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
    values: NDArray[np.object_] = table[column].to_numpy()
    return values

"""Scorer of judge runs: reads the verdicts of a judge model on stored answers."""

import json
import logging
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from itertools import combinations, pairwise
from typing import Any

import pyarrow as pa
from pydantic import TypeAdapter

from regrade.processes.limited import LimitedProcesses, Limits, Stopped
from regrade.records import REFUSAL
from regrade.records.columns import SCORING_SCHEMA
from regrade.records.rubrics.facts import FieldFacts, JudgeRun, RubricFacts, judge_run
from regrade.records.rubrics.reading import Reading, read_verdict
from regrade.records.rubrics.self_test import MOVED, self_test_result
from regrade.scorers.base import TargetKind, answer_part
from regrade.scorers.sessions import BatchScore, ScoringContext, Unit
from regrade.settings import ScorerName, ScoringOptions
from regrade.settings.errors import SettingsError
from regrade.stats.named import Aggregate
from regrade.stats.scale import SHARES, Scale

NO_JUDGE_RUN = (
    "A judge model grades these answers ({benchmark}), in a run of its own: `regrade judge {answer_set} --judge MODEL`. For a "
    "scorer of your own give `--scorer path/to/file.py:name`."
)


LIMITS = Limits(cpu_seconds=2, seconds=60, memory=512 << 20)
"""Limits of a reply that patterns of a rubric read: they are a stranger's, and may take any time."""
_READING = TypeAdapter(Reading)
_Read = Callable[[str, RubricFacts, int], Reading | None]
logger = logging.getLogger("regrade.score")
_COLUMNS = ["sample_id", "repeat", "value", "extracted", "outcome", "metrics"]
CONFIDENCE = "confidence"
"""Field of a verdict with how sure the judged model is of its answer, in the unit of its range."""
_BIN = 100
"""Answers of a bin of the calibration error, as in HLE."""


@dataclass(frozen=True, slots=True)
class _Verdict:
    """A row of a judge run, as read."""

    outcome: str
    reading: Reading | None = None
    value: float | None = None
    metrics: Mapping[str, float] | None = None
    extracted: str | None = None


class JudgeScorer:
    """Scores judge runs: a value for each verdict; a reply without a verdict has no value."""

    name: ScorerName = "judge"
    version = 1
    description = (
        "The verdict of a judge model on a stored answer, in the form that its rubric asks for. The score is the rubric's value "
        "of the verdict; other fields of the verdict are named values."
    )
    unparsed = "A reply that is no verdict of the rubric. It has no value, and is not counted."
    targets: TargetKind = "text"
    columns: tuple[str, ...] = ("text", "target")
    unit: Unit = "subset"
    votes = False
    passes = False
    needs_coverage = True
    code = (
        "regrade.processes.limited",
        "regrade.records.rubrics.reading",
        "regrade.records.rubrics.facts",
        "regrade.records.rubrics.base",
        "regrade.records.rubrics.self_test",
    )

    def environment(self, options: ScoringOptions) -> Mapping[str, str]:
        """Return the floor of the coverage, which decides if a scoring gives the headline number, unless it is the default."""
        default = ScoringOptions().min_coverage
        return (
            {} if options.min_coverage == default else {"min_coverage": str(options.min_coverage)}
        )

    def scale(self, context: ScoringContext) -> Scale:
        """Return the scale of the rubric's values."""
        run = judge_run(context.specification)
        if run is None or (run.rubric.low, run.rubric.high) == (0.0, 1.0):
            return SHARES
        return Scale(low=run.rubric.low, high=run.rubric.high, unit="")

    @contextmanager
    def session(self, context: ScoringContext) -> Iterator[BatchScore]:
        """Take the rubric out of the specification.

        Raises:
            SettingsError: If the answers are not those of a judge run.
        """
        specification = context.specification
        run = judge_run(specification)
        if run is None:
            raise SettingsError(
                NO_JUDGE_RUN.format(
                    benchmark=specification.benchmark.name, answer_set=specification.answer_set_id
                )
            )
        if not run.rubric.fields[0].pattern:
            yield lambda batch: _scored(batch, run, read_verdict)
            return
        function = f"{__name__}:{read_apart.__name__}"
        with LimitedProcesses(function, LIMITS, processes=1) as pool:
            yield lambda batch: _scored(batch, run, partial(_read_limited, pool))

    def aggregates(self, scores: pa.Table, context: ScoringContext) -> Sequence[Aggregate]:
        """Return coverage and flip rate, and for rubrics with verdicts such as "not attempted" the rates without these."""
        run = judge_run(context.specification)
        if run is None or not scores.num_rows:
            return ()
        rows = scores.select(_COLUMNS).to_pylist()
        graded = sum(row["value"] is not None for row in rows)
        found = [Aggregate(subset="", name="coverage", value=graded / len(rows), n=len(rows))]
        for outcome in ("unparsed", "refused", "truncated", "failed"):
            count = sum(row["outcome"] == outcome for row in rows)
            if count:
                share = count / len(rows)
                found.append(
                    Aggregate(subset="", name=f"{outcome}_share", value=share, n=len(rows))
                )
        if run.judged is None:
            found += _self_test(rows, run)
        found += (*_flips(rows, run), *_attempted(rows, run), *_weighted(rows, run))
        return (*found, *_calibration(rows, run))


def read_apart(request: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return what `read_verdict` does. Runs in a child process."""
    rubric = RubricFacts.model_validate(request["rubric"])
    reading = read_verdict(request["text"], rubric, request["criteria"])
    return None if reading is None else asdict(reading)


def _read_limited(
    pool: LimitedProcesses, text: str, rubric: RubricFacts, criteria: int
) -> Reading | None:
    request = {"text": text, "rubric": rubric.model_dump(mode="json"), "criteria": criteria}
    found = pool.compute(request)
    if isinstance(found, Stopped):
        logger.warning(
            "a reply is not read, because a pattern of rubric '%s' takes more than %g s of CPU time or %d MiB for it",
            rubric.name,
            LIMITS.cpu_seconds,
            LIMITS.memory >> 20,
        )
        return None
    return None if found is None else _READING.validate_python(found)


def _scored(batch: pa.RecordBatch, run: JudgeRun, read: _Read) -> pa.RecordBatch:
    texts = answer_part(batch).text.to_pylist()
    rows = batch.to_pylist()
    verdicts = [_verdict(row, text, run, read) for row, text in zip(rows, texts, strict=True)]
    if run.rubric.kind == "pairwise":
        verdicts = _paired(rows, verdicts, run)
    scored = [
        {
            **{name: row[name] for name in ("sample_id", "repeat", "subset")},
            "value": verdict.value,
            "extracted": verdict.extracted,
            "outcome": verdict.outcome,
            "truncated": row["finish_reason"] == "length",
            "metrics": None if verdict.metrics is None else json.dumps(dict(verdict.metrics)),
        }
        for row, verdict in zip(rows, verdicts, strict=True)
    ]
    return pa.RecordBatch.from_pylist(scored, schema=SCORING_SCHEMA)


def _verdict(row: Mapping[str, Any], text: str | None, run: JudgeRun, read: _Read) -> _Verdict:
    if row["error"] is not None:
        return _Verdict("refused" if row["error"].startswith(REFUSAL) else "failed")
    rubric = run.rubric
    points, tags = _criteria(row["target"]) if rubric.kind == "criteria" else ([], None)
    if _begins_as_json(row):
        text = row["text"]  # an explanation may quote the marks of a thought
    reading = None if text is None else read(text, rubric, len(points))
    if reading is None:
        if row["finish_reason"] == "content_filter":
            return _Verdict("refused")
        # A thought that never ended has no text after it.
        cut = row["finish_reason"] == "length" or (row["text"] is not None and text is None)
        return _Verdict("truncated" if cut else "unparsed")
    if rubric.kind == "criteria":
        met = [rubric.fields[0].value(label) for label in reading.labels]
        share = _share(points, met)
        metrics = {"points": share, "criteria_met": sum(met) / len(met)}
        metrics |= _by_tag(tags, points, met)
        return _Verdict("scored", reading, max(0.0, share), metrics, f"{share:.3f}")
    (first, *more) = zip(rubric.fields, reading.labels, strict=True)
    metrics = {field.name: field.value(label) for field, label in more}
    metrics |= {name: float(first[1] in labels) for name, labels in rubric.shares.items()}
    return _Verdict("scored", reading, first[0].value(first[1]), metrics or None, first[1])


def _criteria(target: str) -> tuple[list[float], Sequence[Sequence[str]] | None]:
    """Return the points of criteria, and their tags if the target has some."""
    stored = json.loads(target)
    return (stored, None) if isinstance(stored, list) else (stored["points"], stored["tags"])


def _share(points: Sequence[float], met: Sequence[float]) -> float:
    """Return the points of the criteria that are met, as a share of all points above 0."""
    reached = sum(point * share for point, share in zip(points, met, strict=True))
    return reached / sum(point for point in points if point > 0)


def _by_tag(
    tags: Sequence[Sequence[str]] | None, points: Sequence[float], met: Sequence[float]
) -> dict[str, float]:
    """Return the share of the points of each tag's criteria, and of all criteria for each tag of the question.

    Args:
        tags: Tags of the question, and of each criterion; None without any.
        points: Points of each criterion.
        met: Share of each criterion that is met.
    """
    if tags is None:
        return {}
    own, *each = tags
    chosen: dict[str, Sequence[int]] = {tag: range(len(points)) for tag in own}
    chosen |= {
        tag: [number for number, given in enumerate(each) if tag in given]
        for tag in dict.fromkeys(tag for given in each for tag in given)
    }
    return {
        tag: _share([points[n] for n in numbers], [met[n] for n in numbers])
        for tag, numbers in chosen.items()
        if any(points[n] > 0 for n in numbers)
    }


def _begins_as_json(row: Mapping[str, Any]) -> bool:
    """Return True if a reply has no thought before its JSON object, which may be in a block of code."""
    text = row["text"]
    return text is not None and not row["reasoning_open"] and text.lstrip().startswith(("{", "```"))


def _paired(
    rows: Sequence[Mapping[str, Any]], verdicts: Sequence[_Verdict], run: JudgeRun
) -> list[_Verdict]:
    """Return verdicts in which both orders of a pair have its value, from 1 for the candidate to 0 for the baseline.

    Orders that disagree are a tie; if labels have weights, the value is the weighted mean of both.
    """
    (field,) = run.rubric.fields
    pairs: dict[tuple[str, int], dict[int, int]] = defaultdict(dict)
    for position, row in enumerate(rows):
        pair, part = divmod(row["repeat"], run.parts)
        pairs[row["sample_id"], pair][part] = position
    found = list(verdicts)
    for members in pairs.values():
        read = {part: verdicts[position].extracted for part, position in members.items()}
        known = {part: label for part, label in read.items() if label is not None}
        wins = {part: _for_candidate(label, part, field) for part, label in known.items()}
        agree = len(set(wins.values())) == 1
        if field.weights:
            value = _weighted_mean(wins, known, field)
        else:
            value = wins[0] if len(known) == 2 and agree else 0.5
        for part, label in known.items():
            metrics = {"prefers_first": field.value(label)}
            if len(known) < 2:
                found[members[part]] = _Verdict("measured", None, None, metrics, label)
                continue
            metrics["inconsistent"] = float(not agree)
            found[members[part]] = _Verdict("scored", None, value, metrics, label)
    return found


def _for_candidate(label: str, part: int, field: FieldFacts) -> float:
    """Return 1 if the candidate is better, 0 if the baseline is; the candidate stands first in part 0."""
    value = field.value(label)
    return value if part == 0 else 1 - value


def _weighted_mean(
    wins: Mapping[Any, float], labels: Mapping[Any, str], field: FieldFacts
) -> float:
    weights = {key: field.weights.get(label, 1.0) for key, label in labels.items()}
    total = sum(weights.values())
    return sum(weights[key] * wins[key] for key in wins) / total if total else 0.5


def _self_test(rows: Sequence[Mapping[str, Any]], run: JudgeRun) -> Iterator[Aggregate]:
    """Yield the mean values of right and wrong answers, and the share of instructions in answers that the judge followed."""
    first = [row for row in rows if run.place(row["repeat"])[1] == 0 and row["value"] is not None]
    result = self_test_result({row["sample_id"]: row["value"] for row in first})
    for name, value in (("right", result.right), ("wrong", result.wrong)):
        if value is not None:
            yield Aggregate(subset="", name=f"self_test_{name}", value=value, n=result.plain)
    if result.told:
        share = result.moved / result.told
        yield Aggregate(subset="", name=MOVED, value=share, n=result.told)


def _flips(rows: Sequence[Mapping[str, Any]], run: JudgeRun) -> Iterator[Aggregate]:
    """Yield the probability that a second verdict on the same answer differs."""
    groups: dict[tuple[str, int, int], list[str]] = defaultdict(list)
    for row in rows:
        judged, _, part = run.place(row["repeat"])
        if row["extracted"] is not None:
            groups[row["sample_id"], judged, part].append(row["extracted"])
    rates = [
        sum(one != other for one, other in pairs) / len(pairs)
        for labels in groups.values()
        if (pairs := list(combinations(labels, 2)))
    ]
    if rates:
        yield Aggregate(subset="", name="flip_rate", value=sum(rates) / len(rates), n=len(rates))


def _attempted(rows: Sequence[Mapping[str, Any]], run: JudgeRun) -> Iterator[Aggregate]:
    """Yield the share of right answers among the attempted ones, and its harmonic mean with the share among all (F)."""
    skipped = run.rubric.shares.get("not_attempted")
    graded = [row for row in rows if row["value"] is not None]
    if not skipped or not graded:
        return
    attempted = [row for row in graded if row["extracted"] not in skipped]
    if not attempted:
        return
    right = sum(row["value"] for row in graded)
    given = right / len(attempted)
    yield Aggregate(subset="", name="correct_given_attempted", value=given, n=len(attempted))
    share = right / len(graded)
    f_score = 2 * given * share / (given + share) if right else 0.0
    yield Aggregate(subset="", name="f_score", value=f_score, n=len(graded))


def _weighted(rows: Sequence[Mapping[str, Any]], run: JudgeRun) -> Iterator[Aggregate]:
    """Yield the candidate's share of all verdicts, each with its weight, as Arena-Hard counts its games."""
    field = run.rubric.fields[0]
    labels = {n: row["extracted"] for n, row in enumerate(rows) if row["value"] is not None}
    if field.weights and labels:
        wins = {
            n: _for_candidate(label, run.place(rows[n]["repeat"])[2], field)
            for n, label in labels.items()
        }
        share = _weighted_mean(wins, labels, field)
        yield Aggregate(subset="", name="weighted_wins", value=share, n=len(labels))


def _calibration(rows: Sequence[Mapping[str, Any]], run: JudgeRun) -> Iterator[Aggregate]:
    """Yield the calibration error of HLE: the root mean square of right answers less confidence, in bins of 100 answers.

    HLE's script adds up all bins but the last, that of the most confident answers, which also has the rest of the division.
    """
    bounds = next((field.range for field in run.rubric.fields if field.name == CONFIDENCE), None)
    graded = [row for row in rows if row["value"] is not None]
    if bounds is None or not graded:
        return
    low, high = bounds
    given = [(json.loads(row["metrics"])[CONFIDENCE] - low) / (high - low) for row in graded]
    # Stable: answers of equal confidence keep their order.
    order = sorted(range(len(given)), key=given.__getitem__)
    cuts = [*range(0, max(len(order) - _BIN + 1, 1), _BIN), len(order)]
    squares = [
        abs(sum(graded[n]["value"] - given[n] for n in order[begin:end])) ** 2 / (end - begin)
        for begin, end in pairwise(cuts)
    ]
    for name, counted in (("", squares), ("_of_script", squares[:-1])):
        if counted:
            error = (sum(counted) / len(order)) ** 0.5
            yield Aggregate(subset="", name=f"calibration_error{name}", value=error, n=len(order))


scorer = JudgeScorer

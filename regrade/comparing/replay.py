"""Two replays of the same answers compared: token by token, against what the model that answered differs from itself."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regrade.answers.rows import RowKey, row_keys
from regrade.answers.sets import AnswerSet
from regrade.comparing.models import FrozenModel
from regrade.jobs.time_spent import TimeSpent
from regrade.records.columns import KEYS, TOKEN_COLUMNS
from regrade.stats.estimates import FloatArray, IntArray
from regrade.stats.resampling import Estimate, bootstrap
from regrade.stats.scale import percent
from regrade.text.blocks import Block, Code, Heading, Line, Table

ROUNDING = 1e-6
"""Mean difference of log-probabilities, in nats, below which two models are equal: log-probabilities are float32."""
EXAMPLES = 5
"""Most answers that are named."""
_FLOOR = -1_000.0
"""Least log-probability, for tokens that a model cannot give at all."""
_COLUMNS = (*KEYS, "error", *TOKEN_COLUMNS)


class Reader(FrozenModel):
    """A model that read the answers."""

    model: str
    revision: str
    engine: dict[str, Any]
    """Settings of its engine that change what it computes."""
    ran_on: tuple[str, ...]
    """Engine, version, precision and device of each of its sessions."""
    replay_id: str
    """Answer set with the log-probabilities."""
    not_first: float
    """Share of the tokens that are not its first choice."""


class Sizes(FrozenModel):
    """Absolute differences of log-probabilities between two readings, in nats per token."""

    mean: float
    p99: float
    largest: float


class Parting(FrozenModel):
    """Answer at which the two models part."""

    sample_id: str
    repeat: int
    token: int
    """Number of the first token, from 1, that is the first choice of the model that answered, and not of the other."""
    of: int
    """Tokens of the answer."""
    own: float
    """Log-probability of that token."""
    other: float


class Replay(FrozenModel):
    """Comparison of two models by the probabilities that they give to stored answers of one of them."""

    answer_set_id: str
    benchmark: str
    repository: str
    own: Reader
    """The model that answered."""
    other: Reader
    answers: int
    """Answers that both read with the same tokens."""
    tokens: int
    left_out: dict[str, int]
    """Answers that were not compared, by the reason."""
    same: bool
    """The two differ no more than the model that answered does from itself, or by `ROUNDING` more."""
    difference: Estimate
    """Mean of log-probability by the other minus by the model that answered, in nats per token, with its 95 % interval."""
    absolute: Sizes
    """Absolute differences between the two."""
    noise: Sizes
    """The same between two readings of the model that answered."""
    excess: Estimate
    """Mean absolute difference less that of the noise, with its 95 % interval."""
    not_first: Estimate
    """Share of tokens that are not the first choice: of the other minus of the model that answered, with its 95 % interval."""
    parted: float
    """Share of answers in which the two part."""
    partings: tuple[Parting, ...]
    """Those in which the token where they part loses most."""
    time_spent: TimeSpent | None = None
    """Parts of the run's wall-clock; None if all answers were stored."""

    @property
    def verdict(self) -> str:
        """The verdict in words."""
        if self.same:
            return "the same up to noise"
        return f"differs by {_number(self.excess)} nats per token beyond the noise"


def compared(answers: AnswerSet, own: AnswerSet, other: AnswerSet) -> Replay | str:
    """Return the comparison of two replays of answers, or the reason why there is nothing to compare.

    Args:
        answers: The answers.
        own: Replay by the model that answered, which read each of them twice.
        other: Replay by the other model.
    """
    repeats = answers.manifest.specification.repeats
    first, second = _read(own), _read(other)
    left_out: Counter[str] = Counter()
    questions: list[str] = []
    sums: list[tuple[float, ...]] = []
    all_differences, all_noise = [np.zeros(0)], [np.zeros(0)]
    partings: list[Parting] = []
    for (sample_id, repeat), row in first.items():
        if repeat >= repeats:
            continue
        again, theirs = first.get((sample_id, repeat + repeats)), second.get((sample_id, repeat))
        reason = _reason(row, again, theirs)
        if reason is not None or again is None or theirs is None:
            left_out[str(reason)] += 1
            continue
        mine, others = row.logprobs, theirs.logprobs
        differences, noise = others - mine, np.abs(again.logprobs - mine)
        all_differences.append(differences)
        all_noise.append(noise)
        own_first, first_too = row.is_greedy, theirs.is_greedy
        questions.append(sample_id)
        sums.append(
            (
                len(mine),
                differences.sum(),
                np.abs(differences).sum() - noise.sum(),
                (~own_first).sum(),
                (~first_too).sum(),
            )
        )
        where = np.flatnonzero(own_first & ~first_too)
        if where.size:
            at = int(where[0])
            partings.append(
                Parting(
                    sample_id=sample_id,
                    repeat=repeat,
                    token=at + 1,
                    of=len(mine),
                    own=float(mine[at]),
                    other=float(others[at]),
                )
            )
    if not sums:
        return next(iter(left_out), "the replays are empty")
    tokens, differing, excess, own_not, other_not = np.asarray(sums, np.float64).T
    clusters = np.unique(questions, return_inverse=True)[1]

    def per_token(values: FloatArray) -> Estimate:
        return bootstrap(lambda weights: (weights @ values) / (weights @ tokens), clusters)

    beyond = per_token(excess)
    surely = beyond.value if beyond.low is None else beyond.low
    count = float(tokens.sum())
    return Replay(
        answer_set_id=answers.manifest.answer_set_id,
        benchmark=answers.manifest.specification.benchmark.name,
        repository=answers.repository.uri,
        own=_reader(own, float(own_not.sum()) / count),
        other=_reader(other, float(other_not.sum()) / count),
        answers=len(sums),
        tokens=int(count),
        left_out=dict(left_out),
        same=surely is not None and surely <= ROUNDING,
        difference=per_token(differing),
        absolute=_sizes(np.abs(np.concatenate(all_differences))),
        noise=_sizes(np.concatenate(all_noise)),
        excess=beyond,
        not_first=per_token(other_not - own_not),
        parted=len(partings) / len(sums),
        partings=tuple(sorted(partings, key=lambda p: p.other - p.own)[:EXAMPLES]),
    )


@dataclass(frozen=True, slots=True)
class _Reading:
    """A reading of an answer."""

    error: str | None
    ids: IntArray
    logprobs: FloatArray
    is_greedy: NDArray[np.bool_]


def _read(replay: AnswerSet) -> dict[RowKey, _Reading]:
    found = {}
    for batch in replay.batches(_COLUMNS):
        ids, logprobs, is_greedy = (_lists(batch[name]) for name in TOKEN_COLUMNS)
        errors = batch["error"].to_pylist()
        for number, key in enumerate(row_keys(batch)):
            # JSON has no infinity: the spool keeps null, which is NaN here.
            finite = np.nan_to_num(logprobs[number].astype(np.float64), nan=_FLOOR)
            found[key] = _Reading(
                errors[number], ids[number], np.maximum(finite, _FLOOR), is_greedy[number]
            )
    return found


def _lists(column: Any) -> list[NDArray[Any]]:  # noqa: ANN401 - pyarrow's stubs lack the lists
    """Return the values of each row; none where it is null."""
    values = column.values.to_numpy(zero_copy_only=False)
    return [values[start:stop] for start, stop in pairwise(column.offsets.to_numpy())]


def _reason(row: _Reading, again: _Reading | None, theirs: _Reading | None) -> str | None:
    """Return the reason why an answer is not compared; None if it is."""
    read = [found for found in (row, again, theirs) if found is not None]
    if errors := [found.error for found in read if found.error is not None]:
        return errors[0]
    if len(read) < 3:
        return "It was not read by both."
    if any(not np.array_equal(found.ids, row.ids) for found in read):
        return "The two models have other tokens for it."
    return None if row.ids.size else "It has no tokens."


def _sizes(differences: FloatArray) -> Sizes:
    return Sizes(
        mean=float(differences.mean()),
        p99=float(np.quantile(differences, 0.99)),
        largest=float(differences.max()),
    )


def _reader(replay: AnswerSet, not_first: float) -> Reader:
    specification = replay.manifest.specification
    quantization = specification.model.quantization
    given = {} if quantization is None else {"quantization": quantization}
    ran_on = (
        f"{session.engine} {session.engine_version or ''}, {session.dtype or 'unknown precision'}, on "
        f"{session.device or 'an unknown device'}"
        for session in replay.manifest.sessions
    )
    return Reader(
        model=specification.model.name,
        revision=specification.model.revision,
        engine=given | specification.engine,
        ran_on=tuple(dict.fromkeys(ran_on)),
        replay_id=replay.manifest.answer_set_id,
        not_first=not_first,
    )


# The page of a replay.

_EXPLAINED = (
    "Each answer was read in one pass, without generating: log-probabilities of its tokens, in nats. The noise is that of the model "
    "that answered against itself, in a second reading. Intervals are 95 %, by resampling questions."
)


def _number(estimate: Estimate, sign: str = "") -> str:
    def text(value: float | None) -> str:
        return "-" if value is None else f"{value:{sign}.3g}"

    if estimate.low is None:
        return text(estimate.value)
    return f"{text(estimate.value)} [{text(estimate.low)} to {text(estimate.high)}]"


def blocks(replay: Replay) -> list[Block]:
    """Return the page of a replay."""
    return list(_blocks(replay))


def _blocks(replay: Replay) -> Iterator[Block]:
    own, other = replay.own, replay.other
    yield Heading((f"{other.model} on the answers of {own.model}: {replay.verdict}",), 2)
    yield Line(
        (
            f"{replay.answers:,} answers to {replay.benchmark} with {replay.tokens:,} tokens (",
            Code(replay.answer_set_id),
            f"). In {percent(replay.parted)} of them a token that was the first choice of {own.model} is not that of {other.model}.",
        )
    )
    yield Table(
        ("per token", "between the two", "noise"),
        [
            ("mean difference", _number(replay.difference, "+"), ""),
            ("mean absolute difference", f"{replay.absolute.mean:.3g}", f"{replay.noise.mean:.3g}"),
            ("99 % are below", f"{replay.absolute.p99:.3g}", f"{replay.noise.p99:.3g}"),
            ("largest", f"{replay.absolute.largest:.3g}", f"{replay.noise.largest:.3g}"),
            ("beyond noise", _number(replay.excess), ""),
        ],
    )
    yield Table(
        ("model", "settings", "not its first choice", "computed by", "replay"),
        [
            (
                reader.model,
                ", ".join(f"{name}={value}" for name, value in reader.engine.items()),
                f"{percent(reader.not_first, 2)}",
                "; ".join(reader.ran_on),
                Code(reader.replay_id),
            )
            for reader in (own, other)
        ],
        text=("model", "settings", "computed by", "replay"),
    ).filled()
    if replay.partings:
        yield Table(
            ("where they part", "repeat", "token", "of", own.model, other.model),
            [
                (
                    Code(p.sample_id),
                    f"{p.repeat}",
                    f"{p.token:,}",
                    f"{p.of:,}",
                    f"{p.own:.2f}",
                    f"{p.other:.2f}",
                )
                for p in replay.partings
            ],
        )
    left = sum(replay.left_out.values())
    for reason, count in replay.left_out.items():
        yield Line(f"Left out: {count:,} of {replay.answers + left:,} answers. {reason}", "doubt")
    yield Line(_EXPLAINED, "note")
    if replay.time_spent is not None:
        yield from replay.time_spent.blocks()

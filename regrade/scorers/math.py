r"""Scorer of mathematical answers, such as `\frac{1}{2}`, `x = 3` or `[0, \infty)`, by math-verify.

Comparisons run in child processes with limits: algebra on a model's text may not end, and math-verify's own time-out
makes such an answer wrong.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from regrade.processes.limited import LimitedProcesses, Limits, Stopped, available_cores
from regrade.scorers.base import Reading, TargetKind, answer_part, check_targets, score_rows
from regrade.scorers.extraction import columns as c
from regrade.scorers.mathematics.latex import is_plainly_equal, prepared, variants
from regrade.scorers.mathematics.reading import read_answers
from regrade.scorers.sessions import BatchScore, ScoringContext, Unit
from regrade.settings import ScorerName, ScoringOptions
from regrade.settings.errors import NotInstalledError
from regrade.stats.named import Aggregate

if (
    TYPE_CHECKING
):  # imported by the child processes; named here so that it is part of the scorer's hash
    from regrade.scorers.mathematics.judging import judge  # noqa: F401

LIMITS = Limits(cpu_seconds=5.0, seconds=60.0, memory=1 << 30)
"""Limits of a comparison. Usual ones take 1 to 300 ms of CPU time."""
_JUDGE = "regrade.scorers.mathematics.judging:judge"
_WARM_UP = (
    [[r"\frac{1}{2}", "0.5"]],
    [["x^2+2x+1", "(x+1)^2"]],
    [[r"\left[1,\sqrt{2}\right)", r"[1, \sqrt{2})"]],
    [[r"\{1,2\}", "2, 1"]],
    [[r"\begin{pmatrix}1\\2\end{pmatrix}", r"\begin{pmatrix}1\\2\end{pmatrix}"]],
)
"""Comparisons that import the algebra system and fill the caches of its parser."""
_KEPT = 200
"""Longest extracted answer stored in the scores, in characters; the comparison uses the whole answer."""
_PACKAGES = ("math-verify", "latex2sympy2_extended", "sympy")


@dataclass(frozen=True, slots=True)
class Verdict:
    """Result of comparing an answer with its target."""

    right: bool
    stopped: bool = False
    """The comparison passed a limit."""


class MathScorer:
    """Reads a formula, number or word, and compares it with the target as mathematics."""

    name: ScorerName = "math"
    version = 2
    description = (
        "The content of the last `\\boxed{}`, several if they form a list; else of `<answer>` or the JSON field `answer`; else "
        "the line after the last `####`; else the formula, number or words after the last `answer is` or `answer:`; else the "
        "last formula or number. It must equal the target as mathematics (math-verify): `0.5` is `\\frac{1}{2}`, `x = 3` is `3`."
    )
    unparsed = "An answer without any formula or number, or whose last box is cut off; after `answer:` a sentence with several numbers."
    targets: TargetKind = "text"
    columns: tuple[str, ...] = ("target", "text")

    unit: Unit = "rows"
    votes = True
    code = ("regrade.processes.limited",)

    def environment(self, options: ScoringOptions) -> Mapping[str, str]:  # noqa: ARG002 - no option decides scores
        """Return versions and limits that decide scores; see `SessionScorer.environment`.

        Raises:
            NotInstalledError: If the extra `math` is not installed.
        """
        try:
            versions = {name: version(name) for name in _PACKAGES}
        except PackageNotFoundError as error:
            raise NotInstalledError("The scorer 'math'", "pip install 'regrade[math]'") from error
        return {
            **versions,
            "cpu_seconds": f"{LIMITS.cpu_seconds:g}",
            "memory_mib": str(LIMITS.memory >> 20),
        }

    @contextmanager
    def session(self, context: ScoringContext) -> Iterator[BatchScore]:
        """Start the child processes; see `SessionScorer.session`.

        Raises:
            NotInstalledError: If the extra `math` is not installed.
        """
        self.environment(context.options)
        processes = context.options.processes or available_cores()
        judged: dict[tuple[str, str], Verdict] = {}
        with LimitedProcesses(_JUDGE, LIMITS, processes=processes, warm_up=_WARM_UP) as pool:
            yield lambda batch: _score(batch, pool, judged)

    def aggregates(self, scores: pa.Table, context: ScoringContext) -> Sequence[Aggregate]:  # noqa: ARG002 - as above
        """Return (): all results are means."""
        return ()


def _score(
    batch: pa.RecordBatch, pool: LimitedProcesses, judged: dict[tuple[str, str], Verdict]
) -> pa.RecordBatch:
    targets = c.column(batch, "target")
    check_targets("math", "a mathematical answer", batch, c.is_match(targets, r"\S"))
    found = read_answers(answer_part(batch))
    pairs = [
        None if answer is None or target is None else (prepared(target), prepared(answer))
        for target, answer in zip(targets.to_pylist(), found.value.to_pylist(), strict=True)
    ]
    _judge(dict.fromkeys(pair for pair in pairs if pair is not None), pool, judged)
    verdicts = [Verdict(right=False) if pair is None else judged[pair] for pair in pairs]
    right = c.mask(np.array([verdict.right for verdict in verdicts], np.bool_))
    scores = score_rows(batch, Reading(c.shortened(found.value, _KEPT), right, found.place))
    return _with_timeouts(scores, np.array([verdict.stopped for verdict in verdicts], np.bool_))


def _judge(
    pairs: dict[tuple[str, str], None],
    pool: LimitedProcesses,
    judged: dict[tuple[str, str], Verdict],
) -> None:
    """Judge the new pairs of target and answer, each once, even if many answers are the same."""
    hard: dict[tuple[str, str], list[tuple[str, str]]] = {}
    for pair in pairs.keys() - judged.keys():
        ways = {way: is_plainly_equal(*way) for way in variants(*pair)}
        judged[pair] = Verdict(right=True in ways.values())
        open_ways = [way for way, right in ways.items() if right is None]
        if open_ways and not judged[pair].right:
            hard[pair] = open_ways
    for pair, result in zip(hard, pool.map(hard.values()), strict=True):
        judged[pair] = Verdict(right=result is True, stopped=isinstance(result, Stopped))


def _with_timeouts(
    scores: pa.RecordBatch, stopped: "np.ndarray[tuple[int], np.dtype[np.bool_]]"
) -> pa.RecordBatch:
    """Return the scores, with the outcome `timeout` for pairs without a verdict."""
    if not stopped.any():
        return scores
    outcome = c.choose(c.mask(stopped), "timeout", c.column(scores, "outcome"))
    columns = {**{name: scores[name] for name in scores.schema.names}, "outcome": outcome}
    return pa.record_batch(list(columns.values()), schema=scores.schema)


scorer = MathScorer

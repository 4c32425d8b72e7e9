"""A test of paired changes that may be looked at after every answer, so that asking can stop when the verdict is sure.

An e-process (Waudby-Smith and Ramdas 2024, "Estimating means of bounded random variables by betting",
https://doi.org/10.1093/jrsssb/qkad009): somebody bets against a hypothesis with fair or unfavourable odds. If the hypothesis
is true, the wealth exceeds 1 / level at any time with a probability of at most `level` (Ville's inequality), however often
one looks and whatever the changes' distribution in [-1, 1] is. Part of the error rate is for this test, the rest for
the gate's ordinary tests of all questions, if it decided nothing (`regrade.stats.decision`).

The questions come in a random order that depends on nothing but their ids and the answer set's, and an answer counts
when all before it in that order are there: short answers come first, and are no random sample.

PyPI's `confseq` (0.0.11) has such tests, but no wheel, so that installing it compiles C++; its last release is of 2023, and it needs
matplotlib, pandas and pytest. Bets that know that a benchmark is finite (sampling without replacement) are about just these
questions, but the gate's promise is about questions like these: at the boundary, such bets said `regression` in 40 % of the
simulations (`perf/sequential_gate.py`).

Questions about one passage count as independent of each other, as in the tests at the end. With a passage as one observation,
the test would keep its level however they depend on each other, and an engine would compute each passage once. But the test needs
about as many passages as it needs questions: of 1,250 passages with 1 to 8 questions, an unchanged model (0.5 % of the answers
change) needed 76 %, with all their questions. Asked one by one, it needs 17 % of the questions, for which an engine computes 64 %
as many beginnings as there are passages. In regressions and near ties, passages would save beginnings, but need 1.3 to 2.6 times as
many answers (`perf/sequential_gate.py`).
"""

import hashlib
from collections.abc import Sequence
from math import log
from typing import Literal

import numpy as np

from regrade.stats.decision import changes_of_counts, pass_p, regression_p
from regrade.stats.estimates import FloatArray

Sure = Literal["pass", "regression"]
"""Verdicts that can be sure before all questions are answered."""
RUNNING = 0.5
"""Share of the error rate that is spent while questions are asked; the rest is for the tests at the end."""
_BETS: FloatArray = np.geomspace(0.05, 0.95, 8)
"""Shares of the wealth that are bet, as parts of the largest one that cannot lose all. The start is divided among them. Small
bets win with many questions and small differences, large ones when next to nothing changes."""
_MATCHED = 0.5
"""Part of the wealth for `pass` that is bet as is best against a model whose answers change but get no worse."""
_BEFORE, _EXPECTED = 5.0, 0.05
"""Weight in questions, and value, of the share of changed answers that is assumed before the first answer."""
_WINDOWS = 32
"""Windows of requests in an answer set, at least; see `request_order`."""
_WINDOW = 16
"""Fewest questions of a window."""


def running_level(error_rate: float, tests: int = 1) -> float:
    """Return the level of each of several tests while questions are asked (Bonferroni: each stops by itself)."""
    return RUNNING * error_rate / tests


def final_rate(error_rate: float) -> float:
    """Return the part of the error rate that is left for the tests of all questions."""
    return (1 - RUNNING) * error_rate


def random_order(answer_set_id: str, sample_ids: Sequence[str]) -> list[int]:
    """Return the positions of the questions in an order that is random, and always the same for an answer set."""

    def drawn(position: int) -> bytes:
        text = f"{answer_set_id}/{sample_ids[position]}".encode()
        return hashlib.blake2b(text, digest_size=16).digest()

    return sorted(range(len(sample_ids)), key=drawn)


def request_order(order: Sequence[int]) -> list[int]:
    """Return the order in which to ask questions that are tested in a random order.

    Within windows of that order, the questions are asked as they stand in the benchmark: neighbours often begin with the same
    examples, which an engine's prefix cache then holds; a few questions about one document rarely meet in a window. The test
    waits for the answers of a window, and is not touched otherwise.
    """
    size = max(_WINDOW, len(order) // _WINDOWS)
    windows = (order[first : first + size] for first in range(0, len(order), size))
    return [position for window in windows for position in sorted(window)]


class SequentialTest:
    """Watches the changes of paired answers until one of the verdicts of the gate is sure."""

    def __init__(self, max_drop: float, regression_level: float, pass_level: float) -> None:
        """Begin without changes.

        Args:
            max_drop: Accepted drop, from 0 to 1, exclusive of 1.
            regression_level: Largest probability of `regression` if the true drop is at most `max_drop`.
            pass_level: Largest probability of `pass` if the true drop is at least `max_drop`.
        """
        self.n = 0
        """Changes until the verdict, or so far."""
        self.verdict: Sure | None = None
        """None: not sure yet."""
        self._drop = max_drop
        self._levels: dict[Sure, float] = {"regression": regression_level, "pass": pass_level}
        equal = np.full(len(_BETS), -log(len(_BETS)))
        self._wealth: dict[Sure, FloatArray] = {"regression": equal, "pass": equal}
        """Logarithm of the wealth of each bet; that of `pass` may have the matched one last."""
        if max_drop > 0:  # else a model that gets no worse gives nothing to win
            parts = [*(equal + log(1 - _MATCHED)), log(_MATCHED)]
            self._wealth["pass"] = np.array(parts)
        self._seen, self._squares = 0, 0.0

    def add(self, changes: FloatArray) -> None:
        """Take the next changes in the random order: candidate minus baseline, each in [-1, 1].

        After the verdict, they are left out.
        """
        if self.verdict is not None:
            return
        first: dict[Sure, int] = {}
        for verdict, level in self._levels.items():
            sign = 1.0 if verdict == "pass" else -1.0
            most = 1 / (1 - sign * self._drop)
            bets = np.repeat(_BETS[:, None] * most, len(changes), axis=1)
            if len(self._wealth[verdict]) > len(bets):
                bets = np.vstack([bets, np.minimum(self._matched(changes), _BETS[-1] * most)])
            gains = np.log1p(bets * (sign * (changes + self._drop)))
            wealth = self._wealth[verdict][:, None] + np.cumsum(gains, axis=1)
            enough = np.flatnonzero(np.logaddexp.reduce(wealth) >= -log(level))
            if len(enough):
                first[verdict] = int(enough[0]) + 1
            if len(changes):
                self._wealth[verdict] = wealth[:, -1]
        self._seen += len(changes)
        self._squares += float((changes**2).sum())
        self.n += min(first.values(), default=len(changes))
        self.verdict = next((v for v, n in first.items() if n == min(first.values())), None)

    def _matched(self, changes: FloatArray) -> FloatArray:
        """Return the bet on each change by which wealth grows fastest if the changes' mean is 0, from the changes before it."""
        squares = changes**2
        before = self._squares + np.cumsum(squares) - squares + _BEFORE * _EXPECTED
        variance = before / (self._seen + np.arange(len(changes)) + _BEFORE)
        return self._drop / (variance + self._drop**2)


def decided(
    gained: int,
    lost: int,
    n: int,
    *,
    can_gain: int,
    can_lose: int,
    max_drop: float,
    regression_level: float,
    pass_level: float,
) -> Sure | None:
    """Return the verdict of the tests of all questions if no answer to the remaining ones could change it (curtailment).

    It costs no error, because it is the verdict of these tests. For one right or wrong answer to each question.

    Args:
        gained: Questions that went from wrong to right so far.
        lost: Questions that went from right to wrong so far.
        n: All questions, answered or not.
        can_gain: Unanswered questions that the baseline answered wrong.
        can_lose: Unanswered questions that the baseline answered right.
        max_drop: Accepted drop.
        regression_level: Level of the test at the end that says `regression`.
        pass_level: Level of the test at the end that says `pass`.
    """
    best, worst = gained + can_gain - lost, gained - lost - can_lose
    if best < -max_drop * n:
        changes = changes_of_counts(gained + can_gain, lost, n)
        return "regression" if regression_p(changes, max_drop) < regression_level else None
    if worst > -max_drop * n:
        changes = changes_of_counts(gained, lost + can_lose, n)
        return "pass" if pass_p(changes, max_drop) < pass_level else None
    return None

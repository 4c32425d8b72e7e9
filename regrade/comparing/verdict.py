"""Derive the gate's verdicts from comparisons. Error rates and reasons for the method: docs/compare.md."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import floor

from regrade.comparing.comparison import Compared
from regrade.comparing.gate_report import SEVERITY, BenchmarkVerdict, Check, Limited, Verdict
from regrade.comparing.text import mark
from regrade.settings import GateSettings
from regrade.stats.decision import lower_end, pass_p, regression_p, upper_end
from regrade.stats.power import can_pass, detectable_drop, questions_needed, what_passes
from regrade.stats.scale import percent
from regrade.stats.sequential import Sure, final_rate
from regrade.stats.significance import holm


@dataclass(frozen=True, slots=True)
class _Tested:
    """Tests of one benchmark, before correction for multiple tests."""

    benchmark: str
    compared: Compared
    max_drop: float
    p_regression: float
    checks: tuple[Check, ...]


def judge(
    compared: Mapping[str, Compared],
    drops: Mapping[str, float],
    settings: GateSettings,
    sure: Sequence[Sure] = (),
) -> list[BenchmarkVerdict]:
    """Return the verdict on each benchmark, corrected for the number of tests.

    Args:
        compared: Comparisons by benchmark.
        drops: Accepted drop by benchmark, as a share of the scale of its scores.
        settings: Limits and error rate.
        sure: Verdicts on other benchmarks of the family that were sure before all questions were answered.
    """
    alpha = error_at_end(settings)
    tested = [_test(name, pair, drops[name], settings) for name, pair in compared.items()]
    family = [p for test in tested for p in (test.p_regression, *(c.p for c in test.checks))]
    # A test that has said regression is out of the family, as Holm's first steps; one that has not, stays in it.
    family += [0.0 if verdict == "regression" else 1.0 for verdict in sure]
    decisions = zip(holm(family), _levels(family, alpha), strict=True)
    verdicts = []
    for test in tested:
        adjusted, level = next(decisions)
        checks = [_decided(check, next(decisions)[0], alpha) for check in test.checks]
        verdicts.append(_verdict(test, adjusted, checks, alpha, level))
    return verdicts


def error_at_end(settings: GateSettings) -> float:
    """Return the error rate of the tests of all questions; a part is spent while they are asked, if that may stop them."""
    alpha = settings.error_rate / 100
    return final_rate(alpha) if settings.stop_when_sure else alpha


def by_interval(low: float, high: float, max_drop: float) -> Verdict:
    """Return the verdict by the interval of the difference: beyond the accepted drop, within it, or undecided."""
    if high < -max_drop:
        return "regression"
    return "pass" if low > -max_drop else "cannot tell"


def _test(name: str, compared: Compared, max_drop: float, settings: GateSettings) -> _Tested:
    side = compared.comparison.candidate
    checks: list[Check] = []
    limits: tuple[tuple[Limited, float | None, int], ...] = (
        ("unparsed", settings.max_unparsed, side.unparsed),
        ("truncated", settings.max_truncated, side.truncated),
    )
    for kind, limit, count in limits:
        if limit is not None and side.rows:
            rate = count / side.rows
            # Repeats of a question are not independent, so each question counts once.
            p = _at_least(rate, min(side.rows, side.questions), limit / 100)
            verdict: Verdict = "pass" if rate <= limit / 100 else "cannot tell"
            check = Check(
                name=kind, value=rate, limit=limit / 100, verdict=verdict, p=p, p_adjusted=p
            )
            checks.append(check)
    p_regression = regression_p(compared.changes, max_drop)
    return _Tested(name, compared, max_drop, p_regression, tuple(checks))


def _at_least(rate: float, n: int, limit: float) -> float:
    """Return the probability of a rate this high among n if the true rate were `limit` (exact binomial test)."""
    count = floor(rate * n + 1e-9)
    if count == 0:
        return 1.0
    from scipy.special import bdtrc

    return float(bdtrc(count - 1, n, limit))


def _decided(check: Check, adjusted: float, alpha: float) -> Check:
    broken = check.verdict != "pass" and adjusted < alpha
    verdict = "regression" if broken else check.verdict
    return check.model_copy(update={"verdict": verdict, "p_adjusted": adjusted})


def _levels(family: Sequence[float], alpha: float) -> list[float]:
    """Return the one-sided level at which Holm's procedure decided each test."""
    order = sorted(range(len(family)), key=family.__getitem__)
    levels = [alpha] * len(family)
    stopped: float | None = None
    for step, number in enumerate(order):
        level = alpha / (len(family) - step)
        if stopped is None and family[number] >= level:
            stopped = level
        levels[number] = level if stopped is None else stopped
    return levels


def _verdict(
    test: _Tested, adjusted: float, checks: Sequence[Check], alpha: float, level: float
) -> BenchmarkVerdict:
    comparison, changes = test.compared.comparison, test.compared.changes
    span = comparison.scale.span
    low = lower_end(changes, alpha, (test.max_drop,))
    high = upper_end(changes, level, (test.max_drop,))
    by_drop = by_interval(low, high, test.max_drop)
    needed = questions_needed(changes, test.max_drop, alpha)
    reason = _reason(by_drop, test, span * low, span * high, needed, alpha)
    worst = max((by_drop, *(check.verdict for check in checks)), key=SEVERITY.index)
    broken = [check for check in checks if check.verdict != "pass"]
    reason += "".join(
        f"; {percent(check.value)} {check.name}, at most {percent(check.limit, None)} allowed"
        for check in broken
    )
    return BenchmarkVerdict(
        benchmark=test.benchmark,
        verdict=worst,
        reason=reason + ".",
        max_drop=span * test.max_drop,
        comparison=comparison,
        p_regression=test.p_regression,
        p_regression_adjusted=adjusted,
        p_pass=pass_p(changes, test.max_drop),
        low=span * low,
        low_level=1 - alpha,
        high=span * high,
        high_level=1 - level,
        detectable_drop=span * detectable_drop(changes, test.max_drop, level),
        questions_needed=needed,
        checks=tuple(checks),
    )


def _reason(
    verdict: Verdict, test: _Tested, low: float, high: float, needed: int | None, alpha: float
) -> str:
    comparison = test.compared.comparison
    scale = comparison.scale
    worst, best = scale.difference_text(low), scale.difference_text(high)
    difference = f"{scale.difference_text(comparison.difference)} points{mark(comparison)}"
    drop = scale.points_per_unit * scale.span * test.max_drop
    accepted = f"the accepted drop of {drop:g}"
    if verdict == "regression":
        return f"{difference}, at best {best}: worse by more than {accepted}"
    if verdict == "pass":
        return f"{difference}, at worst {worst}: not worse by more than {accepted}"
    n = comparison.n
    if test.compared.changes.counts and test.max_drop and not can_pass(n, test.max_drop, alpha):
        least, enough_to_pass = what_passes(n, test.max_drop, alpha)
        return (
            f"{difference}, from {worst} to {best}: with {n:,} questions, not even a model that changes no answer passes "
            f"with {accepted}; {enough_to_pass:,} questions or a drop of {least} could"
        )
    enough = "" if needed is None or needed <= n else f"; an unchanged model needs about {needed:,}"
    few = f"{n:,} questions" + (" and their labels" if test.compared.changes.corrected else "")
    return f"{difference}, from {worst} to {best}: {few} are too few to compare that with {accepted}{enough}"

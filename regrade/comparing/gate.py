"""The gate: compare a candidate with a baseline, and say pass, regression or cannot tell."""

from collections.abc import Collection, Iterable, Sequence

from regrade.comparing.comparison import HowToCompare
from regrade.comparing.gate_report import BenchmarkVerdict, GateReport, Verdict
from regrade.comparing.sides import Side
from regrade.comparing.together import Together, compare_sides
from regrade.comparing.verdict import judge
from regrade.errors import SettingsError
from regrade.settings import GateSettings


def gate(
    candidate: str | Side,
    settings: GateSettings,
    *,
    answers: str,
    benchmarks: Collection[str] = (),
    examples: int = 3,
) -> GateReport:
    """Return the verdict on a candidate.

    Args:
        candidate: Answer set id, model or alias, or answer sets that were found already.
        settings: What it is measured against.
        answers: Address of the answer repository.
        benchmarks: Only these. Empty: all that the baseline has.
        examples: Of each kind of flip, at most this many.

    Raises:
        SettingsError: If the settings name benchmarks that neither side has.
        RepositoryError: If a repository or a side is not there.
        DamagedAnswersError: If answers are damaged.
    """
    accepted = _accepted_drops(settings)
    least = None if settings.min_coverage is None else settings.min_coverage / 100
    how = HowToCompare(allow=settings.allow, min_coverage=least, examples=examples)
    together = compare_sides(
        settings.baseline,
        candidate,
        answers=answers,
        base_answers=settings.base_answers,
        benchmarks=benchmarks,
        how=how,
    )
    return gate_report(together, settings, accepted)


def gate_report(
    together: Together, settings: GateSettings, accepted: dict[str, float] | None = None
) -> GateReport:
    """Return the verdict on what was compared; see `gate`."""
    given = _accepted_drops(settings) if accepted is None else accepted
    known = {*together.base.sets, *together.candidate.sets}
    if unknown := sorted(given.keys() - known):
        raise SettingsError(
            f"A drop is given for '{unknown[0]}', which neither side has. Compared: {', '.join(sorted(known))}."
        )
    drops = {name: given.get(name, settings.max_drop) / 100 for name in together.base.sets}
    judged = judge(together.compared, drops, settings)
    verdicts = {verdict.benchmark: verdict for verdict in judged}
    for name, reason in together.refused.items():
        verdicts[name] = _no_verdict(name, reason, drops[name])
    for name in together.only_base:
        reason = f"The baseline has answers to {name}, the candidate has no complete ones."
        verdicts[name] = _no_verdict(name, reason, drops[name])
    ordered = tuple(verdicts[name] for name in together.base.sets)
    notes = tuple(
        f"{name}: the baseline has no answers to it, so nothing is said about it."
        for name in together.only_candidate
    )
    overall = _worst(benchmark.verdict for benchmark in ordered)
    return GateReport(
        verdict=overall,
        summary=_summary(overall, ordered),
        base=together.base.asked,
        candidate=together.candidate.asked,
        error_rate=settings.error_rate / 100,
        benchmarks=ordered,
        notes=notes,
    )


def _accepted_drops(settings: GateSettings) -> dict[str, float]:
    """Return the drops of single benchmarks in percentage points."""
    drops: dict[str, float] = {}
    for text in settings.max_drop_of:
        name, _, points = text.partition("=")
        try:
            drop = float(points)
        except ValueError:
            drop = -1.0
        if not name or not 0 <= drop < 100:
            raise SettingsError(
                f"'{text}' should be `benchmark=points` with 0 to 100 percentage points, such as `gsm8k=0.5`."
            )
        drops[name] = drop
    return drops


def _no_verdict(name: str, reason: str, max_drop: float) -> BenchmarkVerdict:
    return BenchmarkVerdict(benchmark=name, verdict="cannot tell", reason=reason, max_drop=max_drop)


def _worst(verdicts: Iterable[Verdict]) -> Verdict:
    found = set(verdicts)
    if "regression" in found:
        return "regression"
    return "cannot tell" if "cannot tell" in found or not found else "pass"


def _summary(overall: Verdict, benchmarks: Sequence[BenchmarkVerdict]) -> str:
    decisive = [benchmark for benchmark in benchmarks if benchmark.verdict == overall]
    if overall == "pass" and len(decisive) > 1:
        names = ", ".join(verdict.benchmark for verdict in decisive)
        return f"pass: none of {len(decisive)} benchmarks ({names}) is worse by more than accepted."
    reasons = " ".join(f"{verdict.benchmark}: {verdict.reason}" for verdict in decisive[:5])
    more = f" And {len(decisive) - 5} more." if len(decisive) > 5 else ""
    return f"{overall}: {reasons}{more}"

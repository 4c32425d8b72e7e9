"""The gate: compare a candidate with a baseline; the verdict is pass, regression or cannot tell."""

from collections.abc import Collection, Mapping, Sequence
from functools import partial

from regrade.answers.manifest import Stopped
from regrade.comparing.beforehand import accepted_drops, check_pairs
from regrade.comparing.comparison import CompareOptions
from regrade.comparing.gate_report import (
    SEVERITY,
    BenchmarkVerdict,
    GateReport,
    Verdict,
    summarised,
)
from regrade.comparing.sides import Side, find_side
from regrade.comparing.together import ComparedBenchmarks, compare_sides
from regrade.comparing.verdict import judge
from regrade.settings import GateSettings, ScoringOptions
from regrade.settings.errors import IncompleteError, SettingsError

_SAME: dict[bool, tuple[Verdict, str]] = {
    # A run judges what its model is now; whoever names two sides wants two, and may have promoted before the gate.
    True: ("pass", "The baseline is these answers of {0.model}: there was nothing to compare."),
    False: (
        "cannot tell",
        "Baseline and candidate are the same answers of {0.model}: nothing was compared. "
        "Name another baseline, or promote a candidate only after the gate.",
    ),
}
"""Verdict and reason for one and the same answers on both sides, by whether a run has just made the candidate's."""

_NO_DROP = (
    "{name} is scored from {scale.low:g} to {scale.high:g}, so a drop {given} says nothing about it. Say which drop of that score "
    "you accept, below {scale.span:g}, such as `--max-drop-of {name}=0.1`."
)
_ONE_SIDED = "The {1} has answers to {0}, the {2} has no complete answers to it."


def gate(
    candidate: str | Side,
    settings: GateSettings,
    *,
    answers: str,
    benchmarks: Collection[str] = (),
    scorer: str | None = None,
    examples: int = 3,
    scoring: ScoringOptions | None = None,
    stopped: Mapping[str, Stopped] | None = None,
) -> GateReport:
    """Return the verdict on a candidate.

    Args:
        candidate: Answer set id, model or alias; or answer sets that were just made, whose gate was checked before.
        settings: Baseline, limits and error rate.
        answers: Address of the answer repository.
        benchmarks: Benchmarks to compare. Empty: all that the baseline has.
        scorer: Scorer of both sides. None: the baseline's first scorer that the candidate also has.
        examples: Largest number of examples of each kind of flip.
        scoring: Options for scoring answers that have no stored scores.
        stopped: Verdicts by benchmark that were sure before all questions were answered.

    Raises:
        SettingsError: If the settings name benchmarks that neither side has, or not even an unchanged model could pass.
        RepositoryError: If a repository or a side does not exist.
        DamagedAnswersError: If answers are damaged.
    """
    accepted_drops(settings)  # fails early if a drop is invalid
    coverage = None if settings.min_coverage is None else settings.min_coverage / 100
    base, side = sides_to_judge(
        settings.baseline, candidate, answers, settings.base_answers or answers, benchmarks
    )
    named = isinstance(candidate, str)
    compared = compare_sides(
        base,
        side,
        answers=answers,
        benchmarks=benchmarks,
        options=CompareOptions(
            allow=settings.allow,
            min_coverage=coverage,
            scorer=scorer,
            examples=examples,
            scoring=scoring,
        ),
        check=partial(check_pairs, settings) if named else None,
    )
    return gate_report(compared, settings, stopped or {}, just_made=not named)


def sides_to_judge(
    base: str, candidate: str | Side, answers: str, base_answers: str, benchmarks: Collection[str]
) -> tuple[Side, Side]:
    """Return the baseline and the candidate of a gate; one of them may lack complete answers, which is then the verdict's reason.

    Raises:
        IncompleteError: If both lack them.
    """
    side = candidate if isinstance(candidate, Side) else _or_lacking(candidate, answers, benchmarks)
    if not side.sets:
        return find_side(base, base_answers, benchmarks), side
    return _or_lacking(base, base_answers, benchmarks), side


def _or_lacking(name: str, answers: str, benchmarks: Collection[str]) -> Side:
    try:
        return find_side(name, answers, benchmarks)
    except IncompleteError as error:
        return Side(name, {}, one_set=False, lacking=error.problem)


def gate_report(
    compared: ComparedBenchmarks,
    settings: GateSettings,
    stopped: Mapping[str, Stopped],
    *,
    just_made: bool = False,
) -> GateReport:
    """Return the verdict on compared benchmarks; see `gate`."""
    accepted = accepted_drops(settings)
    known = {*compared.base.sets, *compared.candidate.sets}
    if unknown := sorted(accepted.keys() - known):
        raise SettingsError(
            f"A drop is accepted for benchmark '{unknown[0]}', which neither side has. Known: {', '.join(sorted(known))}."
        )
    asked = compared.base.sets or compared.candidate.sets
    drops = {name: accepted.get(name, settings.max_drop) / 100 for name in asked}
    # Limits on the candidate's own answers are tested in any case.
    limited = just_made and (settings.max_unparsed, settings.max_truncated) != (None, None)
    same = {
        name: pair
        for name, pair in compared.compared.items()
        if pair.comparison.same_answers and not limited
    }
    told: dict[str, tuple[Verdict, str]] = {}
    """Verdicts that no comparison gave, with their reasons."""
    others = {n: pair for n, pair in compared.compared.items() if n not in same}
    spans = {name: pair.comparison.scale.span for name, pair in compared.compared.items()}
    for name, pair in compared.compared.items():
        scale = pair.comparison.scale
        if scale.unit != "%":
            drops[name] = accepted.get(name, 0.0) / scale.span
            if name in others and (name not in accepted or drops[name] >= 1):
                given = f"of {accepted[name]:g}" if name in accepted else "in percentage points"
                told[name] = "cannot tell", _NO_DROP.format(name=name, scale=scale, given=given)
                del others[name]
    sure = [early.verdict for early in stopped.values()]
    verdicts = {verdict.benchmark: verdict for verdict in judge(others, drops, settings, sure)}
    for name, pair in same.items():
        verdict, reason = _SAME[just_made]
        told[name] = verdict, reason.format(pair.comparison.base)
    told |= {name: ("cannot tell", reason) for name, reason in compared.refused.items()}
    for name in compared.only_base:
        told[name] = "cannot tell", _ONE_SIDED.format(name, "baseline", "candidate")
    for name in asked.keys() - compared.base.sets.keys():
        told[name] = "cannot tell", _ONE_SIDED.format(name, "candidate", "baseline")
    for name, early in stopped.items():
        told[name] = early.verdict, _sure_reason(early, 100 * drops[name])
    for name, (verdict, reason) in told.items():
        verdicts[name] = BenchmarkVerdict(
            benchmark=name,
            verdict=verdict,
            reason=reason,
            max_drop=spans.get(name, 1.0) * drops[name],
        )
    ordered = tuple(verdicts[name] for name in asked)
    notes = tuple(
        f"{name}: the baseline has no answers to it, so it is not compared."
        for name in compared.only_candidate
        if name not in asked
    )
    lacking = tuple(side.lacking for side in (compared.base, compared.candidate) if side.lacking)
    overall: Verdict = max((b.verdict for b in ordered), key=SEVERITY.index, default="cannot tell")
    return GateReport(
        verdict=overall,
        summary=_summary(overall, ordered),
        base=compared.base.name,
        candidate=compared.candidate.name,
        error_rate=settings.error_rate / 100,
        benchmarks=ordered,
        notes=(*notes, *lacking),
    )


def _sure_reason(early: Stopped, points: float) -> str:
    worse = "worse" if early.verdict == "regression" else "not worse"
    return (
        f"after {early.questions:,} of {early.of:,} questions it was sure: {worse} by more than the accepted drop of "
        f"{points:g}."
    )


def _summary(overall: Verdict, benchmarks: Sequence[BenchmarkVerdict]) -> str:
    decisive = [benchmark for benchmark in benchmarks if benchmark.verdict == overall]
    told = summarised(overall, benchmarks)
    if not told and decisive:
        names = ", ".join(verdict.benchmark for verdict in decisive)
        passed = (
            f"none of {len(decisive)} benchmarks ({names}) is"
            if decisive[1:]
            else f"{names} is not"
        )
        return f"pass: {passed} worse by more than the accepted drop."
    reasons = " ".join(f"{', '.join(of)}: {reason}" for reason, of in told.items())
    left_out = len({verdict.reason for verdict in decisive} - told.keys())
    return f"{overall}: {reasons}{f' And {left_out} more.' if left_out else ''}"

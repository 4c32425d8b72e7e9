"""The page of agreement of verdicts with people, and of the figure corrected by their labels."""

from collections.abc import Iterator, Sequence

from regrade.judging.labels.calibrated import Calibrated
from regrade.stats.agreement import Agreement
from regrade.stats.resampling import Estimate
from regrade.stats.scale import percent
from regrade.text.blocks import Block, Heading, Line, Table

HIGH_PREVALENCE = 0.9
"""Share of one label above which kappa and alpha say little."""


def blocks(calibrated: Calibrated, name: str = "", bias: Sequence[str] = ()) -> list[Block]:
    """Return figures, agreement and the table of labels; of each field, if verdicts have several.

    Args:
        calibrated: Figures corrected by labels.
        name: Name of the first field; "" for verdicts without fields.
        bias: Lines about signs of bias.
    """
    agreement = calibrated.agreement
    return [
        *([Heading(name, 3)] if name else []),
        *map(Line, (*calibration_lines(calibrated), *bias)),
        *([] if agreement is None else [_confusion(agreement)]),
        *(block for field, other in calibrated.fields.items() for block in blocks(other, field)),
    ]


def calibration_lines(calibrated: Calibrated) -> Iterator[str]:
    """Yield the corrected figure, agreement, and what limits them, a line each."""
    yield f"corrected: {calibrated.text}"
    if calibrated.reason:
        yield f"note: {calibrated.reason}"
    people = "1 person" if calibrated.raters == 1 else f"{calibrated.raters:,} people"
    agreement = calibrated.agreement
    if agreement is not None:
        yield f"verdicts against {people}, {agreement.n:,} answers: {_share(agreement.raw)} equal"
        yield f"Cohen's kappa {_number(agreement.kappa)}, Krippendorff's alpha {_number(agreement.alpha)}"
        yield from _prevalence(agreement)
    if calibrated.sensitivity is not None or calibrated.specificity is not None:
        yield (
            f"of the answers that people call right, the verdict says so of {percent(calibrated.sensitivity)} (sensitivity); "
            f"of the wrong ones, of {percent(calibrated.specificity)} (specificity)"
        )
    if calibrated.people is not None:
        yield f"{people} among themselves: Krippendorff's alpha {_number(calibrated.people)}"


def _confusion(agreement: Agreement) -> Table:
    """Return a row for each verdict, with the number of answers by people's label."""
    columns = ("verdict", *(f"people: {label}" for label in agreement.labels))
    rows = [
        (label, *(f"{count:,}" for count in counts))
        for label, counts in zip(agreement.labels, agreement.table, strict=True)
    ]
    return Table(columns, rows)


def _prevalence(agreement: Agreement) -> Iterator[str]:
    shares = [
        f"{label} {percent(judge)} of the verdicts, {percent(people)} of the labels"
        for label, (judge, people) in zip(agreement.labels, agreement.prevalence, strict=True)
    ]
    yield f"prevalence: {'; '.join(shares)}"
    if max(people for _, people in agreement.prevalence) >= HIGH_PREVALENCE:
        yield "nearly all answers have one label: kappa and alpha are unstable then, look at the table"


def _share(estimate: Estimate) -> str:
    return f"{percent(estimate.value)} ({percent(estimate.low)} to {percent(estimate.high)})"


def _number(estimate: Estimate) -> str:
    if estimate.value is None:
        return "not defined (only one label occurs)"
    if estimate.low is None or estimate.high is None:
        return f"{estimate.value:.2f} (no interval)"
    return f"{estimate.value:.2f} ({estimate.low:.2f} to {estimate.high:.2f})"

"""Signs of a judge's bias and the result of its self-test, as lines of text."""

from collections.abc import Iterable, Iterator

from regrade.judging.bias import Bias
from regrade.records.rubrics.self_test import MOVED, RIGHT, WRONG
from regrade.results.results import Evaluation
from regrade.results.tables import titles
from regrade.stats.named import Aggregate
from regrade.stats.resampling import Estimate
from regrade.stats.scale import Scale, percent


def bias_lines(bias: Bias, scale: Scale) -> Iterator[str]:
    """Yield a line for each sign of bias but the family, which is a note.

    Args:
        bias: Signs of bias of a judge run.
        scale: Scale of its verdicts.
    """
    if bias.length is not None:
        yield f"Spearman correlation of verdict and length: {_signed(bias.length.spearman)}"
        means = ", ".join(
            f"{scale.text(quarter.mean)} ({quarter.shortest:,} to {quarter.longest:,} characters)"
            for quarter in bias.length.quarters
        )
        yield f"mean verdict by quarter of length: {means}"
    if bias.order is not None:
        share = bias.order.prefers_first
        between = ""
        if share.low is not None:
            between = f", {percent(share.low)} to {percent(share.high)}"
        yield (
            f"the answer that stands first is preferred in {percent(share.value)}{between} of {bias.order.n:,} verdicts (50 % "
            "without preference)"
        )
        if bias.order.inconsistent is not None:
            yield f"{percent(bias.order.inconsistent)} of the pairs change their verdict with the order, and count as ties"
    if bias.controlled is not None:
        yield f"wins with answers of equal length: {_share(bias.controlled.length)}"
        yield f"wins with answers of equal length, headings, lists and bold text: {_share(bias.controlled.style)}"
    if bias.reason:
        yield f"lengths of the judged answers are not known: {bias.reason}"


def self_test_lines(results: Iterable[Aggregate], scale: Scale) -> Iterator[str]:
    """Yield the result of a self-test in a line; none for other judge runs.

    Args:
        results: Other results of the judge run's scoring.
        scale: Scale of its verdicts.
    """
    found = {result.name: result for result in results}
    if (moved := found.get(MOVED)) is not None:
        means = {
            kind: found[name].value
            for kind in (RIGHT, WRONG)
            if (name := f"self_test_{kind}") in found
        }
        parts = [
            f"the judge followed {round(moved.value * moved.n)} of {moved.n} instructions in answers, and should follow none",
            *(
                f"mean verdict on {kind} answers: {scale.text(mean)}"
                for kind, mean in means.items()
            ),
        ]
        if len(means) == 2 and means[RIGHT] <= means[WRONG]:
            parts.append(
                "the verdicts do not tell right from wrong answers, so that the count of instructions says nothing"
            )
        yield "; ".join(parts)


def _share(estimate: Estimate | None) -> str:
    if estimate is None:
        return "not known, the pairs are too few or too alike"
    return f"{percent(estimate.value)} ({percent(estimate.low)} to {percent(estimate.high)})"


def _signed(estimate: Estimate) -> str:
    if estimate.value is None:
        return "not defined, all verdicts or all lengths are equal"
    if estimate.low is None or estimate.high is None:
        return f"{estimate.value:+.2f}"
    return f"{estimate.value:+.2f} ({estimate.low:+.2f} to {estimate.high:+.2f})"


def evaluation_lines(evaluation: Evaluation) -> Iterator[str]:
    """Yield a line for each self-test and each sign of bias in the judge runs of an evaluation."""
    named = titles(evaluation)
    for answers in evaluation.answer_sets:
        for score in answers.scores:
            if score.bias is not None:
                tested = self_test_lines(score.other_results, score.scale)
                for line in (*tested, *bias_lines(score.bias, score.scale)):
                    yield f"{named[answers.answer_set_id]}: {line}"

"""Reasons to doubt a score: the scorer does not fit the answers, or disagrees with scores that came with them."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, TypeGuard

from regrade.answers.scorefile import ORIGINAL, ScoreFile
from regrade.answers.sets import AnswerSet
from regrade.records.rubrics.facts import judge_run
from regrade.records.rubrics.self_test import MOVED
from regrade.scorers import load_scorer, method_of, scorer_names
from regrade.scorers.sessions import SessionScorer
from regrade.scoring.batches import batches_for, score_batch
from regrade.settings.errors import PluginError, SettingsError
from regrade.stats.metrics import Metrics
from regrade.stats.scale import SHARES, percent

if TYPE_CHECKING:
    from regrade.scorers.base import Scorer

HARNESS_SCORER = "lm_eval"
RULES_OF_A_BENCHMARK = frozenset(
    ("anls", "choice_or_text", "mathvista", "mmmu", "ocrbench", "relaxed_accuracy")
)
"""Scorers that accept more than an equal answer, such as a text that holds it: that they find some right says nothing."""
_MIN_ANSWERS = 20
"""Fewest answers that make an accuracy of 0 suspicious."""
_SAMPLED = 1_000
"""Number of answers on which the other scorers are tried."""
_MIN_SHARE = 0.02
"""Least share of right answers of a scorer that fits better."""
MOST_TRUNCATED = 0.05
"""Share of truncated answers above which the score measures the limit more than the model."""


def better_scorers(answers: AnswerSet, scorer_name: str, overall: Metrics) -> tuple[str, ...]:
    """Return the scorers that find right answers although the benchmark's own scorer finds none, the best first.

    Empty for an accuracy above 0, for few answers, and for scorers that do not give the headline number.
    """
    is_default = scorer_name == answers.manifest.scorers[0]
    if not is_default or overall.accuracy != 0 or overall.n < _MIN_ANSWERS:
        return ()
    if judge_run(answers.manifest.specification) is not None:  # what a verdict says is no answer
        return ()
    method = method_of(load_scorer(scorer_name))
    shares = {}
    for name in scorer_names():
        # The harness' scores only its own tasks, and is slow to import.
        if name == HARNESS_SCORER or name in RULES_OF_A_BENCHMARK:
            continue
        try:
            other = load_scorer(name)
            if isinstance(other, SessionScorer):  # takes too long
                continue
            if name != scorer_name and method_of(other) == method:
                shares[name] = _share_right(answers, other)
        except (SettingsError, PluginError):  # the targets are not of its kind
            continue
    fitting = [name for name, share in shares.items() if share >= _MIN_SHARE]
    return tuple(sorted(fitting, key=lambda name: -shares[name]))


def _share_right(answers: AnswerSet, scorer: "Scorer") -> float:
    right, rows = 0.0, 0
    for batch in batches_for(answers, scorer):
        some = batch.slice(0, _SAMPLED - rows)
        rows += some.num_rows
        right += sum(
            float(value or 0.0)
            for value in score_batch(scorer.score, scorer.columns, some)["value"].to_pylist()
        )
        if rows >= _SAMPLED:
            break
    return right / rows if rows else 0.0


def notes(answers: AnswerSet, file: ScoreFile) -> Iterator[str]:
    """Yield a sentence for each reason to doubt the benchmark's headline score."""
    yield from answers.manifest.doubts
    overall = file.summary.overall
    if file.scorer != answers.manifest.scorers[0]:
        return
    if judge_run(answers.manifest.specification) is not None:
        yield from _judge_notes(file)
        return
    if overall.accuracy is None:
        return
    if is_cut_short(overall.truncated_rate):
        yield _truncated(answers, overall.truncated_rate)
    if overall.unfinished:
        yield (
            f"{overall.unfinished:,} of {overall.rows:,} answers never ended their reasoning. They count as wrong, and not as "
            "unparsed. Raise `--max-tokens`, or limit the reasoning with `--thinking-token-budget`."
        )
    if overall.timeouts:
        yield (
            f"scorer '{file.scorer}' came to no result for {overall.timeouts:,} of {overall.rows:,} answers within its limits of "
            "time and memory. They count as wrong."
        )
    counted = f"scorer '{file.scorer}' finds 0 of {overall.n:,} answers right ({overall.unparsed:,} unparsed)"
    if file.better_scorers:
        names = ", ".join(f"`--scorer {name}`" for name in file.better_scorers)
        yield f"{counted} and does not fit these answers: this is no headline score. {names} finds right ones."
    elif overall.accuracy == 0 and overall.n >= _MIN_ANSWERS:
        yield f"{counted}; no other scorer that was tried does better."
    difference = _difference(answers, file)
    if difference is not None:
        yield difference


def _judge_notes(file: ScoreFile) -> Iterator[str]:
    """Yield a sentence for each reason to doubt the verdicts of a judge."""
    overall = file.summary.overall
    if file.low_coverage is not None:
        yield (
            f"the judge gave a verdict on {percent(file.low_coverage)} of the answers only, which is below the floor: this is no "
            "headline score. `regrade judge` asks for verdicts on failed requests again; `--min-coverage` sets the floor."
        )
    if is_cut_short(overall.truncated_rate):
        yield f"{percent(overall.truncated_rate)} of the verdicts were cut off. Raise `--max-tokens`."
    for result in file.aggregates:
        if result.name == MOVED and result.value > 0:
            moved = round(result.value * result.n)
            yield (
                f"self-test: the judge followed the instructions of {moved} of {result.n} answers that told it what to say. Do not "
                "trust it with answers of people or models that know they are judged."
            )


def is_cut_short(truncated_rate: float | None) -> TypeGuard[float]:
    """Return True if too many answers were truncated for a meaningful score."""
    return truncated_rate is not None and truncated_rate > MOST_TRUNCATED


def _truncated(answers: AnswerSet, rate: float) -> str:
    sampling = answers.manifest.specification.sampling
    limit = "at the limit of tokens" if sampling is None else f"at {sampling.max_tokens:,} tokens"
    return (
        f"{percent(rate)} of the answers were cut off {limit}, so that the score is too low. "
        "Raise `--max-tokens` (and the model's context, `--engine.max-model-len`, if it is set)."
    )


def _difference(answers: AnswerSet, file: ScoreFile) -> str | None:
    """Return a sentence if a score differs by more than its error from all scores that came with the answers."""
    ours = file.summary.overall
    closest: tuple[float, ScoreFile] | None = None
    for original in answers.intact_scores():
        theirs = original.summary.overall
        if original.scorer != ORIGINAL or theirs.n != ours.n or theirs.accuracy_stderr is None:
            continue
        distance = abs((theirs.accuracy or 0.0) - (ours.accuracy or 0.0))
        if distance <= theirs.accuracy_stderr:
            return None
        if closest is None or distance < closest[0]:
            closest = (distance, original)
    if closest is None:
        return None
    original = closest[1]
    theirs = original.summary.overall
    return (
        f"{file.title} gives {percent(ours.accuracy)}, but the imported file says "
        f"{SHARES.mean_text(theirs.accuracy, theirs.accuracy_stderr)} ({original.title}). `regrade diff` shows the answers that differ."
    )

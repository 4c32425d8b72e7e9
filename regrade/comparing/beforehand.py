"""Checks of a gate before it runs: its baseline is there, and its questions can show the drop that is asked about."""

import logging
from collections.abc import Iterable, Mapping, Sequence

from regrade.answers.aliases import read_alias
from regrade.answers.manifest import Manifest
from regrade.answers.opening import open_repository
from regrade.comparing.likeness import NotComparableError, differences
from regrade.comparing.pairing import MIN_COVERAGE
from regrade.comparing.sides import Side, find_side
from regrade.comparing.verdict import error_at_end
from regrade.scorers import JUDGE
from regrade.settings import JUDGE_PREFIX, GateSettings
from regrade.settings.errors import SettingsError
from regrade.stats.power import can_pass, drop_that_passes, what_passes
from regrade.text.text import counted

logger = logging.getLogger("regrade.gate")
CHANGED = (0.05, 0.2)
"""Shares of changed answers for which a gate says beforehand what its questions can show: noise, and another training."""
_MOST = 5
"""Benchmarks that an error names, so that it stays readable."""


def is_first(settings: GateSettings, answers: str, benchmarks: Sequence[str]) -> bool:
    """Return True if the alias to move names no answers to these benchmarks yet, so that nothing can be compared."""
    if not settings.promote:
        return False
    repository = open_repository(answers, create=False, empty=True)
    head = repository.head()
    alias = None if head is None else read_alias(repository, head, settings.baseline)
    return alias is None or alias.answer_sets.keys().isdisjoint(benchmarks)


def check_baseline(
    settings: GateSettings, answers: str, benchmarks: Sequence[str], limit: int | None = None
) -> Side:
    """Return the baseline of a gate, unless it does not exist, or has too few questions for any model to pass.

    Args:
        settings: Baseline and limits.
        answers: Repository of the answers to judge.
        benchmarks: Benchmarks to judge.
        limit: Most questions of each benchmark that are evaluated. None: all.

    Raises:
        SettingsError: If nothing is stored yet, or not even an unchanged model would pass.
        RepositoryError: If the repository of the baseline does not exist, or no answer set matches.
        DamagedAnswersError: If the matching answer set is damaged.
    """
    own = settings.base_answers is None
    repository = open_repository(settings.base_answers or answers, create=False, empty=own)
    if own and repository.head() is None:
        raise SettingsError(
            f"There is no baseline '{settings.baseline}' yet: nothing is stored in '{repository.uri}'. Add `gate.promote`, which "
            "makes the first run the baseline, or evaluate a model without a gate and name it with `regrade promote`."
        )
    side = find_side(settings.baseline, repository.uri, benchmarks)
    sets = ((name, found.manifest) for name, found in side.sets.items())
    shown_beforehand(
        settings,
        {
            name: min(manifest.n_samples, limit or manifest.n_samples)
            for name, manifest in sets
            if _is_counted(name, manifest)
        },
    )
    return side


def check_planned(
    settings: GateSettings, answers: str, planned: Sequence[Manifest], *, first: bool = False
) -> list[str]:
    """Refuse answers that could not be judged once they are all there; return sentences about what their questions can show.

    Args:
        settings: Baseline and limits.
        answers: Repository of the answers.
        planned: Manifests of the answers, none of which may be there yet.
        first: There is no baseline yet, and these answers become it. The gate of the next ones is checked then, too.

    Raises:
        NotComparableError: If more than the model differs, or too few questions are the same.
        SettingsError: If not even an unchanged model would pass.
    """
    by_name = {manifest.specification.benchmark.name: manifest for manifest in planned}
    pairs = {name: (manifest, manifest) for name, manifest in by_name.items()}
    if not first:
        side = find_side(settings.baseline, settings.base_answers or answers, [*by_name])
        known = {name: found.manifest for name, found in side.sets.items()}
        pairs = {name: (known[name], by_name[name]) for name in by_name if name in known}
        check_comparable(pairs.values(), settings)
    return shown_of(settings, pairs)


def check_pairs(settings: GateSettings, pairs: Mapping[str, tuple[Manifest, Manifest]]) -> None:
    """Refuse a gate that not even an unchanged model would pass; log what its questions can show.

    Args:
        settings: Limits and error rate.
        pairs: Manifests of baseline and candidate by benchmark.

    Raises:
        SettingsError: If not even an unchanged model would pass.
    """
    for line in shown_of(settings, pairs):
        logger.info("%s", line)


def shown_of(settings: GateSettings, pairs: Mapping[str, tuple[Manifest, Manifest]]) -> list[str]:
    """Return `shown_beforehand` of the manifests of baseline and candidate by benchmark."""
    questions = {
        name: min(base.n_samples, candidate.n_samples)
        for name, (base, candidate) in pairs.items()
        if _is_counted(name, base)
    }
    return shown_beforehand(settings, questions)


def _is_counted(name: str, manifest: Manifest) -> bool:
    """Return True if the accepted drop is one in percentage points, which grades of a judge are not."""
    return not name.startswith(JUDGE_PREFIX) and JUDGE not in manifest.scorers[:1]


def shown_beforehand(settings: GateSettings, questions: Mapping[str, int]) -> list[str]:
    """Return sentences about the drop that the number of questions can show, one for benchmarks of which it is the same.

    Args:
        settings: Limits and error rate.
        questions: Number of questions by benchmark, one right or wrong answer each.

    Raises:
        SettingsError: If not even a model that changes no answer would pass. A `max_drop` of 0 asks for a better model.
    """
    accepted, alpha = accepted_drops(settings), error_at_end(settings)
    problems: list[str] = []
    lines: dict[str, list[str]] = {}
    for name, n in questions.items():
        points = accepted.get(name, settings.max_drop)
        if points and not can_pass(n, points / 100, alpha):
            least, enough = what_passes(n, points / 100, alpha)
            problems.append(
                f"{name}: {counted(n, 'question')} cannot show that a model drops by at most "
                f"{counted(points, 'point')}; not even an unchanged model would pass. Take at least {enough:,} "
                f"questions, or accept {counted(least, 'point')} (`--max-drop {least}`, or `--max-drop-of {name}={least}`)."
            )
        drops = " or ".join(f"{100 * drop_that_passes(n, share, alpha):.1f}" for share in CHANGED)
        shares = " or ".join(f"{100 * share:g}" for share in CHANGED)
        line = (
            f"with {counted(n, 'question')}, an unchanged model passes in 80 % of the runs if the accepted drop is at least "
            f"{drops} points while {shares} % of its answers change; accepted: {points:g}"
        )
        lines.setdefault(line, []).append(name)
    if problems:
        more = f" And {len(problems) - _MOST} more." if len(problems) > _MOST else ""
        raise SettingsError(" ".join(problems[:_MOST]) + more)
    return [f"{', '.join(names)}: {line}" for line, names in lines.items()]


def check_comparable(pairs: Iterable[tuple[Manifest, Manifest]], settings: GateSettings) -> None:
    """Refuse candidates that could not be compared once all their answers are there; what only answers show is checked later.

    Args:
        pairs: Manifests of the baseline and of the planned candidate for each benchmark.
        settings: Differences that are allowed, and the share of the questions that has to be compared.

    Raises:
        NotComparableError: If more than the model differs.
    """
    percent = 100 * MIN_COVERAGE if settings.min_coverage is None else settings.min_coverage
    problems, kinds = [], []
    for base, candidate in pairs:
        if base.answer_set_id == candidate.answer_set_id or JUDGE in candidate.scorers[:1]:
            continue  # refused at the end in other words; a judge's verdicts are compared, not these answers
        found = differences(base, candidate)[0]
        few, many = sorted((base.n_samples, candidate.n_samples))
        if few < percent / 100 * many:
            asked = f"{candidate.n_samples:,} questions, and the baseline has {base.n_samples:,} (`--limit`)"
            found.append(("overlap", f"{asked}; {percent:g} % have to be compared"))
        refused = [(kind, text) for kind, text in found if kind not in settings.allow]
        name = candidate.specification.benchmark.name
        problems += [f"{name}: {text}" for _, text in refused]
        kinds += [kind for kind, _ in refused]
    if problems:
        raise NotComparableError(problems, tuple(dict.fromkeys(kinds)))


def accepted_drops(settings: GateSettings) -> dict[str, float]:
    """Return the accepted drops set by `max_drop_of`, by benchmark, in percentage points or those of the score.

    Raises:
        SettingsError: If one is invalid.
    """
    drops: dict[str, float] = {}
    for text in settings.max_drop_of:
        name, _, points = text.partition("=")
        try:
            drop = float(points)
        except ValueError:
            drop = -1.0
        if not name or not 0 <= drop < 100:
            raise SettingsError(
                f"`--max-drop-of {text}` should be `benchmark=points` with 0 to 100 points, such as `gsm8k=0.5`."
            )
        drops[name] = drop
    return drops

"""Rewards of runs of agents as original scores, and the numbers of tasks and their trials."""

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from regrade.exchange.importing.base import (
    ImportedRow,
    OriginalScore,
    Reported,
    RowScore,
    TableOptions,
)
from regrade.exchange.importing.files import SourceFile, finite
from regrade.records.characters import whole_characters

REWARD = "reward"
_Trial = TypeVar("_Trial")


def numbered(
    trials: Iterable[_Trial], task_of: Callable[[_Trial], Hashable]
) -> Iterator[tuple[int, int, _Trial]]:
    """Yield each trial after the number of its task, in order of appearance, and its own number among those of the task."""
    places: dict[Hashable, int] = {}
    counts: Counter[Hashable] = Counter()
    for trial in trials:
        task = task_of(trial)
        yield places.setdefault(task, len(places)), counts[task], trial
        counts[task] += 1


def reward_scores(values: Mapping[str, object]) -> dict[str, RowScore]:
    """Return rewards and metrics of a trial; null ones, and those that are no numbers, are missing."""
    numbers = {whole_characters(name): finite(value) for name, value in values.items()}
    return {name: RowScore(value) for name, value in numbers.items() if value is not None}


def scored(
    file: SourceFile,
    rows: Sequence[ImportedRow],
    options: TableOptions,
    reported: Reported | None = None,
) -> tuple[list[ImportedRow], tuple[OriginalScore, ...]]:
    """Return rows with the scores that have a scale, and these scores, the reward first.

    The reward has the scale that the user states, else 0 to 1. Other metrics have no stated scale, and are scores only if all
    their values are from 0 to 1: numbers of turns, for example, are not.

    Raises:
        ImportFileError: If a reward is outside of its scale.
    """
    low, high = options.score_range or (0.0, 1.0)
    names = dict.fromkeys(name for row in rows for name in row.scores)
    if not names:
        return list(rows), ()
    main = REWARD if REWARD in names else next(iter(names))
    kept = [OriginalScore(main, reported, low, high)]
    for name in names:
        scale = kept[0] if name == main else OriginalScore(name)
        found = [(row.index, row.scores[name].value) for row in rows if name in row.scores]
        outside = [(refusal, index) for index, v in found if (refusal := scale.refusal(v))]
        if name == main and outside:
            raise file.error(*outside[0])
        if name != main and not outside:
            kept.append(OriginalScore(name))
    wanted = {original.name for original in kept}
    chosen = [
        replace(row, scores={name: s for name, s in row.scores.items() if name in wanted})
        for row in rows
    ]
    return chosen, tuple(kept)

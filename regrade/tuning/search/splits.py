"""The splits of a model over GPUs that a search may try, the most promising first."""

from collections.abc import Mapping

from regrade.engines.base import BaseEngineSettings, parallel_by_hand
from regrade.tuning.plan.plan import MemoryPlan, SplitPlan
from regrade.tuning.search.search import TOKENS, Split

SHORTER = 4
"""Factor by which more requests are expected to fit than requests of the greatest length: most are shorter."""


def splits_to_try(engine: BaseEngineSettings, planned: MemoryPlan | None = None) -> list[Split]:
    """Return the splits to try: the plan's choice first, then those whose KV cache holds most.

    Args:
        engine: Settings; sizes and tokens of a step that were set by hand are kept.
        planned: Plan for this machine. None: only the split that the settings say.
    """
    by_hand = parallel_by_hand(engine)
    tokens = getattr(engine, TOKENS, None)
    kept = {} if tokens is None else {TOKENS: tokens}
    return [
        Split({**split.settings, **kept}, split.most_in_flight)
        for split in _splits(by_hand, planned)
    ]


def _splits(by_hand: Mapping[str, int], planned: MemoryPlan | None) -> list[Split]:
    if planned is None or planned.choice is None:
        return [Split(by_hand)]
    choice = planned.choice
    first = choice.tensor, choice.pipeline, choice.data
    fitting = sorted(
        (split for split in planned.splits if split.fits),
        key=lambda split: (_sizes(split) != first, split.pipeline, -split.total_concurrency),
    )
    splits = [_split(split) for split in fitting]
    kept = [split for split in splits if by_hand.items() <= split.settings.items()]
    return kept or [Split(by_hand)]


def _sizes(split: SplitPlan) -> tuple[int, int, int]:
    return split.tensor, split.pipeline, split.data


def _split(split: SplitPlan) -> Split:
    most = None if split.concurrency is None else max(1, int(SHORTER * split.total_concurrency))
    return Split(split.settings, most)

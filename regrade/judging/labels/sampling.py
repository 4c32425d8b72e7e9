"""Random samples of answers, in an order that depends only on a seed and the answers' keys.

The order is the same on every machine, and adding answers does not change the order of the others: a larger sample contains
a smaller one, and two models that answered the same questions get labels of the same questions. Anyone can check later that
labels are of the first answers in that order, which is what makes them a random part.
"""

import hashlib
from collections.abc import Collection, Sequence
from math import sqrt

Key = tuple[str, int]
"""Sample id and repeat of an answer."""
LEAST_LABELLED = 0.95
"""Least share of labelled answers among the first answers of the order; people leave some out."""


def random_order(keys: Sequence[Key], seed: int) -> list[int]:
    """Return the positions of the keys in the random order of a seed."""
    return sorted(range(len(keys)), key=lambda position: _place(keys[position], seed))


def population_sha256(keys: Collection[Key]) -> str:
    """Return the hash of a population, in any order."""
    lines = "\n".join(sorted(f"{repeat} {sample_id}" for sample_id, repeat in keys))
    return hashlib.sha256(lines.encode()).hexdigest()


def random_part(
    keys: Sequence[Key], labelled: Collection[Key], seed: int, sampled: float = 1.0
) -> list[int]:
    """Return the positions of labelled answers that are a random part of all; empty if there is no such part.

    They are the labelled answers among the first of the order, up to where 95 % of these are labelled.

    Args:
        keys: All answers.
        labelled: Labelled answers.
        seed: Seed of the order.
        sampled: Share of the answers that the sample was drawn from; the others are not labelled, wherever they stand.
    """
    known = set(labelled)
    part: list[int] = []
    longest = 0
    for seen, position in enumerate(random_order(keys, seed), start=1):
        if keys[position] in known:
            part.append(position)
            chance = 3 * sqrt(sampled * (1 - sampled) * seen)  # where the others stand in the order
            if len(part) >= LEAST_LABELLED * sampled * seen - chance:
                longest = len(part)
    return part[:longest]


def _place(key: Key, seed: int) -> bytes:
    return hashlib.sha256(f"{seed}\n{key[1]}\n{key[0]}".encode()).digest()

"""Keys with which people give labels in a terminal."""

from collections.abc import Iterator, Sequence
from itertools import count

SKIP, BACK, QUIT = ".", "<", "q"
COMMANDS = {SKIP: "skip", BACK: "back", QUIT: "quit"}


def label_keys(labels: Sequence[str]) -> dict[str, str]:
    """Return a key for each label: its first letter or digit that is free, else a number; empty if people type numbers.

    A key that is itself a label stands for no other one.
    """
    whole = {label.lower() for label in labels}
    keys: dict[str, str] = {}
    for label in labels:
        key = next(c for c in _candidates(label.lower(), whole) if c not in keys | COMMANDS)
        keys[key] = label
    return keys


def _candidates(label: str, whole: set[str]) -> Iterator[str]:
    if len(label) == 1:
        yield label
    yield from (c for c in label if c.isalnum() and c not in whole)
    yield from (str(number) for number in count(1) if str(number) not in whole)

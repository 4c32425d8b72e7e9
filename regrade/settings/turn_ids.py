"""Ids of the turns of a conversation: `<id of the question>#<turn>/<turns>`, from 1, such as `3f9a2c1b00e4d5a6#2/3`."""

import re
from collections.abc import Iterable
from typing import NamedTuple

_TURN = re.compile(r"(?P<question>.+)#(?P<number>[1-9][0-9]{0,3})/(?P<of>[1-9][0-9]{0,3})")


class Turn(NamedTuple):
    """Place of a turn."""

    question: str
    """Id of the whole conversation."""
    number: int
    """Number of the turn, from 1."""
    of: int
    """Turns of the conversation."""

    @property
    def id(self) -> str:
        """Sample id of the turn."""
        return f"{self.question}#{self.number}/{self.of}"

    @property
    def earlier(self) -> "tuple[Turn, ...]":
        """The turns before it, in order."""
        return tuple(self._replace(number=number) for number in range(1, self.number))


def turn_of(sample_id: str) -> Turn | None:
    """Return the turn that a sample id names; None if it is no turn of a conversation."""
    found = _TURN.fullmatch(sample_id)
    if found is None or int(found["number"]) > int(found["of"]):
        return None
    return Turn(found["question"], int(found["number"]), int(found["of"]))


def question_ids(sample_ids: Iterable[str]) -> list[str]:
    """Return the id of the question of each sample: turns of one conversation have the same, and are not independent."""
    return [
        sample_id if "#" not in sample_id or (turn := turn_of(sample_id)) is None else turn.question
        for sample_id in sample_ids
    ]


def question_numbers(sample_ids: Iterable[str]) -> list[int]:
    """Return the number of the question of each sample, from 0 in the order in which they come."""
    numbers: dict[str, int] = {}
    return [numbers.setdefault(name, len(numbers)) for name in question_ids(sample_ids)]

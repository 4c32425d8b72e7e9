"""Questions with four choices, in four subjects."""

import random
from collections.abc import Callable, Iterator
from typing import TypedDict

from infra.demo.holdout import is_held_out

ANIMALS = (
    "horse", "goat", "fox", "mouse", "camel", "otter", "sheep", "tiger", "duck", "frog", "whale",
    "eagle", "beaver", "donkey", "rabbit", "lizard",
)  # fmt: skip
OBJECTS = (
    "hammer", "saw", "drill", "spade", "rake", "chisel", "wrench", "axe", "violin", "drum",
    "flute", "piano", "harp", "cello", "banjo", "plum", "pear", "lime", "mango", "peach", "grape",
    "cherry", "chair", "lamp", "carpet", "mirror", "shelf", "bottle", "spoon", "kettle", "ladder",
    "bucket",
)  # fmt: skip


class Item(TypedDict):
    """A question with its four choices and the index of the right one."""

    question: str
    choices: list[str]
    answer: int
    subject: str


def _animal(rng: random.Random) -> tuple[str, str, list[str]]:
    return "Which of these is an animal?", rng.choice(ANIMALS), rng.sample(OBJECTS, 3)


def _comparison(rng: random.Random) -> tuple[str, str, list[str]]:
    *wrong, right = sorted(rng.sample(range(10, 100), 4))
    rng.shuffle(wrong)
    return "Which number is the largest?", str(right), [str(number) for number in wrong]


def _sum(rng: random.Random) -> tuple[str, str, list[str]]:
    def written(error: int) -> str:
        first, second = rng.randint(2, 9), rng.randint(2, 9)
        return f"{first}+{second}={first + second + error}"

    wrong = [written(rng.choice((-3, -2, -1, 1, 2, 3))) for _ in range(3)]
    return "Which sum is right?", written(0), wrong


def _sequence(rng: random.Random) -> tuple[str, str, list[str]]:
    def row() -> list[int]:
        return sorted(rng.sample(range(1, 10), 3))

    wrong = []
    for _ in range(3):
        first, second, third = row()
        wrong.append(
            rng.choice(
                (
                    (first, third, second),
                    (second, first, third),
                    (third, second, first),
                    (third, first, second),
                )
            )
        )
    rows = [" ".join(map(str, numbers)) for numbers in (row(), *wrong)]
    return "Which row of numbers goes up?", rows[0], rows[1:]


SUBJECTS: dict[str, Callable[[random.Random], tuple[str, str, list[str]]]] = {
    "animals": _animal,
    "comparison": _comparison,
    "sums": _sum,
    "sequences": _sequence,
}


def choice_items(
    rng: random.Random, subject: str, answers: Iterator[int], *, held_out: bool
) -> Iterator[Item]:
    """Yield questions of a subject, one for each item of `answers`; questions may repeat.

    Args:
        rng: Random numbers for everything except the position of the right answer.
        subject: A key of `SUBJECTS`.
        answers: Position of the right choice in each question, 0 to 3.
        held_out: True for test questions, False for training questions. A question with the same set of choices, in
            any order, is always in the same group.
    """
    for answer in answers:
        question, right, wrong = SUBJECTS[subject](rng)
        while (
            len({right, *wrong}) < 4
            or is_held_out(f"{question} {sorted([right, *wrong])}") != held_out
        ):
            question, right, wrong = SUBJECTS[subject](rng)
        choices = [*wrong[:answer], right, *wrong[answer:]]
        yield Item(question=question, choices=choices, answer=answer, subject=subject)

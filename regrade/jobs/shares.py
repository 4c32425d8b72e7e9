"""Shares of an answer set: many machines generate it together, without a coordinator.

The answer repository is the meeting place. Each machine generates its own part first and then helps with the rest; at
each publish it leaves out rows that the repository has meanwhile. Merging keeps one row per question.
"""

import os
import random
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Self

from pydantic import AfterValidator, WithJsonSchema

from regrade.settings.errors import SettingsError

AUTO = "auto"
MACHINES_VARIABLE = "REGRADE_MACHINES"
"""Environment variable with the number of machines, for Kubernetes, which tells a pod only its index."""
MOST_MACHINES = 100_000
BLOCK = 64
"""Questions of a block. Neighbours often begin with the same examples, which one engine's prefix cache then holds."""
PUBLISH_SECONDS = 60.0
"""Seconds between two commits of a machine that is alone."""
PUBLISH_VARIABLE = "REGRADE_PUBLISH_SECONDS"
"""Environment variable that overrides `PUBLISH_SECONDS`."""
COMMIT_SECONDS = 30.0
"""Seconds between two commits of all machines together; the Hub allows about 128 commits per hour and account."""
_PATTERN = re.compile(r"([1-9][0-9]{0,5})/([1-9][0-9]{0,5})")


@dataclass(frozen=True, slots=True)
class Share:
    """Place of a machine among the machines that generate the same answers."""

    number: int
    """Number of the share, 1 to `of`."""
    of: int
    """Number of machines."""

    def __str__(self) -> str:
        return f"{self.number}/{self.of}"

    @property
    def folder_suffix(self) -> str:
        """Suffix of the spool's folder, so that machines with one file system have a spool each."""
        return f".{self.number}-of-{self.of}"

    def order(self, questions: int) -> list[int]:
        """Return the positions of all questions in the order in which this machine generates them.

        Its own contiguous part comes first, then the other parts in blocks, in a random order that differs between
        machines. In the same order, each machine would generate answers that the machine before it has not published
        yet.

        Args:
            questions: Number of questions.
        """
        start = questions * (self.number - 1) // self.of
        end = questions * self.number // self.of
        rest = [*range(end, questions), *range(start)]
        blocks = [rest[first : first + BLOCK] for first in range(0, len(rest), BLOCK)]
        random.Random(str(self)).shuffle(blocks)
        return [*range(start, end), *(position for block in blocks for position in block)]

    @classmethod
    def parse(cls, text: str, environment: Mapping[str, str] = os.environ) -> Self:
        """Return the share that a setting names.

        Args:
            text: `K/N`, or `auto`: taken from the variables that Slurm, Kubernetes or SkyPilot sets.
            environment: Environment variables.

        Raises:
            SettingsError: If it has another form, or `auto` finds no complete set of variables.
        """
        if text == AUTO:
            return cls(*_from_environment(environment))
        match = _PATTERN.fullmatch(text)
        if match is None or not int(match[1]) <= int(match[2]) <= MOST_MACHINES:
            raise SettingsError(
                f"share '{text}' should be `K/N`, such as `2/4` for the second of four machines, or `auto`."
            )
        return cls(int(match[1]), int(match[2]))


def publish_seconds(machines: int = 1) -> float:
    """Return the seconds between two commits while generating: REGRADE_PUBLISH_SECONDS, or one minute, or more for many machines.

    Args:
        machines: Machines that publish to the same repository.

    Raises:
        SettingsError: If the variable is not a number above 0.
    """
    text = os.environ.get(PUBLISH_VARIABLE)
    if not text:
        return max(PUBLISH_SECONDS, COMMIT_SECONDS * machines)
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < float("inf"):
        raise SettingsError(f"{PUBLISH_VARIABLE}={text} should be a number of seconds above 0.")
    return seconds


def _check(text: str) -> str:
    if text != AUTO:
        Share.parse(text)
    return text


ShareText = Annotated[
    str,
    AfterValidator(_check),
    WithJsonSchema({"type": "string", "pattern": "^(auto|[0-9]+/[0-9]+)$"}),
]
"""`K/N` or `auto`, which the machine resolves on which the flow runs."""


def _from_environment(environment: Mapping[str, str]) -> tuple[int, int]:
    if "SLURM_ARRAY_TASK_ID" in environment:
        return _of_slurm(environment)
    if "JOB_COMPLETION_INDEX" in environment:  # Kubernetes, from 0
        return _place(environment, "JOB_COMPLETION_INDEX", MACHINES_VARIABLE)
    if "SKYPILOT_NODE_RANK" in environment:  # from 0
        return _place(environment, "SKYPILOT_NODE_RANK", "SKYPILOT_NUM_NODES")
    raise SettingsError(
        "share 'auto' needs a Slurm array (SLURM_ARRAY_TASK_ID), an indexed Job of Kubernetes (JOB_COMPLETION_INDEX) or "
        "SkyPilot (SKYPILOT_NODE_RANK). Elsewhere, give each machine its share, such as `2/4`."
    )


def _of_slurm(environment: Mapping[str, str]) -> tuple[int, int]:
    """Return the place in a Slurm array; its numbers may begin anywhere, and have equal steps."""
    task, count = (_number(environment, f"SLURM_ARRAY_TASK_{n}") for n in ("ID", "COUNT"))
    least, most = (_number(environment, f"SLURM_ARRAY_TASK_{n}") for n in ("MIN", "MAX"))
    step = (most - least) // (count - 1) if count > 1 else 1
    place, rest = divmod(task - least, step) if step else (-1, 0)
    if rest or not 0 <= place < count or least + step * (count - 1) != most:
        raise SettingsError(
            f"share 'auto' needs a Slurm array with equal steps, such as `--array=1-{count}`; task {task} is one of {count} "
            f"from {least} to {most}. Give each task its share instead, such as `2/{count}`."
        )
    return place + 1, count


def _place(environment: Mapping[str, str], index: str, machines: str) -> tuple[int, int]:
    place, of = _number(environment, index), _number(environment, machines)
    if not 0 <= place < of <= MOST_MACHINES:
        raise SettingsError(
            f"share 'auto': {index}={place} should be from 0 to {machines}={of} without the last."
        )
    return place + 1, of


def _number(environment: Mapping[str, str], name: str) -> int:
    text = environment.get(name, "")
    if not re.fullmatch(r"[0-9]{1,9}", text):
        raise SettingsError(
            f"share 'auto': the environment variable {name} should be a whole number, it is "
            + (f"'{text}'." if text else "not set.")
        )
    return int(text)

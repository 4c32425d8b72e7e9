"""Processes that are killed in a change of a disk."""

import itertools
import os
from collections.abc import Callable
from typing import NoReturn

from regrade.answers import parquet

STEPS = ("fsync", "link", "replace", "unlink", "mkdir", "rename")
"""Functions of `os` by which a commit changes a disk."""


def killed_at(step: int, act: Callable[[], object]) -> bool:
    """Act in a process that is killed before a step; False if there are fewer."""
    pid = os.fork()
    if not pid:
        _act_until(step, act)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    assert code in (0, 9)
    return code == 9


def _act_until(step: int, act: Callable[[], object]) -> NoReturn:
    done = itertools.count(1)

    def dying(function: Callable[..., object]) -> Callable[..., object]:
        def call(*arguments: object, **named: object) -> object:
            if next(done) == step:
                os._exit(9)
            return function(*arguments, **named)

        return call

    code = 1
    parquet.bomb_in = lambda *_: None  # its child process is the parent's
    try:
        for name in STEPS:
            setattr(os, name, dying(getattr(os, name)))
        act()
        code = 0
    finally:
        os._exit(code)

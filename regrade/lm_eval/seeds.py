"""Random numbers of tasks, as `simple_evaluate` seeds them."""

import random
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

RANDOM_SEED = 0
"""Seed of Python's `random` in `simple_evaluate`: some tasks shuffle the choices of a document with it."""
NUMPY_SEED = 1234
FEWSHOT_SEED = 1234
"""Seed of the choice of worked examples."""


@contextmanager
def seeded() -> Iterator[None]:
    """Seed the generators that tasks share while the block runs, and put their state back after it."""
    python, numpy = random.getstate(), np.random.get_state()  # noqa: NPY002 - see below
    random.seed(RANDOM_SEED)  # noqa: TID251 - the functions of tasks read this generator
    np.random.seed(NUMPY_SEED)  # noqa: NPY002 - as above
    try:
        yield
    finally:
        random.setstate(python)
        np.random.set_state(numpy)  # noqa: NPY002 - as above

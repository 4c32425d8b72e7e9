"""Import faster: pause Python's garbage collector."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def quick_imports() -> Iterator[None]:
    """Import without garbage collection: nearly all objects of modules stay, and searching them takes a fifth of the time.

    The objects then belong to the oldest generation, which is searched rarely.
    """
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.freeze()
            gc.unfreeze()
            gc.enable()

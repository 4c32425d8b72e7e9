"""Split questions into test questions and training questions."""

import zlib

SHARE = 8
"""One question in this many is a test question."""


def is_held_out(key: str) -> bool:
    """Return True for a test question.

    Depends only on the key, so that test and training questions are disjoint on every machine and for every seed.

    Args:
        key: Text that identifies the question.
    """
    return zlib.crc32(key.encode()) % SHARE == 0

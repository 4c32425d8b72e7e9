"""The rule that keeps test questions and training questions apart."""

import zlib

SHARE = 8


def is_held_out(key: str) -> bool:
    """Says whether a question is a test question: one in eight keys is.

    Args:
        key: What makes the question the question that it is.

    Returns:
        The same value for the same key on every machine, so that the two sides are
        disjoint however many questions are drawn and with whatever seed.
    """
    return zlib.crc32(key.encode()) % SHARE == 0

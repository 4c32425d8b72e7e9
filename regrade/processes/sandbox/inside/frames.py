"""Messages over pipes: a length of 8 hexadecimal digits, then the content."""

import os
import re
from collections.abc import Callable

HEAD = 8
"""Bytes of a message's length."""
LARGEST = 1 << 30
"""Largest message that is accepted, in bytes."""
_LENGTH = re.compile(b"[0-9a-f]{8}")


class ClosedError(Exception):
    """The other end of the pipe is closed."""


def write_frame(descriptor: int, content: bytes) -> None:
    """Write a message."""
    data = memoryview(frame_of(content))
    while data:
        data = data[os.write(descriptor, data) :]


def frame_of(content: bytes) -> bytes:
    """Return the bytes of a message."""
    return b"%08x" % len(content) + content


def read_frame(
    descriptor: int, read: "Callable[[int, int], bytes]" = os.read, largest: int = LARGEST
) -> bytes:
    """Read a message.

    Args:
        descriptor: Pipe to read from.
        read: Reads up to a number of bytes; returns b"" if the pipe is closed.
        largest: Largest message that is accepted, in bytes.

    Raises:
        ClosedError: If the pipe is closed before the message is complete.
        ValueError: If the message has no length, or is too long.
    """
    return _exactly(descriptor, size_in(_exactly(descriptor, HEAD, read), largest), read)


def size_in(head: bytes, largest: int) -> int:
    """Return the length that a message begins with.

    Raises:
        ValueError: If it is none, or too long.
    """
    if not _LENGTH.fullmatch(head):
        raise ValueError("a message without a length")
    size = int(head, 16)
    if size > largest:
        raise ValueError(f"a message of {size} bytes")
    return size


def _exactly(descriptor: int, size: int, read: "Callable[[int, int], bytes]") -> bytes:
    parts = []
    while size:
        part = read(descriptor, min(size, 1 << 20))
        if not part:
            raise ClosedError
        parts.append(part)
        size -= len(part)
    return b"".join(parts)

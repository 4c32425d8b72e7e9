"""Names of settings in the messages of a command: messages name a setting by its key in backticks, such as `engine.dtype`."""

from collections.abc import Callable
from contextvars import ContextVar

NAMING: ContextVar[Callable[[str], str]] = ContextVar("NAMING", default=str)
"""Function that replaces the keys in a message of this command by the options that the user knows, or names their file."""

"""Generate answers of language models once, keep them, and grade them as often as you like."""

__version__ = "0.1.0"

"""Find the reason for an engine's end in its log."""

import re
import signal
from contextlib import suppress
from pathlib import Path

_TAIL_BYTES = 512 * 1024
_ERROR = re.compile(r"\b(?:[A-Za-z_]\w*\.)*([A-Z]\w*(?:Error|Exception|Exit)): *(\S.*)")
_OUT_OF_MEMORY = re.compile(
    r"out of memory|OutOfMemoryError|Cannot allocate memory|bad_alloc|std::bad_alloc"
    r"|No available memory for the cache blocks|KV cache is needed|less than requested memory"
    r"|less than desired .* memory utilization",
    re.IGNORECASE,
)
_ABOUT_ANOTHER = re.compile(
    r"initialization failed|See (?:stack trace|root cause)|EngineDead|EngineCore encountered",
    re.IGNORECASE,
)
_REMEDY = (
    "Not enough memory: lower engine.max_model_len or engine.max_num_seqs, or change "
    "engine.gpu_memory_utilization (lower where others use the memory, higher for a larger cache)."
)


def last_error(log: Path, start: int = 0) -> str:
    """Return the last error in the log, with advice; "" if there is none.

    Args:
        log: The file.
        start: Bytes to skip at the beginning, written by an earlier engine.
    """
    text = _tail(log, start)
    errors = [
        f"{name}: {message.strip()}"
        for name, message in _ERROR.findall(text)
        if not _ABOUT_ANOTHER.search(message) and not _ABOUT_ANOTHER.search(name)
    ]
    memory = [line.strip() for line in text.splitlines() if _OUT_OF_MEMORY.search(line)]
    if memory:
        error = _ERROR.search(memory[-1])
        line = f"{error[1]}: {error[2]}" if error else memory[-1]
        return f"{_shorten(line)} {_REMEDY}"
    return _shorten(errors[-1]) if errors else ""


def status_in_words(status: int) -> str:
    """Return the meaning of the supervisor's exit status, such as `signal SIGTERM`; with advice for SIGKILL."""
    number = -status if status < 0 else status - 128
    if number == signal.SIGKILL:
        return (
            "signal SIGKILL, which is how Linux ends a process when the machine's memory runs out (`dmesg` says so). "
            "If nobody sent it: lower engine.max_num_seqs or engine.max_model_len, or run less beside it."
        )
    with suppress(ValueError):
        return f"signal {signal.Signals(number).name}"
    return f"status {status}"


def _tail(log: Path, start: int) -> str:
    try:
        with log.open("rb") as file:
            size = file.seek(0, 2)
            file.seek(max(start, size - _TAIL_BYTES))
            return file.read().decode(errors="replace")
    except OSError:
        return ""


def _shorten(line: str, limit: int = 300) -> str:
    line = line.strip()
    return line if len(line) <= limit else line[: limit - 1] + "…"

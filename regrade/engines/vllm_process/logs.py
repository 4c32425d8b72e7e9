"""Find the cause of an engine's failure in its log."""

import re
import signal
from contextlib import suppress
from pathlib import Path

from regrade.text.text import shortened

_TAIL_BYTES = 512 * 1024
"""Length of the log's end that is searched, in bytes."""
_LONGEST_LINE = 300
"""Longest line of a log that is shown, in characters."""
_ERROR = re.compile(r"\b([A-Z]\w*(?:Error|Exception|Exit)): *(\S.*)")
_OUT_OF_MEMORY = re.compile(
    r"out of memory|OutOfMemoryError|Cannot allocate memory|bad_alloc|std::bad_alloc"
    r"|No available memory for the cache blocks|KV cache is needed|less than requested memory"
    r"|less than desired .* memory utilization",
    re.IGNORECASE,
)
_OUT_OF_TIME = re.compile(r"^Timeout \((.+)\)!$", re.MULTILINE)
"""Line of `faulthandler`, which watches the chat template (`chat._in_time`)."""
_DIED = re.compile(r"Worker proc (\S+) died unexpectedly \(exit code: (-\d+)\)")
"""Line of vLLM about one of its processes that a signal ended: it leaves no error of its own."""
_CONSEQUENCE = re.compile(
    r"initialization failed|See (?:stack trace|root cause)|EngineDead|EngineCore encountered|^cancelled$",
    re.IGNORECASE,
)
"""Errors that follow from an earlier error."""
_MEMORY_ADVICE = (
    "Not enough memory: lower `engine.max_model_len` or `engine.max_num_seqs`, or change "
    "`engine.gpu_memory_utilization` (lower if other programs use the memory, higher for a larger cache)."
)


def last_error(log: Path, start: int = 0) -> str:
    """Return the last error in the log, with advice; "" if there is none.

    Args:
        log: The log file.
        start: Position after the output of earlier engines, in bytes.
    """
    text = _tail(log, start)
    if found := _OUT_OF_TIME.search(text):
        return (
            f"the model's chat template took longer than {found[1]} to write prompts. Replace it by `--chat-template FILE`, or use "
            "`--format completion`"
        )
    errors = [
        f"{name}: {message.strip()}"
        for name, message in _ERROR.findall(text)
        if not _CONSEQUENCE.search(message) and not _CONSEQUENCE.search(name)
    ]
    memory_errors = [line.strip() for line in text.splitlines() if _OUT_OF_MEMORY.search(line)]
    if memory_errors:
        error = _ERROR.search(memory_errors[-1])
        line = f"{error[1]}: {error[2]}" if error else memory_errors[-1]
        return f"{shortened(line, _LONGEST_LINE)} {_MEMORY_ADVICE}"
    if died := _DIED.search(text):
        return f"vLLM's process {died[1]} ended with {status_in_words(int(died[2]))}"
    return shortened(errors[-1], _LONGEST_LINE) if errors else ""


def status_in_words(status: int) -> str:
    """Describe the supervisor's exit status, such as `signal SIGTERM`; with advice for SIGKILL and SIGILL."""
    number = -status if status < 0 else status - 128
    if number == signal.SIGKILL:
        return (
            "signal SIGKILL. Linux sends it when the machine runs out of memory (see `dmesg`). "
            "In this case lower `engine.max_num_seqs` or `engine.max_model_len`, or run fewer programs at the same time."
        )
    if number == signal.SIGILL:
        return "signal SIGILL: this CPU lacks an instruction that the precision needs. Try `engine.dtype=float32`."
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

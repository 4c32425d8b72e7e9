"""Worker side: read the weights into the page cache while vLLM is imported and the prompts are tokenised."""

import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import psutil

from regrade.engines.vllm_process.channel import Message

_PART = 1 << 24
"""Bytes read at once."""
_SHARE = 0.8
"""Largest share of the free memory that weights may take; more would drive other files out of the cache."""


def prefetch_weights(open_message: Message) -> threading.Thread | None:
    """Start to read a checkpoint's safetensors in a thread, and return the thread.

    vLLM reads them later, faster because they are in memory then. None for a model on the Hub, whose files vLLM finds, and
    for weights that are not read or exceed the free memory.
    """
    folder = Path(open_message["model"])
    if open_message["extra"].get("load_format", "auto") not in ("auto", "safetensors"):
        return None
    found = sorted(file for file in folder.glob("*.safetensors") if file.is_file())
    # Beside other weights, those in Mistral's own format are the same once more.
    files = [file for file in found if not file.name.startswith("consolidated")] or found
    size = sum(file.stat().st_size for file in files)
    if not files or size > _SHARE * psutil.virtual_memory().available:
        return None
    thread = threading.Thread(target=_read, args=(files,), name="prefetch", daemon=True)
    thread.start()
    return thread


def _read(files: Sequence[Path]) -> None:
    buffer = bytearray(_PART)
    with suppress(OSError):  # vLLM tells what is wrong with a file
        for path in files:
            with path.open("rb", buffering=0) as file:
                while file.readinto(buffer):
                    pass

"""huggingface_hub in this process: timeouts for all requests, no progress bars, no signed addresses in log lines."""

import logging
import os
import re
import threading

import httpx2
from huggingface_hub import set_client_factory
from huggingface_hub.utils._http import default_client_factory
from huggingface_hub.utils.tqdm import disable_progress_bars

TIMEOUT = 120.0
"""Seconds without progress after which a request fails."""
CONNECT_SECONDS = 15.0
"""Seconds to connect."""
_LOGGERS = ("huggingface_hub", "httpx2", "httpx", "httpcore", "datasets", "fsspec")
"""Loggers whose lines may contain addresses of the Hub's storage. They are signed: anyone who has one may use it."""
_QUERY = re.compile(r"(https?://(?:(?!https?://)[^\s'\"?<>])*+)\?[^\s'\"<>]+")
_lock = threading.Lock()
_bound: float | None = None


def bound_requests(seconds: float = TIMEOUT) -> None:
    """Time out every huggingface_hub request of this process after `seconds` without progress.

    By default its client waits forever; some calls pass `timeout=None`, which is replaced, too. The setting
    is global: the last call of this function decides.
    """
    global _bound  # noqa: PLW0603 - huggingface_hub keeps one client factory for the process
    with _lock:
        if _bound == seconds:
            return
        limits = {
            "connect": min(seconds, CONNECT_SECONDS),
            "read": seconds,
            "write": seconds,
            "pool": seconds,
        }

        def limit(request: httpx2.Request) -> None:
            timeouts = request.extensions.get("timeout") or {}
            request.extensions["timeout"] = limits | {
                phase: value for phase, value in timeouts.items() if value is not None
            }

        def factory() -> httpx2.Client:
            client = default_client_factory()
            hooks = client.event_hooks
            client.event_hooks = hooks | {"request": [*hooks["request"], limit]}
            return client

        set_client_factory(factory)
        if _bound is None:
            _mask_log_lines()
        _bound = seconds
    if "HF_HUB_DISABLE_PROGRESS_BARS" not in os.environ:
        disable_progress_bars()  # a progress bar for every file would hide the log lines


def unsigned(text: str) -> str:
    """Return a text with the queries of its addresses masked; signatures are in them."""
    return _QUERY.sub(r"\1?***", text)


def _mask_log_lines() -> None:
    # Not a filter: a logger's filters do not see lines of the loggers below it, and there are many handlers.
    original = logging.getLogRecordFactory()

    def create(*arguments: object, **options: object) -> logging.LogRecord:
        record = original(*arguments, **options)
        # `logging.makeLogRecord` makes records without a name.
        if str(record.name).partition(".")[0] in _LOGGERS:
            record.msg, record.args = unsigned(record.getMessage()), ()
        return record

    logging.setLogRecordFactory(create)

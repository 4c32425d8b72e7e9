"""Identity of a served model's weights: what the server tells about them.

A name and an address do not identify weights: a team serves one checkpoint after another under the same name and port.
"""

import logging
import re
import secrets
import time
from collections.abc import Mapping
from contextlib import suppress
from email.utils import parsedate_to_datetime
from typing import Any

from regrade.http_client import NoResponseError, send

logger = logging.getLogger("regrade.plan")

_CLOCK_SECONDS = 5
"""A `created` this close to the server's clock is the time of the request, not of the model (vLLM, llama.cpp)."""
_TIMEOUT_SECONDS = 10.0
_START = re.compile(r"^process_start_time_seconds(?:\{[^}\n]*\})? ([0-9.e+]+)$", re.MULTILINE)
_ADVICE = "`--model-revision` can say which weights it serves"


def served_weights(name: str, entry: Mapping[str, Any], date: str | None, base_url: str) -> str:
    """Return the identity of the weights behind a served name.

    Args:
        name: Name of the model on the server, for log lines.
        entry: The model's entry in `GET /models`.
        date: The reply's `Date` header.
        base_url: Address of the API, ending in `/v1`.

    Returns:
        `root`, `created` and `owned_by` of the entry. If it has neither a `root` nor the model's own `created`: the
        server's start, which vLLM tells at `/metrics`; else a random text, with which no stored answers are continued.
    """
    told = {key: entry[key] for key in ("root", "owned_by") if entry.get(key)}
    created = entry.get("created")
    if isinstance(created, int) and created > 0 and not _is_now(created, date):
        told["created"] = created
    if "root" in told or "created" in told:
        return " ".join(f"{key}={told[key]}" for key in sorted(told))
    start = _server_start(base_url)
    if start is not None:
        logger.warning(
            "The server does not tell which weights '%s' has. Its answers are continued only until the server "
            "restarts; %s.",
            name,
            _ADVICE,
        )
        return f"server started at {start}"
    logger.warning(
        "The server tells neither which weights '%s' has nor when it started. Answers of earlier runs are not "
        "continued; %s.",
        name,
        _ADVICE,
    )
    return f"unknown {secrets.token_hex(8)}"


def _is_now(created: int, date: str | None) -> bool:
    now = time.time()
    if date is not None:
        with suppress(ValueError):
            now = parsedate_to_datetime(date).timestamp()
    return abs(now - created) <= _CLOCK_SECONDS


def _server_start(base_url: str) -> str | None:
    url = f"{base_url.rstrip('/').removesuffix('/v1')}/metrics"
    try:
        response = send(url, seconds=_TIMEOUT_SECONDS)
    except NoResponseError:
        return None
    found = _START.search(response.content.decode(errors="replace"))
    return found[1] if found and response.status == 200 else None

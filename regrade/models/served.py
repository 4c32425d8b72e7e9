"""Models behind a server with an OpenAI-compatible API."""

import json
import logging
import os
import re
import secrets
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from difflib import get_close_matches
from email.utils import parsedate_to_datetime
from operator import itemgetter
from typing import Any

from regrade.hub.http_client import Failure, NoResponseError, failure_of, send
from regrade.models.base import ResolvedModel
from regrade.records.computed import Computed, Fingerprint, computed_differences
from regrade.records.specification import SERVER_START, UNKNOWN, ModelIdentity
from regrade.settings.errors import ModelError, OperationError, SettingsError

# Identity of a served model's weights, as far as the server reports it.
# Name and address do not identify weights: a team serves one checkpoint after another under the same name and
# port.

_CLOCK_SECONDS = 5
"""A `created` this close to the server's clock is the time of the request, not of the model (vLLM, llama.cpp)."""
_WEIGHTS_TIMEOUT = 10.0
_START = re.compile(r"^process_start_time_seconds(?:\{[^}\n]*\})? ([0-9.e+]+)$", re.MULTILINE)
FIXED_PROMPTS = (
    "The capital cities of Europe, in alphabetical order, are",
    "def quicksort(numbers):\n",
    "Once upon a time, in a village by the sea,",
    "Q: What is 17 * 23? A:",
)
"""Prompts whose answers tell apart models that a server reports alike. Stored answers are compared with them: never change one."""
_FIXED_TOKENS = 32
_FINGERPRINT_SECONDS = 120.0
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
        server's start, which vLLM reports at `/metrics`; else a random text, which prevents that stored answers are
        continued.
    """
    reported = {key: entry[key] for key in ("root", "owned_by") if entry.get(key)}
    created = entry.get("created")
    if isinstance(created, int) and 0 < created < 2**63 and not _is_now(created, date):
        reported["created"] = created
    if "root" in reported or "created" in reported:
        return " ".join(f"{key}={reported[key]}" for key in sorted(reported))
    start = _server_start(base_url)
    if start is not None:
        logger.warning(
            "The server does not report which weights '%s' has. Its answers are continued only until the server "
            "restarts, its verdicts as a judge always; %s.",
            name,
            _ADVICE,
        )
        return f"{SERVER_START} {start}"
    logger.warning(
        "The server reports neither which weights '%s' has nor when it started. Answers of earlier runs are not "
        "continued, its verdicts as a judge are; %s.",
        name,
        _ADVICE,
    )
    return f"{UNKNOWN} {secrets.token_hex(8)}"


def fingerprint(name: str, base_url: str, api_key_env: str) -> Fingerprint | None:
    """Return the greedy answers of a served model to `FIXED_PROMPTS`, or None if the server does not give them.

    Args:
        name: Name of the model on the server.
        base_url: Address of the API, ending in `/v1`.
        api_key_env: Environment variable that holds the key, if the server needs one.
    """
    body = {
        "model": name,
        "prompt": list(FIXED_PROMPTS),
        "max_tokens": _FIXED_TOKENS,
        "temperature": 0,
        "logprobs": 1,
    }
    headers = {"Content-Type": "application/json", **login(api_key_env)}
    try:
        response = send(
            f"{base_url.rstrip('/')}/completions",
            seconds=_FINGERPRINT_SECONDS,
            headers=headers,
            body=json.dumps(body).encode(),
        )
        if response.status != 200:
            return None
        choices = sorted(json.loads(response.content)["choices"], key=itemgetter("index"))
        answers = [
            (choice["logprobs"]["tokens"], choice["logprobs"]["token_logprobs"])
            for choice in choices
        ]
        found = tuple(
            tuple((str(token), round(float(value), 4)) for token, value in zip(*both, strict=True))
            for both in answers
        )
    except (NoResponseError, ValueError, KeyError, TypeError, OverflowError, RecursionError):
        return None
    return found if len(found) == len(FIXED_PROMPTS) and all(found) else None


def _is_now(created: int, date: str | None) -> bool:
    now = time.time()
    if date is not None:
        with suppress(ValueError):
            now = parsedate_to_datetime(date).timestamp()
    return abs(now - created) <= _CLOCK_SECONDS


def _server_start(base_url: str) -> str | None:
    url = f"{base_url.rstrip('/').removesuffix('/v1')}/metrics"
    try:
        response = send(url, seconds=_WEIGHTS_TIMEOUT)
    except NoResponseError:
        return None
    found = _START.search(response.content.decode(errors="replace"))
    return found[1] if found and response.status == 200 else None


API_KEYS = "REGRADE_API_KEY_VARIABLES"
"""Environment variable with the names of the variables that may be sent as API keys, separated by commas; not set: any.
`regrade worker` sets it, because a run chooses variable and server, and could send any credential to any address.
"""
_TIMEOUT_SECONDS = 20.0
_Listed = tuple[list[dict[str, Any]], str | None]
"""Models that a server lists, and the `Date` header of its reply."""
logger = logging.getLogger("regrade.plan")


class NoServerError(SettingsError):
    """No server answers at the address."""


def _resolved(
    name: str, base_url: str, listed: _Listed, api_key_env: str, revision: str | None
) -> ResolvedModel:
    """Return a model out of what a server lists; see `resolve_served`."""
    served, date = listed
    known = {str(entry["id"]): entry for entry in reversed(served) if "id" in entry}
    if (entry := known.get(name)) is None:
        close = get_close_matches(name, known, n=1)
        hint = f" Did you mean '{close[0]}'?" if close else ""
        raise ModelError(
            name,
            f"not served at {base_url}.{hint} Served: {', '.join(sorted(known)) or 'nothing'}.",
        )
    weights = revision or served_weights(name, entry, date, base_url)
    answers = None
    if revision is not None:
        told_by = "`--model-revision`"
    elif "root=" in weights and "created=" not in weights:
        # A folder can be overwritten, and the same weights can be served with another quantization.
        answers = fingerprint(name, base_url, api_key_env)
        told_by = (
            "its name or folder, and nothing else: if the folder was overwritten, old answers are taken; "
            + _ADVICE
        )
        if answers is not None:
            told_by = f"its name or folder, and its answers to {len(answers)} fixed prompts"
    elif "=" in weights:
        told_by = " ".join(re.findall(r"\b(created|root)=", weights))
    else:
        told_by = "the server's start" if "started" in weights else "its name alone"
    logger.info("'%s' at %s is identified by %s", name, base_url, told_by)
    length = entry.get("max_model_len")
    return ResolvedModel(
        identity=ModelIdentity(name=name, kind="served", revision=weights),
        path=name,
        max_position_embeddings=length if isinstance(length, int) else None,
        fingerprint=answers,
        served_by=owner if isinstance(owner := entry.get("owned_by"), str) else None,
    )


def resolve_served(
    name: str, *, base_urls: Sequence[str], api_key_env: str, revision: str | None = None
) -> ResolvedModel:
    """Return a model of one server, or of several, which must report the same weights.

    A server that cannot be reached is left out with a warning, unless it is the last.

    Args:
        name: Name of the model on the servers.
        base_urls: Addresses of their APIs, ending in `/v1`.
        api_key_env: Environment variable that holds the key, if they need one.
        revision: Revision of the weights, as the caller knows it. None: as the servers report; see `served_weights`.

    Raises:
        SettingsError: If no server can be reached, one rejects the API key, or two have other weights.
        ModelError: If one does not serve the model.
        OperationError: If one does not answer with a list of models.
    """
    models = [
        _resolved(name, url, listed, api_key_env, revision)
        for url, listed in _listed(base_urls, api_key_env).items()
    ]
    weights = {model.identity.revision for model in models}
    if len(weights) > 1:
        raise SettingsError(
            f"The servers report different weights of '{name}': {'; '.join(sorted(map(str, weights)))}. If they are the same, "
            "name them with `engine.model_revision`, such as a commit."
        )
    for model in models[1:]:
        first, other = models[0].fingerprint, model.fingerprint
        if any(computed_differences(Computed(fingerprint=first), Computed(fingerprint=other))):
            raise SettingsError(
                f"The servers answer fixed prompts differently although all report '{models[0].identity.revision}', so that "
                "weights or quantization are not the same. Use those that are, or name them with `engine.model_revision`."
            )
    lengths = [model.max_position_embeddings for model in models]
    known = [length for length in lengths if length is not None]
    return replace(models[0], max_position_embeddings=min(known) if known else None)


def reachable(base_urls: Sequence[str], api_key_env: str) -> list[str]:
    """Return the addresses at which a server answers; a single address is returned untested.

    Raises:
        SettingsError: If there is none.
    """
    return list(base_urls if len(base_urls) == 1 else _listed(base_urls, api_key_env))


def _listed(base_urls: Sequence[str], api_key_env: str) -> dict[str, _Listed]:
    """Return what each server lists that answers; errors as in `reachable`."""
    found: dict[str, _Listed] = {}
    gone: list[NoServerError] = []
    for url in base_urls:
        try:
            found[url] = _list_models(url, api_key_env)
        except NoServerError as error:
            gone.append(error)
    if not found:
        raise gone[0]
    for problem in gone:
        logger.warning("left out: %s", problem)
    return found


def login(name: str) -> dict[str, str]:
    """Return the header with the API key in an environment variable; none if it is not set.

    Raises:
        SettingsError: If this machine does not allow to send the variable to a server, or if it holds no valid key.
    """
    allowed = os.environ.get(API_KEYS)
    if allowed is not None and name not in [known.strip() for known in allowed.split(",")]:
        raise SettingsError(
            f"`engine.api_key_env` is '{name}', but this worker sends only these variables to a server: {allowed}. Start it "
            f"with the name in {API_KEYS}."
        )
    key = os.environ.get(name)
    if key and not all("!" <= character <= "~" for character in key):
        raise SettingsError(
            f"The API key in environment variable {name} has a space, a line break or another character that is not part "
            "of a key, perhaps at its end. Set it without."
        )
    return {"Authorization": f"Bearer {key}"} if key else {}


def _list_models(base_url: str, api_key_env: str) -> _Listed:
    """Return what a server answers to `GET /models`."""
    url = f"{base_url.rstrip('/')}/models"
    headers = login(api_key_env)
    try:
        response = send(url, headers=headers, seconds=_TIMEOUT_SECONDS)
    except NoResponseError as error:
        raise NoServerError(
            f"No server answers at {url}: {error}. Start a server (such as `vllm serve MODEL`), or set "
            "`engine.base_url` to its address, which usually ends in /v1."
        ) from error
    if response.status >= 400:
        raise not_accepted(url, response.status, api_key_env) or OperationError(
            f"{url} answers {response.status}."
        )
    try:
        content = json.loads(response.content)
    except (ValueError, RecursionError) as error:
        raise OperationError(
            f"{url} does not answer with JSON: is it an OpenAI-compatible API?"
        ) from error
    data = content.get("data") if isinstance(content, dict) else None
    if not isinstance(data, list):
        raise OperationError(f"{url} does not list models: is it an OpenAI-compatible API?")
    return [entry for entry in data if isinstance(entry, dict)], response.headers.get("Date")


def not_accepted(
    url: str, status: int, api_key_env: str, message: str = ""
) -> SettingsError | None:
    """Return the error for a status with which a server rejects the API key or the address; None for any other.

    Args:
        url: Address of the request.
        status: Status from 400 on.
        api_key_env: Environment variable that holds the key.
        message: Message of the server.
    """
    reason = f" The server says: {message}" if message else ""
    match failure_of(status):
        case Failure.UNAUTHORIZED | Failure.FORBIDDEN:
            state = "is rejected" if os.environ.get(api_key_env) else "is not set"
            problem = f"the API key in environment variable {api_key_env} {state}.{reason}"
        case Failure.NOT_FOUND:
            problem = (
                f"check `engine.base_url`, which usually ends in '/v1', and the model.{reason}"
            )
        case _:
            return None
    return SettingsError(f"{url} answers {status}: {problem}")

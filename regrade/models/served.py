"""Models behind a server with an OpenAI-compatible API."""

import http.client
import json
import os
import urllib.error
import urllib.request
from difflib import get_close_matches
from typing import Any

from regrade.errors import ModelError, OperationError, SettingsError
from regrade.models.base import ResolvedModel
from regrade.models.weights import served_weights
from regrade.specification import ModelIdentity

API_KEYS = "REGRADE_API_KEY_VARIABLES"
"""Environment variable with the names of the variables that may be sent as API keys, separated by commas; not set: any.

`regrade worker` sets it: a run chooses the variable and the server, and could have any credential sent to any address.
"""
_TIMEOUT_SECONDS = 20.0


def resolve_served(
    name: str, *, base_url: str, api_key_env: str, revision: str | None = None
) -> ResolvedModel:
    """Return a model of a server.

    Args:
        name: Name of the model on the server.
        base_url: Address of the API, ending in `/v1`.
        api_key_env: Environment variable that holds the key, if the server needs one.
        revision: Revision of the weights, as the caller knows it. None: what the server tells; see `served_weights`.

    Raises:
        SettingsError: If the server cannot be reached, or rejects the API key.
        ModelError: If it does not serve the model.
        OperationError: If it does not answer with a list of models.
    """
    served, date = _list_models(base_url, api_key_env)
    names = [str(entry["id"]) for entry in served if "id" in entry]
    if name not in names:
        close = get_close_matches(name, names, n=1)
        hint = f" Did you mean '{close[0]}'?" if close else ""
        raise ModelError(
            name,
            f"not served at {base_url}.{hint} Served: {', '.join(sorted(names)) or 'nothing'}.",
        )
    entry = served[names.index(name)]
    length = entry.get("max_model_len")
    return ResolvedModel(
        identity=ModelIdentity(
            name=name,
            kind="served",
            revision=revision or served_weights(name, entry, date, base_url),
        ),
        path=name,
        max_position_embeddings=length if isinstance(length, int) else None,
    )


def api_key(name: str) -> str | None:
    """Return the API key in an environment variable, or None.

    Raises:
        SettingsError: If this machine does not allow that the variable is sent to a server.
    """
    allowed = os.environ.get(API_KEYS)
    if allowed is not None and name not in [known.strip() for known in allowed.split(",")]:
        raise SettingsError(
            f"engine.api_key_env is '{name}', but this worker sends only these variables to a server: {allowed}. Start it "
            f"with the name in {API_KEYS}."
        )
    return os.environ.get(name)


def served_models(base_url: str, api_key_env: str) -> list[dict[str, Any]]:
    """Return the server's list of models (`GET /models`)."""
    return _list_models(base_url, api_key_env)[0]


def _list_models(base_url: str, api_key_env: str) -> tuple[list[dict[str, Any]], str | None]:
    """Return the server's list of models, and the `Date` header of its reply."""
    url = f"{base_url.rstrip('/')}/models"
    key = api_key(api_key_env)
    request = urllib.request.Request(url, headers={"Authorization": f"Bearer {key}"} if key else {})
    try:
        with urllib.request.urlopen(request, timeout=_TIMEOUT_SECONDS) as response:
            content, date = json.load(response), response.headers.get("Date")
    except urllib.error.HTTPError as error:
        error.close()
        raise _refused(api_key_env, url, error.code) from error
    except (OSError, http.client.HTTPException) as error:
        reason = getattr(error, "reason", error)
        raise SettingsError(
            f"No server answers at {url}: {reason}. Start a server (such as `vllm serve MODEL`), or set engine.base_url."
        ) from error
    except ValueError as error:
        raise OperationError(
            f"{url} does not answer with JSON: is it an OpenAI-compatible API?"
        ) from error
    data = content.get("data") if isinstance(content, dict) else None
    if not isinstance(data, list):
        raise OperationError(f"{url} does not list models: is it an OpenAI-compatible API?")
    return [entry for entry in data if isinstance(entry, dict)], date


def _refused(api_key_env: str, url: str, status: int) -> Exception:
    if status in (401, 403):
        state = "is refused" if os.environ.get(api_key_env) else "is not set"
        return SettingsError(
            f"{url} answers {status}: the key in environment variable {api_key_env} {state}."
        )
    if status == 404:
        return SettingsError(f"{url} answers 404. engine.base_url usually ends in '/v1'.")
    return OperationError(f"{url} answers {status}.")

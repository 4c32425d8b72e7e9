"""Events by which other flows start: sent to the Prefect server, where prefect.yaml's triggers wait for them."""

import logging
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import httpx
from prefect.client.orchestration import get_client
from prefect.exceptions import PrefectException
from prefect.settings import PREFECT_API_URL

from regrade.answers.sets import AnswerSet

if TYPE_CHECKING:
    from prefect.client.orchestration import SyncPrefectClient

logger = logging.getLogger("regrade.publish")
ANSWERS_PUBLISHED = "regrade.answers.published"
SCORERS_DEPLOYED = "regrade.scorers.deployed"


def announce(
    client: "SyncPrefectClient", event: str, resource: str, payload: Mapping[str, Any]
) -> None:
    """Send one event.

    Args:
        client: Of the server.
        event: Name of the event.
        resource: What it happened to, as an id.
        payload: Values that JSON knows; a trigger can hand them on as parameters.
    """
    body = {
        "id": str(uuid4()),
        "occurred": datetime.now(UTC).isoformat(),
        "event": event,
        "resource": {"prefect.resource.id": resource},
        "payload": dict(payload),
    }
    client.request("POST", "/events", json=[body])


def answers_published(published: Sequence[AnswerSet]) -> None:
    """Tell the Prefect server of answers that wait to be scored. Never told by what scores them itself.

    Without a server there is nobody to tell. One that does not listen takes no answer away: they can be scored any time.

    Args:
        published: Answer sets, each at the revision that published it. One event is sent for each repository, with
            the newest of their revisions, which holds the others too.
    """
    if not published or PREFECT_API_URL.value() is None:
        return
    newest: dict[str, AnswerSet] = {}
    for one in sorted(published, key=lambda one: one.manifest.updated_at):
        newest[one.repository.uri] = one
    try:
        with get_client(sync_client=True) as client:
            for uri, one in newest.items():
                payload = {"answers": uri, "revision": one.revision}
                announce(client, ANSWERS_PUBLISHED, f"regrade.answers.{uri}", payload)
    except (httpx.HTTPError, PrefectException) as error:
        logger.warning(
            "Prefect was not told of the new answers (%s); score them with `regrade score`", error
        )

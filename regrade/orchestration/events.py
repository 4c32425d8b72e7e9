"""Events that start other flows through the triggers in prefect.yaml."""

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
        client: Client of the Prefect server.
        event: Name of the event.
        resource: Id of the resource it happened to.
        payload: JSON values; a trigger can pass them on as parameters.
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
    """Emit the event that starts `score-answers`. Flows that score their own answers do not call this.

    Does nothing without a server, and only logs a warning if the server refuses: the answers can be scored any time.

    Args:
        published: Answer sets, each at the revision that published it. Each repository gets one event with its newest
            revision, which includes the others.
    """
    if not published or PREFECT_API_URL.value() is None:
        return
    newest: dict[str, AnswerSet] = {}
    for answers in sorted(published, key=lambda answers: answers.manifest.updated_at):
        newest[answers.repository.uri] = answers
    try:
        with get_client(sync_client=True) as client:
            for uri, answers in newest.items():
                payload = {"answers": uri, "revision": answers.revision}
                announce(client, ANSWERS_PUBLISHED, f"regrade.answers.{uri}", payload)
    except (httpx.HTTPError, PrefectException) as error:
        logger.warning(
            "Prefect was not told of the new answers (%s); score them with `regrade score`", error
        )

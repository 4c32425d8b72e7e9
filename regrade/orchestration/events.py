"""Events that start other flows through the triggers in prefect.yaml."""

import logging
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.settings import PREFECT_API_URL

from regrade.answers.sets import AnswerSet
from regrade.orchestration.optional import optional

logger = logging.getLogger("regrade.publish")
ANSWERS_PUBLISHED = "regrade.answers.published"
SCORERS_DEPLOYED = "regrade.scorers.deployed"


def announce(
    client: SyncPrefectClient, event: str, resource: str, payload: Mapping[str, Any]
) -> None:
    """Send one event.

    Args:
        client: Client of the Prefect server.
        event: Name of the event.
        resource: Id of the event's resource.
        payload: JSON values, which a trigger can pass on as parameters.
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

    Does nothing without a server. Logs a warning if sending fails, because the answers can be scored at any time.

    Args:
        published: Answer sets at the revisions that published them. Each repository gets one event, with the newest
            revision, which includes the others.
    """
    if not published or PREFECT_API_URL.value() is None:
        return
    newest: dict[str, AnswerSet] = {}
    for answers in sorted(published, key=lambda answers: answers.manifest.updated_at):
        newest[answers.repository.uri] = answers
    problem, advice = "no event was sent for the new answers", "score them with `regrade score`"
    with optional(logger, problem, advice), get_client(sync_client=True) as client:
        for uri, answers in newest.items():
            payload = {"answers": uri, "revision": answers.revision}
            announce(client, ANSWERS_PUBLISHED, f"regrade.answers.{uri}", payload)

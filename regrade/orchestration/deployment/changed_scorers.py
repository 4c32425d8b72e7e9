"""Announce changed scorers on the server, which starts `rescore-answers` for stale scores."""

from prefect.client.orchestration import SyncPrefectClient

from regrade.orchestration.deployment.apply import recall, remember
from regrade.orchestration.deployment.outcome import Outcome
from regrade.orchestration.events import SCORERS_DEPLOYED, announce
from regrade.scorers import scorer_names
from regrade.scoring.score import label_now

MEMORY = "regrade_deployed_scorers"
"""Prefect variable with the label of each deployed scorer, by name."""


def announce_changed_scorers(client: SyncPrefectClient) -> list[Outcome]:
    """Send the event `regrade.scorers.deployed` if scorers changed since the last deployment; return these scorers.

    The first deployment sends no event.
    """
    now = {name: label for name in scorer_names() if (label := label_now(name))}
    before = recall(client, MEMORY)
    changed = sorted(name for name in now if before and before.get(name, now[name]) != now[name])
    if changed:
        announce(client, SCORERS_DEPLOYED, "regrade.scorers", {"changed": changed, "scorers": now})
    if before != now:
        remember(client, MEMORY, now)
    return [
        Outcome(
            "scorer",
            name,
            "updated",
            f"{before[name]} -> {now[name]}: `rescore-answers` replaces stale scores.",
        )
        for name in changed
    ]

"""Says on the server that scorers have changed, which makes `rescore-answers` grade what is stale."""

from prefect.client.orchestration import SyncPrefectClient

from infra.deployment.applying import Say, recall, remember
from regrade.orchestration.events import SCORERS_DEPLOYED, announce
from regrade.scorers import scorer_names
from regrade.scoring.score import label_now

MEMORY = "regrade_deployed_scorers"


def announce_changed_scorers(client: SyncPrefectClient, say: Say) -> None:
    """Send the event `regrade.scorers.deployed` if a scorer is another one than at the deployment before.

    Nothing is sent at the first deployment, where nothing is known of the scorers before.
    """
    now = {name: label for name in scorer_names() if (label := label_now(name))}
    before = recall(client, MEMORY)
    changed = sorted(name for name in now if before and before.get(name, now[name]) != now[name])
    if changed:
        announce(client, SCORERS_DEPLOYED, "regrade.scorers", {"changed": changed, "scorers": now})
        what = ", ".join(f"{before[name]} -> {now[name]}" for name in changed)
        say(f"scorers changed: {what}. `rescore-answers` grades what that made stale")
    if before != now:
        remember(client, MEMORY, now)

"""Make pools, limits, schedules, triggers and deployments on the Prefect server that PREFECT_API_URL names.

`python -m infra.deployment [--force]`; may be run as often as one likes. infra/deploy.sh sets up what it needs.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import httpx
from prefect.client.orchestration import get_client
from prefect.exceptions import PrefectHTTPStatusError

from infra.deployment.applying import deploy, make_pool
from infra.deployment.heartbeats import crash_silent_runs
from infra.deployment.scorers import announce_changed_scorers
from infra.deployment.wanted import read_wanted

ROOT = Path(__file__).parents[2]
LIMITS = {"gpu": 1}
"""Flow runs at a time of a pool that is made here: two engines do not fit on one GPU."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Deploy, and return the exit code."""
    parser = argparse.ArgumentParser(prog="infra/deploy.sh", description=__doc__)
    parser.add_argument(
        "--force", action="store_true", help="also set what a person changed on the server"
    )
    options = parser.parse_args(arguments)
    wanted = read_wanted(ROOT / "prefect.yaml")
    try:
        with get_client(sync_client=True) as client:
            for pool in sorted({one.settings["work pool"] for one in wanted}):
                make_pool(client, pool, LIMITS.get(pool), print)
            for one in wanted:
                deploy(client, one, print, force=options.force)
            announce_changed_scorers(client, print)
            crash_silent_runs(client, print)
    except PrefectHTTPStatusError as error:
        print(f"The Prefect server refused it: {error}", file=sys.stderr)
        return 1
    except httpx.TransportError as error:
        print(f"The Prefect server does not answer: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

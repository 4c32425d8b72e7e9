#!/usr/bin/env bash
# Make the two work pools and all deployments of prefect.yaml; may be run as often as one likes.
set -euo pipefail
cd "$(dirname "$0")/.."
export REGRADE_HOME="${REGRADE_HOME:-$PWD}" DO_NOT_TRACK=1 PREFECT_SERVER_ANALYTICS_ENABLED=false
prefect=.venv/bin/prefect
: "${PREFECT_API_URL:?Set PREFECT_API_URL to the Prefect server, such as http://127.0.0.1:4200/api}"
for pool in gpu cpu; do
    if ! "$prefect" work-pool inspect "$pool" >/dev/null 2>&1; then
        "$prefect" work-pool create "$pool" --type process
    fi
done
"$prefect" --no-prompt deploy --all

#!/usr/bin/env bash
# Make pools, limits, triggers and all deployments of prefect.yaml; may be run as often as one likes.
# What a person changed on the server is left as it is, and named; FORCE=1 sets it to what prefect.yaml says.
set -euo pipefail
cd "$(dirname "$0")/.."
export REGRADE_HOME="${REGRADE_HOME:-$PWD}" DO_NOT_TRACK=1 PREFECT_SERVER_ANALYTICS_ENABLED=false
# A server on SQLite answers 500 now and then while its database is locked; all that is done here may be done twice.
export PREFECT_CLIENT_RETRY_EXTRA_CODES="${PREFECT_CLIENT_RETRY_EXTRA_CODES:-500}"
: "${PREFECT_API_URL:?Set PREFECT_API_URL to the Prefect server, such as http://127.0.0.1:4200/api}"
python="${REGRADE_PYTHON:-.venv/bin/python}"
[ -x "$python" ] || python=python3   # in an image, regrade is installed for the only Python there is
force=()
[ "${FORCE:-0}" = 0 ] || force=(--force)
exec "$python" -m infra.deployment "${force[@]}"

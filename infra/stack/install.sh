#!/usr/bin/env bash
# Install the additional programs of `make stack`: PostgreSQL (with apt, if it is missing) and its driver for MLflow.
set -euo pipefail
cd "$(dirname "$0")/../.."
if ! .venv/bin/python -c 'from infra.stack.postgres import binaries; binaries()' 2>/dev/null; then
    [ "$(id -u)" = 0 ] || { echo "PostgreSQL is not installed: sudo apt-get install postgresql" >&2; exit 1; }
    echo "installing PostgreSQL (apt)"
    export DEBIAN_FRONTEND=noninteractive
    log=.venv/apt.log
    {   apt-get update &&
        apt-get install --yes --no-install-recommends postgresql-common
    } >"$log" 2>&1 || { tail -n 20 "$log" >&2; exit 1; }
    # Debian's package must not create a cluster: the stack creates its own.
    ours=/etc/postgresql-common/createcluster.d/regrade.conf
    mkdir -p "$(dirname "$ours")"
    echo "create_main_cluster = false" > "$ours"
    trap 'rm -f "$ours"' EXIT
    apt-get install --yes --no-install-recommends postgresql >>"$log" 2>&1 || { tail -n 20 "$log" >&2; exit 1; }
fi
.venv/bin/python -m pip --disable-pip-version-check install --quiet --no-deps --require-hashes --requirement requirements/stack.txt
# Metrics are optional: without Prometheus the stack starts as well.
infra/prometheus.sh >.venv/prometheus.log 2>&1 || echo "Prometheus could not be unpacked: the stack has no metrics (.venv/prometheus.log)"
# The user of the workers if the stack is started as root (infra/stack/users.py).
if [ "$(id -u)" = 0 ] && ! id regrade-worker >/dev/null 2>&1; then
    useradd --system --no-create-home --shell /usr/sbin/nologin regrade-worker
fi

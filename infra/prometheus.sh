#!/usr/bin/env bash
# Unpack Debian's Prometheus into .prometheus unless it is installed: for `make stack` and the tests of the dashboards.
# Nothing is installed or started: the package would start a service.
set -euo pipefail
cd "$(dirname "$0")/.."
if command -v prometheus >/dev/null || [ -x .prometheus/usr/bin/prometheus ]; then exit 0; fi
command -v apt-get >/dev/null && command -v dpkg-deb >/dev/null || exit 1
mkdir -p .prometheus
cd .prometheus
[ "$(id -u)" != 0 ] || apt-get update
apt-get download prometheus
dpkg-deb --extract prometheus_*.deb .
rm prometheus_*.deb

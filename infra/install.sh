#!/usr/bin/env bash
# Install the pinned CPU environment into .venv: vLLM, Prefect, MLflow and regrade.
# Usage: infra/install.sh [--dev]
set -euo pipefail
cd "$(dirname "$0")/.."
python="${PYTHON:-python3}"
torch="torch==2.13.0+cpu"

"$python" - <<'PY' || exit 1
import platform, sys
if sys.version_info < (3, 11):
    sys.exit(f"regrade needs Python 3.11 or newer, this is {platform.python_version()}. Set PYTHON=python3.11.")
PY
[ -x .venv/bin/python ] || "$python" -m venv .venv
log=.venv/install.log
say() { printf '%s %s\n' "$(date +%H:%M:%S)" "$*"; }
pip() { .venv/bin/python -m pip --disable-pip-version-check install --no-deps "$@" >>"$log" 2>&1; }
# Shows each package when pip begins to collect it.
pip_shown() {
    .venv/bin/python -m pip --disable-pip-version-check install --no-deps "$@" 2>&1 | tee -a "$log" |
        sed -un 's/^\(Collecting [^ ]*\).*/  \1/p; s/^\(Installing collected packages\).*/  \1/p'
}
pip_list() { pip_shown --require-hashes --requirement "$1"; }
fail() { tail -n 25 "$log" >&2; say "the installation failed; the output of pip is in $log" >&2; exit 1; }

say "installing the pinned CPU environment into .venv (about 4.5 GB; two minutes or more)"
pip --upgrade pip || fail
# The CPU build of torch: from the configured package indexes, else from PyTorch's index.
say "torch (about 200 MB)"
pip_shown "$torch" || pip_shown --index-url https://download.pytorch.org/whl/cpu "$torch" || fail
packages=$(.venv/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
# Before torchvision, whose import fails without it beside a CPU build of torch.
cp infra/torchvision_operators.py "$packages/"
echo 'import torchvision_operators' > "$packages/torchvision_operators.pth"
pip_list requirements/cpu.txt || fail
if [ "${1:-}" = --dev ]; then
    pip_list requirements/dev.txt || fail
    # The tests of the Prefect UI need a browser; they are skipped if it is missing and this user cannot install it.
    if ! { command -v chromium && command -v chromedriver; } >/dev/null && command -v apt-get >/dev/null && [ "$(id -u)" = 0 ]; then
        say "installing Chromium for the tests of the Prefect UI"
        { apt-get update && apt-get install -y --no-install-recommends chromium chromium-driver; } >>"$log" 2>&1 || fail
    fi
    # Programs of answers run in bubblewrap; its tests are skipped if it is missing and this user cannot install it.
    if ! command -v bwrap >/dev/null && command -v apt-get >/dev/null && [ "$(id -u)" = 0 ]; then
        say "installing bubblewrap for the tests of the sandbox"
        { apt-get update && apt-get install -y --no-install-recommends bubblewrap; } >>"$log" 2>&1 || fail
    fi
    # Dashboards are tested with a real Prometheus; these tests are skipped without it.
    infra/prometheus.sh >>"$log" 2>&1 || say "no Prometheus: the tests of the dashboards will be skipped"
fi
pip --no-build-isolation --editable . || fail
.venv/bin/python -m compileall -q flows tasks regrade
say "installed"

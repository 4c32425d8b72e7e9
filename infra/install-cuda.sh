#!/usr/bin/env bash
# On a machine with an NVIDIA GPU (x86_64): install vLLM's CUDA build and regrade into .venv, in the versions of requirements/cuda.txt.
set -euo pipefail
cd "$(dirname "$0")/.."
python="${PYTHON:-python3}"
command -v nvidia-smi >/dev/null || { echo "nvidia-smi is not installed: this machine has no NVIDIA driver. Use \`make install\` for the CPU." >&2; exit 1; }
[ -x .venv/bin/python ] || "$python" -m venv .venv
.venv/bin/python -m pip install --upgrade pip
.venv/bin/python -m pip install --no-deps --require-hashes --requirement requirements/cuda.txt
.venv/bin/python -m pip install --no-deps --no-build-isolation --editable .
touch .venv/installed

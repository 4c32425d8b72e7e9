#!/usr/bin/env bash
# On a machine with an NVIDIA GPU: install vLLM's CUDA build and regrade into .venv.
set -euo pipefail
cd "$(dirname "$0")/.."
python="${PYTHON:-python3}"
command -v nvidia-smi >/dev/null || { echo "nvidia-smi is not installed: this machine has no NVIDIA driver. Use \`make install\` for the CPU." >&2; exit 1; }
[ -x .venv/bin/python ] || "$python" -m venv .venv
.venv/bin/python -m pip install --upgrade pip
# vLLM installs the torch and CUDA libraries that it was built with; pyproject.toml limits fastapi.
.venv/bin/python -m pip install --editable '.[cuda]'
touch .venv/installed

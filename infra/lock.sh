#!/usr/bin/env bash
# Pin requirements/*.in into requirements/*.txt. No line names an index: each machine has its own.
set -euo pipefail
cd "$(dirname "$0")/../requirements"
export UV_FIND_LINKS="${PIP_FIND_LINKS:-}"
options=(--python-version 3.11 --no-annotate --no-header --no-emit-index-url --no-emit-find-links
         --index-strategy unsafe-best-match --override without.txt --quiet)
python=../.venv/bin
"$python/uv" pip compile cpu.in "${options[@]}" --output-file cpu.txt "$@"
"$python/uv" pip compile dev.in "${options[@]}" --output-file all-dev.txt "$@"
# What cpu.txt has already is installed before; the rest is the development list.
grep -vxFf cpu.txt all-dev.txt > dev.txt || true
rm all-dev.txt
"$python/uv" pip compile stack.in "${options[@]}" --output-file all-stack.txt "$@"
grep -vxFf cpu.txt all-stack.txt > stack.txt || true
rm all-stack.txt
# Prefect, MLflow and scoring, for the images that hold no vLLM: regrade's own dependencies, in the versions of cpu.txt, for
# every Python that is supported.
"$python/uv" pip compile ../pyproject.toml -c cpu.txt --universal "${options[@]}" --output-file scoring.txt "$@"
grep -v '^torch==' cpu.txt > cpu.tmp && mv cpu.tmp cpu.txt   # infra/install.sh has its own way to torch

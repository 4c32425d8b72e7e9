#!/usr/bin/env bash
# Pin the versions of requirements/*.in in requirements/*.txt, without package indexes, which differ between machines.
set -euo pipefail
cd "$(dirname "$0")/../requirements"
export UV_FIND_LINKS="${PIP_FIND_LINKS:-}"
options=(--python-version 3.11 --no-annotate --no-header --no-emit-index-url --no-emit-find-links
         --index-strategy unsafe-best-match --override without.txt --quiet)
python=../.venv/bin
"$python/uv" pip compile cpu.in "${options[@]}" --output-file cpu.txt "$@"
"$python/uv" pip compile dev.in "${options[@]}" --output-file all-dev.txt "$@"
# dev.txt and stack.txt contain only what cpu.txt does not, mutants.txt only what neither cpu.txt nor dev.txt does.
grep -vxFf cpu.txt all-dev.txt > dev.txt || true
rm all-dev.txt
"$python/uv" pip compile stack.in "${options[@]}" --output-file all-stack.txt "$@"
grep -vxFf cpu.txt all-stack.txt > stack.txt || true
rm all-stack.txt
"$python/uv" pip compile mutants.in "${options[@]}" --output-file all-mutants.txt "$@"
grep -vxFf cpu.txt all-mutants.txt | grep -vxFf dev.txt > mutants.txt || true
rm all-mutants.txt
# Prefect, MLflow and scoring, for images without vLLM: regrade's dependencies in the versions of cpu.txt, for every
# supported Python.
"$python/uv" pip compile ../pyproject.toml -c cpu.txt --universal "${options[@]}" --output-file scoring.txt "$@"
grep -v '^torch==' cpu.txt > cpu.tmp && mv cpu.tmp cpu.txt   # infra/install.sh installs torch

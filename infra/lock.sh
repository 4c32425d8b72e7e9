#!/usr/bin/env bash
# Pin the versions of requirements/*.in in requirements/*.txt, with the hashes of their files (pip refuses other files), and
# without package indexes, which differ between machines.
set -euo pipefail
cd "$(dirname "$0")/../requirements"
export UV_FIND_LINKS="${PIP_FIND_LINKS:-}"
uv="${UV:-../.venv/bin/uv}"
compile() {
    "$uv" pip compile "$@" --python-version 3.11 --generate-hashes --no-annotate --no-header --no-emit-index-url \
        --no-emit-find-links --index-strategy unsafe-best-match --override without.txt --quiet
}
# Print the packages of the last list that the other lists do not have; the lines of a package's hashes are indented.
only_in() {
    awk '{ last = FILENAME == ARGV[ARGC - 1] }
         !last && /^[^ ]/ { listed[$1] }
         last && /^[^ ]/ { keep = !($1 in listed) }
         last && keep' "$@"
}
compile cpu.in --output-file cpu.txt "$@"
compile dev.in --output-file all-dev.txt "$@"
compile stack.in --output-file all-stack.txt "$@"
only_in cpu.txt all-dev.txt > dev.txt
only_in cpu.txt all-stack.txt > stack.txt
compile mutants.in --output-file all-mutants.txt "$@"
only_in cpu.txt dev.txt all-mutants.txt > mutants.txt
compile docs.in --output-file all-docs.txt "$@"
only_in cpu.txt dev.txt all-docs.txt > docs.txt
compile release.in --output-file release.txt "$@"
rm all-dev.txt all-stack.txt all-mutants.txt all-docs.txt
# Prefect, MLflow and scoring, for images without vLLM: regrade's dependencies in the versions of cpu.txt, for every
# supported Python.
compile ../pyproject.toml -c cpu.txt --universal --output-file scoring.txt "$@"
# For machines with a GPU (x86_64). Their torch comes from PyPI, not from the CPU builds of this machine.
UV_FIND_LINKS='' "$uv" pip compile ../pyproject.toml cuda.in --python-version 3.11 --python-platform x86_64-manylinux_2_35 --generate-hashes \
    --no-annotate --no-header --no-emit-index-url --index-strategy unsafe-best-match --no-python-downloads --quiet --output-file cuda.txt "$@"
# infra/install.sh installs torch, without a hash: its CPU build comes from an index of its own, which differs between machines.
awk '/^[^ ]/ { keep = !/^torch==/ } keep' cpu.txt > cpu.tmp && mv cpu.tmp cpu.txt

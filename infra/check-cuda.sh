#!/usr/bin/env bash
# The resolver's dry run of requirements/cuda.txt, for a machine with a GPU and each supported Python: the list is complete,
# nothing in it contradicts anything else or pyproject.toml, and the index has a file for each package. Nothing is downloaded
# but metadata, and nothing is installed.
set -euo pipefail
cd "$(dirname "$0")/.."
uv="${UV:-.venv/bin/uv}"
machine=(--python-platform x86_64-manylinux_2_35 --index-strategy unsafe-best-match --no-python-downloads --quiet)
unset UV_FIND_LINKS # the CPU builds of this machine
folder="$(mktemp -d)"
trap 'rm -r "$folder"' EXIT
for version in 3.11 3.12 3.13; do
    "$uv" pip install --dry-run --target "$folder" --require-hashes --requirement requirements/cuda.txt \
        --python-version "$version" "${machine[@]}"
    "$uv" pip compile pyproject.toml --extra cuda --constraint requirements/cuda.txt --python-version "$version" "${machine[@]}" \
        --output-file "$folder/compiled.txt"
done
echo "requirements/cuda.txt can be installed on Linux (x86_64) with Python 3.11, 3.12 and 3.13."

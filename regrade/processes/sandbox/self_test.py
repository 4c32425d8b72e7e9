"""Show that the sandbox holds on this machine, before the first program runs."""

import json
import os
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regrade.processes.sandbox.inside.frames import LARGEST, ClosedError
from regrade.settings.errors import SandboxError

if TYPE_CHECKING:
    from regrade.processes.sandbox.box import Box
    from regrade.processes.sandbox.sandbox import Sandbox

_VARIABLES = ("PATH", "PWD", "HOME", "LANG", "LC_CTYPE", "PYTHON", "OPENBLAS_NUM_THREADS")

_PROBES = {
    "connect to this machine": "import socket; socket.create_connection(('127.0.0.1', 9), 1)",
    "open a socket": "import socket; socket.socket()",
    "start another program": "import os; os.posix_spawn('/bin/true', ['true'], {})",
    "start a process": "import os; os.fork()",
    "signal another process": "import os; os.kill(os.getppid(), 0)",
    "have another process signalled": "import fcntl, os; fcntl.fcntl(0, fcntl.F_SETOWN, os.getppid())",
    "read another process": "import os; open(f'/proc/{os.getppid()}/mem', 'rb').read(1)",
    "write to process 1": "open('/proc/1/mem', 'r+b')",
    "read the list of users": "open('/etc/passwd').read()",
    "list the home of the user": "import os; os.listdir(%(home)r)",
    "list the working folder": "import os; os.listdir(%(folder)r)",
    "read a file of the user": "open(%(secret)r).read()",
    "write to the system": "open('/usr/probe', 'w')",
    "fill the disk": "f = open('/tmp/probe', 'wb')\nfor _ in range(%(files)d): f.write(bytes(1 << 20))\nf.flush()",
    "make more files than allowed": "for n in range(%(names)d): open(f'/tmp/probe{n}', 'w').close()",
    "make more shared memory than allowed": "for n in range(99): open(f'/dev/shm/probe{n}', 'w').close()",
    "use more memory than allowed": "x = bytearray(%(memory)d << 20)",
    "become root": "import os; os.setuid(0)",
    "read the environment of regrade": "import os; assert any(not name.startswith(%(variables)r) for name in os.environ)",
}
"""Forbidden acts by name; each raises an error in a sandbox that holds."""

_PROGRAM = """
import json
found = []
for what, source in %r.items():
    try:
        exec(source, {"__name__": "probe"})
    except BaseException:
        continue
    found.append(what)
try:  # a file of this name in a folder of the sandbox does no harm
    open(%r, "a").write("written")
except OSError:
    pass
print(json.dumps(found))
"""


def check(sandbox: "Sandbox", name: str) -> None:
    """Run programs that try forbidden acts, and an endless program.

    Raises:
        SandboxError: If a forbidden act succeeds, or if the sandbox does not start.
    """
    limits = sandbox.limits
    with tempfile.NamedTemporaryFile(prefix="regrade-probe-") as secret:
        Path(secret.name).chmod(0o666)
        values = {
            "home": str(Path.home()),
            "folder": os.getcwd(),  # noqa: PTH109
            "secret": secret.name,
            "files": limits.scratch_mib + 1,
            "names": limits.scratch_files + 1,
            "memory": limits.memory_mib,
            "variables": _VARIABLES,
        }
        probes = {what: source % values for what, source in _PROBES.items()}
        report, output = _run(sandbox.box(), _PROGRAM % (probes, secret.name), name)
        if report["exit"] != 0:
            raise SandboxError(
                f"The sandbox '{name}' starts on this machine, but a harmless program ended in it with {report}. Its limits or "
                "its system call filter are not supported here."
            )
        found = json.loads(output)
        if Path(secret.name).read_bytes():
            found.append("write a file of the user")
    if found:
        raise SandboxError(
            f"The sandbox '{name}' does not hold on this machine, so no program is run: a program could "
            f"{', '.join(found)}."
        )
    quick = sandbox.with_limits(replace(limits, test_cpu_seconds=1, wall_factor=30))
    report, _ = _run(quick.box(), "while True: pass", name)
    if report["signal"] is None and "ended" not in report:
        raise SandboxError(
            f"The sandbox '{name}' does not hold on this machine, so no program is run: an endless program was not "
            "ended."
        )


def _run(box: "Box", source: str, name: str) -> "tuple[dict[str, Any], bytes]":
    with box:
        try:
            box.request("load", sources=[source])
            box.request("script")
            box.send_input(b"")
            report = box.report(120)
            return report, box.take(box.receive(120, LARGEST) or 0, 120)
        except (ClosedError, OSError) as error:
            raise SandboxError(
                f"The sandbox '{name}' ended while it was tested: {error}."
            ) from error

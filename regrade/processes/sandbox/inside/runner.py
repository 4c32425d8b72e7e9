"""Main program of a sandbox: starts a process for each program or test, and reports how it ended.

It is trusted, and the programs cannot reach it: they may not signal or trace it, and have none of its descriptors.
"""

import atexit
import json
import os
import resource
import select
import signal
import site
import sys
import threading
import time
from collections.abc import Callable, Mapping
from types import CodeType
from typing import Any

from regrade.processes.sandbox.inside import kernel, programs
from regrade.processes.sandbox.inside.frames import ClosedError, read_frame, write_frame

CONTROL_IN, CONTROL_OUT = 0, 1
_HIGHEST_DESCRIPTOR = 256
_PAUSE = 0.02
"""Seconds between two looks whether a program has ended."""
_COMPILED_TESTS = 4
"""Number of cached compiled tests; answers to the same question follow each other."""


def main() -> None:
    """Set this process up, then serve requests until the control pipe is closed."""
    setup = json.loads(read_frame(CONTROL_IN))
    sys.path[:] = [*(path for path in sys.path if path), *setup["packages"]]
    if setup["scratch"]:
        kernel.mount_scratch(setup["scratch"])
    os.chdir(setup["folder"])
    kernel.protect()
    kernel.give_up_privileges()
    if setup["landlock"] is not None:
        kernel.restrict_files(**setup["landlock"])
    site.setquit()  # `exit` and `quit`; the rest of `site` would make more packages importable
    for name in setup["preload"]:
        __import__(name)
    write_frame(CONTROL_OUT, json.dumps({"ready": True, "python": sys.version.split()[0]}).encode())
    server = Server(setup)
    while True:
        try:
            request = json.loads(read_frame(CONTROL_IN))
        except ClosedError:
            return
        server.serve(request)


class Server:
    """Serves requests; each program is a process of its own."""

    def __init__(self, setup: Mapping[str, Any]) -> None:
        self._setup = setup
        self._sources: list[str] = []
        self._tests: dict[str, Any] = {}

    def serve(self, request: Mapping[str, Any]) -> None:
        """Serve a request, and report its end on the control pipe."""
        do, limits = request["do"], self._setup
        if do == "load":
            self._sources = request["sources"]
            return
        if do == "script":
            report, output = self._script(read_frame(CONTROL_IN))
            write_frame(CONTROL_OUT, json.dumps(report).encode())
            write_frame(programs.VERDICTS, output)
            return
        if do == "cpu":  # the program ended before the question came
            return
        hard = limits["program_cpu_seconds"]
        if do == "calls":
            pid = self._start(
                lambda: programs.serve_calls(self._sources, request["cpu_seconds"]),
                request["all_cpu_seconds"],
            )
            _answer_until(pid)
        elif do == "tests":
            pid = self._start(
                lambda: programs.run_with_tests(
                    self._sources, request["tests"], request["entry_point"], request["nonce"]
                ),
                limits["test_cpu_seconds"],
            )
        elif do == "plan":
            from regrade.processes.sandbox.inside import judging  # noqa: PLC0415 - no program needs it

            pid = self._start(
                lambda: programs.write_json(judging.plan(request["tests"], request["entry_point"])),
                hard,
            )
        elif do == "compare":
            from regrade.processes.sandbox.inside import comparing  # noqa: PLC0415

            pid = self._start(
                lambda: comparing.compare(text=request["text"], deep=request["deep"]), hard
            )
        else:
            from regrade.processes.sandbox.inside import judging  # noqa: PLC0415

            code = self._compiled(request)
            pid = self._start(lambda: judging.judge(code, request), hard)
        _, status, usage = os.wait4(pid, 0)
        write_frame(CONTROL_OUT, json.dumps(_report(status, usage)).encode())

    def _compiled(self, request: Mapping[str, Any]) -> CodeType:
        key = str(request["key"])
        if key not in self._tests:
            while len(self._tests) >= _COMPILED_TESTS:
                del self._tests[next(iter(self._tests))]
            code: CodeType = compile(str(request["tests"]), "<tests>", "exec", dont_inherit=True)
            self._tests[key] = code
        tests: CodeType = self._tests[key]
        return tests

    def _start(
        self,
        action: "Callable[[], int | None]",
        cpu_seconds: int,
        pipes: "tuple[int, int] | None" = None,
    ) -> int:
        """Start a process that confines itself and runs `action`.

        Args:
            action: Runs with the program's limits; returns the exit code, or None for 0.
            cpu_seconds: CPU time after which the process gets SIGXCPU, and a second later SIGKILL.
            pipes: Input and output of a script; None: the pipes for calls and verdicts instead.
        """
        pid = os.fork()
        if pid:
            return pid
        code = 1
        try:
            nothing = os.open("/dev/null", os.O_RDWR)
            for descriptor, source in enumerate(pipes or (nothing, nothing)):
                os.dup2(source, descriptor)
            os.dup2(nothing, 2)
            os.closerange(3 if pipes else programs.VERDICTS + 1, _HIGHEST_DESCRIPTOR)
            programs.become_untrusted(self._setup, cpu_seconds, cpu_seconds + 1)
            code = action() or 0
        except SystemExit:
            code = 0
        except BaseException:  # noqa: BLE001 - the exit code tells
            pass
        finally:
            _leave(code, finish=pipes is not None)
        return 0

    def _script(self, stdin: bytes) -> "tuple[dict[str, Any], bytes]":
        """Run the loaded program once as a script."""
        setup = self._setup
        source = os.memfd_create("stdin")
        reading, writing = os.pipe()
        try:
            view = memoryview(stdin)
            while view:
                view = view[os.write(source, view) :]
            os.lseek(source, 0, os.SEEK_SET)
            pid = self._start(
                lambda: programs.run_script(self._sources),
                setup["test_cpu_seconds"],
                (source, writing),
            )
        finally:
            os.close(source)
            os.close(writing)
        deadline = time.monotonic() + setup["test_wall_seconds"]
        output, ended = _collect(reading, setup["output_mib"] << 20, deadline)
        os.close(reading)
        status, usage = _wait(pid, deadline if ended is None else 0.0)
        report = _report(status, usage)
        if ended is not None:
            report["ended"] = ended
        elif status == -1:
            report["ended"] = "wall"
        return report, output


def _answer_until(pid: int) -> None:
    """Tell a process's CPU time whenever it is asked for, until the process has ended."""
    clock = ~pid << 3 | 2  # CPUCLOCK_SCHED of a process: all its threads, by the kernel's count
    ended = os.WEXITED | os.WNOHANG | os.WNOWAIT
    while os.waitid(os.P_PID, pid, ended) is None:
        if select.select([CONTROL_IN], [], [], _PAUSE)[0]:
            read_frame(CONTROL_IN)
            used = {"used": time.clock_gettime(clock)}
            write_frame(CONTROL_OUT, json.dumps(used).encode())


def _collect(reading: int, most: int, deadline: float) -> "tuple[bytes, str | None]":
    """Return a script's output, and the reason if reading it was given up."""
    parts: list[bytes] = []
    size = 0
    while True:
        left = deadline - time.monotonic()
        if left <= 0 or not select.select([reading], [], [], left)[0]:
            return b"".join(parts), "wall"
        part = os.read(reading, 1 << 16)
        if not part:
            return b"".join(parts), None
        parts.append(part)
        size += len(part)
        if size > most:
            return b"", "output"


def _wait(pid: int, deadline: float) -> "tuple[int, resource.struct_rusage]":
    """Wait for the end of a process and kill it at the deadline; the status is -1 if it was killed."""
    pause = 0.0005
    while True:
        found, status, usage = os.wait4(pid, os.WNOHANG)
        if found:
            return status, usage
        if time.monotonic() >= deadline:
            break
        time.sleep(pause)
        pause = min(2 * pause, 0.02)
    os.kill(pid, signal.SIGKILL)
    _, _, usage = os.wait4(pid, 0)
    return -1, usage


def _report(status: int, usage: resource.struct_rusage) -> "dict[str, Any]":
    signalled = status >= 0 and os.WIFSIGNALED(status)
    return {
        "exit": os.WEXITSTATUS(status) if status >= 0 and os.WIFEXITED(status) else None,
        "signal": os.WTERMSIG(status) if signalled else None,
        "cpu": usage.ru_utime + usage.ru_stime,
    }


def _leave(code: int, *, finish: bool) -> None:
    """End a program's process; a script's threads and exit handlers run first, as in a process of its own."""
    try:
        if finish:
            sys.stdout.flush()
            threading._shutdown()  # type: ignore[attr-defined]
            atexit._run_exitfuncs()
            sys.stdout.flush()
    except BaseException:  # noqa: BLE001 - as an interpreter that fails while it ends
        code = 1
    finally:
        os._exit(code)

"""Hostile programs: none reads, writes, connects, outlives, fills, breaks out or passes."""

import os
import platform
import socket
import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from regrade.processes.sandbox.calling import Verdict
from regrade.processes.sandbox.interpreter import credentials
from regrade.processes.sandbox.limits import Limits
from regrade.processes.sandbox.running import Runner, Suite
from regrade.processes.sandbox.sandbox import Sandbox, open_sandbox
from regrade.settings import SandboxName
from tests.processes.sandbox.bubblewrap import needs_bubblewrap
from tests.processes.sandbox.hostile import CHEATS, PROGRAMS

SMALL = Limits(
    test_cpu_seconds=1,
    call_cpu_seconds=1,
    program_cpu_seconds=3,
    wall_factor=3,
    memory_mib=256,
    output_mib=1,
)
AT_ONCE = 4
EXPECTED = 123456


@pytest.fixture(scope="module", params=[pytest.param("bwrap", marks=needs_bubblewrap), "landlock"])
def sandbox(request: pytest.FixtureRequest) -> Iterator[Sandbox]:
    name: SandboxName = request.param
    with open_sandbox(name, limits=SMALL, processes=AT_ONCE) as opened:
        yield opened


@contextmanager
def surroundings(folder: Path) -> Iterator[dict[str, object]]:
    """Things that are within reach without a sandbox: files, sockets, a process of the same user."""
    secret = folder / "secret"
    secret.write_text("secret")
    secret.chmod(0o666)
    x86 = platform.machine() == "x86_64"
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.socket(socket.AF_UNIX) as unix,
        socket.socket(socket.AF_UNIX) as abstract,
        subprocess.Popen(["/bin/sleep", "600"], cwd="/", **credentials()) as victim,
    ):
        unix.bind(str(folder / "unix"))
        (folder / "unix").chmod(0o777)
        name = f"regrade-{os.getpid()}"
        abstract.bind("\0" + name)
        for listening in (server, unix, abstract):
            listening.listen()
            listening.setblocking(False)
        yield {
            "secret": str(secret),
            "home": str(Path.home()),
            "folder": str(Path.cwd()),
            "port": server.getsockname()[1],
            "unix": str(folder / "unix"),
            "abstract": name,
            "victim": victim.pid,
            "socket_number": 41 if x86 else 198,
            "bpf_number": 321 if x86 else 280,
        }
        for listening in (server, unix, abstract):
            with pytest.raises(BlockingIOError):
                listening.accept()
        assert victim.poll() is None, "a program killed a process"
        victim.kill()
    assert secret.read_text() == "secret"
    assert secret.stat().st_mode & 0o777 == 0o666
    assert secret.stat().st_mtime > time.time() - 3600


def test_no_hostile_program_does_what_it_tries(
    sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
):
    monkeypatch.setenv("HF_TOKEN", "secret")
    folder = tmp_path_factory.mktemp("outside")
    for above in (folder, *folder.parents[:2]):
        above.chmod(0o755)  # as open as a careless user's files
    before = set(Path("/tmp").iterdir())
    mine = psutil.Process()
    children = set(mine.children(recursive=True))

    def verdict(source: str) -> Verdict:
        with Runner(sandbox) as runner:
            return runner.run_scripts([source], [b""], lambda _, output: b"escaped" in output)

    with surroundings(folder) as values, ThreadPoolExecutor(AT_ONCE) as pool:
        sources = {name: source.format(**values) for name, source in PROGRAMS.items()}
        verdicts = dict(zip(sources, pool.map(verdict, sources.values()), strict=True))
    assert {name for name, verdict in verdicts.items() if verdict == "passed"} == set()
    assert len(verdicts) >= 40
    for name in ("never ending", "not hearing the limit", "sleeping"):
        assert verdicts[f"outlives: by {name}"] == "timeout", name
    new = {path.name for path in set(Path("/tmp").iterdir()) - before}
    assert not {name for name in new if name.isdigit() or name == "x"}
    deadline = time.monotonic() + 5
    while left := set(mine.children(recursive=True)) - children:
        assert time.monotonic() < deadline, f"outlived: {left}"
        time.sleep(0.05)


@pytest.mark.parametrize(
    "tests",
    [
        Suite(f"assert f(1) == {EXPECTED}"),
        Suite(f"def check(candidate):\n    assert candidate(1) == {EXPECTED}", "f"),
        Suite(f"x = 1\nassert f(x) in [{EXPECTED}]"),
    ],
    ids=["asserts", "check", "computed"],
)
def test_no_cheat_passes(sandbox: Sandbox, tests: Suite):
    def verdicts(source: str) -> list[Verdict]:
        with Runner(sandbox) as runner:
            return runner.run_tests([source], [tests])

    with ThreadPoolExecutor(AT_ONCE) as pool:
        found = dict(zip(CHEATS, pool.map(verdicts, CHEATS.values()), strict=True))
    assert {name for name, verdict in found.items() if verdict == ["passed"]} == set()


def test_no_cheat_passes_calls(sandbox: Sandbox):
    def verdict(source: str) -> Verdict:
        with Runner(sandbox) as runner:
            return runner.run_calls([source], [("f", [1])], lambda _, value: value == EXPECTED)

    with ThreadPoolExecutor(AT_ONCE) as pool:
        found = dict(zip(CHEATS, pool.map(verdict, CHEATS.values()), strict=True))
    assert {name for name, verdict in found.items() if verdict == "passed"} == set()


INSIDE = Suite(f"class T: pass\nassert isinstance(f(1), P) and f(1) == P({EXPECTED})")
P = "class P(int): pass\n"


def test_an_exit_does_not_pass_tests_that_share_a_process(sandbox: Sandbox):
    with Runner(sandbox) as runner:
        assert runner.run_tests([P + f"def f(x): return P({EXPECTED})"], [INSIDE]) == ["passed"]
        for name in ("exit before the tests", "exit at once", "exit in the call", "no function"):
            assert runner.run_tests([P + CHEATS[name]], [INSIDE]) == ["failed"], name


def test_two_cheats_pass_tests_that_share_a_process_as_the_docs_say(sandbox: Sandbox):
    equal = "class P(int):\n    def __eq__(self, other): return True\ndef f(x): return P(0)"
    frames = (
        "import sys, os\nframe = sys._getframe()\nwhile 'nonce' not in frame.f_locals: frame = frame.f_back\n"
        "n = frame.f_locals['nonce']; os.write(4, b'%08x' % len(n) + n.encode()); os._exit(0)"
    )
    with Runner(sandbox) as runner:
        assert runner.run_tests([equal], [INSIDE]) == ["passed"]
        assert runner.run_tests([frames], [INSIDE]) == ["passed"]

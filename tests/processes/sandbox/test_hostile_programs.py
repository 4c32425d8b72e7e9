"""Hostile programs: none reads, writes, connects, outlives, fills, breaks out or passes."""

import os
import platform
import resource
import signal
import socket
import subprocess
import time
import tracemalloc
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from regrade.processes.sandbox import self_test
from regrade.processes.sandbox.calling import Verdict, is_cpu_limit
from regrade.processes.sandbox.interpreter import credentials
from regrade.processes.sandbox.limits import Limits
from regrade.processes.sandbox.running import Runner, Suite
from regrade.processes.sandbox.sandbox import Sandbox
from regrade.settings.errors import SandboxError
from tests.processes.sandbox.conftest import AT_ONCE
from tests.processes.sandbox.hostile import CHEATS, FRAME, PROGRAMS

SMALL = Limits(
    test_cpu_seconds=1,
    call_cpu_seconds=1,
    program_cpu_seconds=3,
    wall_factor=3,
    memory_mib=256,
    output_mib=1,
)
EXPECTED = 123456


@pytest.fixture(scope="module")
def sandbox(either: Sandbox) -> Sandbox:
    return either.with_limits(SMALL)


@pytest.fixture(scope="module")
def runner(sandbox: Sandbox) -> Iterator[Runner]:
    with Runner(sandbox) as opened:
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

    def outcome(source: str) -> Verdict | None:
        """Return whether it escaped (`passed`) or ran out of time; None otherwise."""
        try:
            report, output = self_test._run(sandbox.box(), source, "")
        except SandboxError:
            return None  # it took the memory of its sandbox
        if b"escaped" in output:
            return "passed"
        over = report.get("ended") == "wall" or is_cpu_limit(report, SMALL.test_cpu_seconds)
        return "timeout" if over else None

    with surroundings(folder) as values, ThreadPoolExecutor(AT_ONCE) as pool:
        sources = {name: source.format(**values) for name, source in PROGRAMS.items()}
        verdicts = dict(zip(sources, pool.map(outcome, sources.values()), strict=True))
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
        pytest.param(
            Suite(f"def check(candidate):\n    assert candidate(1) == {EXPECTED}", "f"),
            marks=pytest.mark.slow,
        ),
        pytest.param(Suite(f"x = 1\nassert f(x) in [{EXPECTED}]"), marks=pytest.mark.slow),
    ],
    ids=["asserts", "check", "computed"],
)
def test_no_cheat_passes(sandbox: Sandbox, tests: Suite):
    passed = cheats_that(sandbox, lambda runner, cheat: runner.run_tests([cheat], [tests])[-1])
    assert passed == set()


def test_no_cheat_passes_calls(sandbox: Sandbox):
    def verdict(runner: Runner, cheat: str) -> Verdict:
        return runner.run_calls([cheat], [("f", [1])], [EXPECTED], deep=True)

    assert cheats_that(sandbox, verdict) == set()


def cheats_that(sandbox: Sandbox, verdict: Callable[[Runner, str], Verdict]) -> set[str]:
    """Names of the cheats that pass; like answers, many share a runner, and so the sandbox of their tests."""

    def passed(names: list[str]) -> set[str]:
        with Runner(sandbox) as runner:
            return {name for name in names if verdict(runner, CHEATS[name]) == "passed"}

    parts = [[*CHEATS][start::AT_ONCE] for start in range(AT_ONCE)]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        return set().union(*pool.map(passed, parts))


FORGES = (
    "import sys, os\nframe = sys._getframe()\nwhile frame:\n    n = frame.f_locals.get('nonce')\n"
    "    if isinstance(n, str): os.write(4, b'%08x' % len(n) + n.encode()); os._exit(0)\n    frame = frame.f_back\n"
)
"""Passes tests that share its process."""


DEEP = "frame(b'{\"value\":' + b'[' * 260 + b']' * 260 + b'}') or time.sleep(9)"
"""An answer nested more deeply than the sandbox encodes values."""


@pytest.mark.parametrize(
    "result",
    ["(c for c in x)", "iter(x)", "print", "f", "[object()]", pytest.param(DEEP, id="deep")],
)
def test_a_result_never_moves_the_tests_into_the_process_of_the_program(
    runner: Runner, result: str
):
    source = FORGES + FRAME + f"def f(x): return {result}\ndef g(x): return 'wrong'"
    tests = Suite("e = f('abc')\nassert g(e) == 'abc'")
    assert runner.run_tests([source], [tests]) == ["failed"]


@pytest.mark.parametrize("calls", [60, pytest.param(400, marks=pytest.mark.slow)])
def test_results_that_grow_or_are_many_take_no_memory_of_regrade(sandbox: Sandbox, calls: int):
    grows = FRAME + (
        'def f(x): frame(b\'{"value":{"tuple":{"range":[0,60000000,1]}}}\'); time.sleep(9)'
    )
    many = "def f(x): return 'x' * 900000"
    asserts = "\n".join(f"assert f({n}) == {n}" for n in range(calls))
    with Runner(sandbox.with_limits(replace(SMALL, wall_factor=60))) as runner:
        assert runner.run_tests(["def f(x): return x"], [Suite("assert f(1) == 1")]) == ["passed"]
        tracemalloc.start()
        assert runner.run_tests([many], [Suite(asserts)]) == ["failed"]
        assert runner.run_tests([grows], [Suite("assert f(1) == 1")]) == ["failed"]
        assert runner.run_calls([grows], [("f", [1])], [1], deep=True) == "failed"
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert most < 4 << 20


DEAF = (
    "signal.signal(signal.SIGXCPU, signal.SIG_IGN)",
    "signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGXCPU])",
    "resource.setrlimit(resource.RLIMIT_CPU, (resource.getrlimit(resource.RLIMIT_CPU)[1],) * 2)",
)
"""Ways not to hear the signal of the limit."""


def test_a_call_that_does_not_hear_its_limit_is_ended_by_the_count_of_the_kernel(landlock: Sandbox):
    """In either sandbox, which has no part in it: each program takes two seconds of a core."""
    patient = landlock.with_limits(replace(SMALL, program_cpu_seconds=60, wall_factor=60))

    def verdicts(deaf: str) -> list[Verdict]:
        source = f"import resource, signal, time\ndef f(x):\n    {deaf}\n    while time.process_time() < 4: pass\n    return x"
        with Runner(patient) as runner:
            return runner.run_tests([source], [Suite("assert f(1) == 1")])

    with ThreadPoolExecutor(len(DEAF)) as pool:
        assert [*pool.map(verdicts, DEAF)] == [["timeout"]] * len(DEAF)


def test_more_descriptors_than_select_knows_are_no_problem(sandbox: Sandbox):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < 2000:
        pytest.skip("only so many descriptors are allowed")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 2000), hard))
    opened = [os.open("/dev/null", os.O_RDONLY) for _ in range(1100)]
    try:
        with Runner(sandbox) as runner:
            tests = Suite("assert f(1) == 1")
            assert runner.run_tests(["def f(x): return x"], [tests]) == ["passed"]
    finally:
        for descriptor in opened:
            os.close(descriptor)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


INSIDE = Suite(f"class T: pass\nassert isinstance(f(1), P) and f(1) == P({EXPECTED})")
P = "class P(int): pass\n"


def test_an_exit_does_not_pass_tests_that_share_a_process(runner: Runner):
    assert runner.run_tests([P + f"def f(x): return P({EXPECTED})"], [INSIDE]) == ["passed"]
    for name in ("exit before the tests", "exit at once", "exit in the call", "no function"):
        assert runner.run_tests([P + CHEATS[name]], [INSIDE]) == ["failed"], name


def test_two_cheats_pass_tests_that_share_a_process_as_the_docs_say(runner: Runner):
    equal = "class P(int):\n    def __eq__(self, other): return True\ndef f(x): return P(0)"
    assert runner.run_tests([equal], [INSIDE]) == ["passed"]
    assert runner.run_tests([FORGES], [INSIDE]) == ["passed"]


def test_an_answer_that_ends_the_sandbox_of_its_tests_costs_one_verdict(
    sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    program, tests = ["def f(x):\n    return x + 1"], [Suite("assert f(1) == 2")]
    with Runner(sandbox) as runner:
        assert runner.run_tests(program, tests) == ["passed"]
        ended = runner._judge_box()._process
        os.killpg(ended.pid, signal.SIGKILL)
        ended.wait()

        assert runner.run_tests(program, tests) == ["timeout"]
        assert runner.run_tests(program, tests) == ["passed"]
        assert "an answer ended the sandbox of its tests" in caplog.text

        def refused(*_: object) -> None:
            raise SandboxError("A sandbox did not start: no room.")

        os.killpg(runner._judge_box()._process.pid, signal.SIGKILL)
        monkeypatch.setattr(type(sandbox), "box", refused)
        with pytest.raises(SandboxError, match="no room"):
            runner.run_tests(program, tests)

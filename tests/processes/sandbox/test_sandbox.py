"""The sandbox: what stops it from starting, its Python, its limits, values that cross it."""

from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import pytest

from regrade.processes.sandbox import interpreter, self_test
from regrade.processes.sandbox import sandbox as sandbox_module
from regrade.processes.sandbox.bwrap import Bubblewrap
from regrade.processes.sandbox.inside.plain import Opaque, dumps, loads
from regrade.processes.sandbox.interpreter import find_interpreter
from regrade.processes.sandbox.limits import Limits
from regrade.processes.sandbox.running import Runner, Suite
from regrade.processes.sandbox.sandbox import Sandbox, open_sandbox
from regrade.processes.sandbox.syscalls import seccomp_filter
from regrade.settings.errors import SandboxError
from tests.processes.sandbox.bubblewrap import needs_bubblewrap
from tests.processes.sandbox.conftest import QUICK


def test_without_bubblewrap_the_error_says_how_to_install_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SandboxError, match="apt install bubblewrap"), open_sandbox("bwrap"):
        pass


@needs_bubblewrap
def test_without_namespaces_the_error_names_the_other_sandbox(tmp_path: Path):
    backend = Bubblewrap(find_interpreter(), QUICK)
    problem = backend.explained("bwrap: No permissions to create new namespace, likely because ...")
    assert "--sandbox landlock" in problem
    assert "docs/code.md" in problem
    assert "0.7 or newer is needed" in backend.explained("bwrap: Unknown option --size")


@needs_bubblewrap
def test_a_sandbox_that_does_not_hold_runs_no_program(monkeypatch: pytest.MonkeyPatch):
    harmless = {**self_test._PROBES, "add two numbers": "1 + 1"}
    monkeypatch.setattr(self_test, "_PROBES", harmless)
    with (
        pytest.raises(SandboxError, match="does not hold .*: a program could add two numbers"),
        open_sandbox(),
    ):
        pass


def test_a_sandbox_in_which_nothing_runs_is_an_error_and_no_verdict(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(sandbox_module, "seccomp_filter", lambda: b"\0" * 7)
    with (
        pytest.raises(SandboxError, match="a harmless program ended in it"),
        open_sandbox("landlock"),
    ):
        pass


def test_a_python_that_nobody_can_reach_is_passed_over(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    unreachable = tmp_path / "python3"
    unreachable.write_text("")
    monkeypatch.setattr(interpreter.sys, "executable", str(unreachable))
    assert find_interpreter().path != str(unreachable)
    monkeypatch.setattr(interpreter, "_SYSTEM", ())
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SandboxError, match="No Python can run untrusted programs: .*python3"):
        find_interpreter()


def test_an_unknown_architecture_is_refused():
    assert len(seccomp_filter("x86_64")) % 8 == 0
    assert seccomp_filter("x86_64") != seccomp_filter("aarch64")
    with pytest.raises(SandboxError, match="riscv64"):
        seccomp_filter("riscv64")


@pytest.mark.parametrize(
    "value",
    [
        None, True, 0, -1, 2**53, -(2**200), 1.5, float("inf"), "a\ud800\n", [1, [2]], (1, (2,)), {}, {1: (2,)},
        {"a": {"b"}}, {1, "a"}, frozenset({1}), b"\x00", 1 + 2j, Decimal("1.50"), range(3),
    ],
)  # fmt: skip
def test_plain_values_cross_with_their_types(value: object):
    back = loads(dumps(value))
    assert back == value
    assert type(back) is type(value)


def test_other_values_equal_nothing():
    class Mine:
        pass

    for value in (Mine(), print, Mine):
        back = loads(dumps(value))
        assert isinstance(back, Opaque)
        assert back != back
    assert loads(dumps(float("nan"))) != loads(dumps(float("nan")))
    for broken in (
        '{"a": 1, "b": 2}',
        '{"unknown": 1}',
        '{"int": 5}',
        "[" * 100_000,
        '{"decimal": "x"}',
    ):
        with pytest.raises((ValueError, KeyError, TypeError, ArithmeticError, RecursionError)):
            loads(broken)


@pytest.fixture(scope="module")
def runner(either: Sandbox) -> Iterator[Runner]:
    with Runner(either) as opened:
        yield opened


def test_a_script_is_a_process_with_its_own_input_threads_and_exit(runner: Runner):
    inputs = [b"1\n", b"2\n"]
    for source in (
        "print(int(input()))",
        "import sys; sys.stdout.write(sys.stdin.readline())",
        "import os; os.write(1, open(0, 'rb').read())",
        "import sys; print(sys.stdin.buffer.read().decode()); sys.exit(3)",
        "import threading\nthreading.Thread(target=lambda: print(input())).start()",
        "import atexit, sys\natexit.register(lambda: print(line))\nline = input()",
        "if __name__ == '__main__':\n    print(input()); exit()",
    ):
        assert runner.run_scripts([source], inputs, ["1", "2"]) == "passed", source
    assert runner.run_scripts([source], inputs, ["1", "1"]) == "failed"
    for source in (
        "print(input()); 1/0",
        "print(input()); import os; os.abort()",
        "print(",
        "import numpyy",
    ):
        assert runner.run_scripts([source], inputs, ["1", "2"]) == "failed", source


def test_the_limit_of_cases_is_that_of_each_not_of_all_together(landlock: Sandbox):
    slow = (
        "class Solution:\n    def f(self, n):\n        import time\n        end = time.process_time() + 0.5\n"
        "        while time.process_time() < end: pass\n        return n + 1"
    )
    calls = [("Solution.f", [n]) for n in range(3)]
    limits = Limits(test_cpu_seconds=1, call_cpu_seconds=1, program_cpu_seconds=1, wall_factor=30)
    with Runner(landlock.with_limits(limits)) as opened:
        assert opened.run_calls([slow], calls, [1, 2, 3], deep=False) == "passed"
        endless = slow.replace("0.5", "50")
        assert opened.run_calls([endless], calls, [1, 2, 3], deep=False) == "timeout"


def test_a_program_does_not_see_the_files_of_the_one_before(runner: Runner):
    source = (
        "import os\nprint('left' in os.listdir('.') if os.getcwd() == '/tmp' else False)\n"
        "try: open('left', 'w').write('x')\nexcept OSError: pass"
    )
    for _ in range(2):
        assert runner.run_scripts([source], [b""], ["False"]) == "passed"


def test_programs_can_use_numpy_and_the_standard_library(runner: Runner):
    source = "import numpy as np, dataclasses, pickle\ndef f(x): return np.array(x).sum()"
    assert runner.run_calls([source], [("f", [[1, 2]])], [3], deep=True) == "passed"


def test_methods_are_called_and_a_call_that_raises_is_not_the_same_as_its_error(runner: Runner):
    source = "class Solution:\n    def __init__(self): self.n = 0\n    def f(self, x):\n        if x: raise KeyError(x)\n        return 1"
    assert runner.run_calls([source], [("Solution.f", [0])] * 2, [1, 1], deep=True) == "passed"
    for name in ("f", "g"):
        calls = [("Solution.f", [0]), (f"Solution.{name}", [1])]
        for expected in ("KeyError", {"raised": "KeyError"}, None):
            assert runner.run_calls([source], calls, [1, expected], deep=True) == "failed"


def test_a_program_that_takes_no_arguments_or_floods_its_results_does_not_stall_the_scorer(
    runner: Runner,
):
    large = ["x" * 10_000_000]
    for source in (
        "import time\ntime.sleep(60)",
        "import os\nos.write(4, b'40000000')\ndef f(x): return x",
        "import os\nos.write(4, b'00000009{\"value\"')\nos._exit(0)",
        "import os\nfor _ in range(100000): os.write(4, b'00000002[]')",
        'import os\nos.write(4, b\'00000013{"value": {"x": 1}}\')\ndef f(x): return x',
    ):
        assert runner.run_calls([source], [("f", large)], [1], deep=True) != "passed", source


def test_tests_see_errors_of_the_program_as_errors_of_the_same_name(runner: Runner):
    tests = "try:\n    f(0)\nexcept ZeroDivisionError:\n    pass\nelse:\n    assert False"
    assert runner.run_tests(["def f(x): return 1 / x"], [Suite(tests)]) == ["passed"]
    assert runner.run_tests(["def f(x): return 1"], [Suite(tests)]) == ["failed"]


def test_tests_that_pass_functions_share_a_process_with_the_program(runner: Runner):
    tests = Suite("assert f(lambda x: x + 1) == 2")
    assert runner.run_tests(["def f(g): return g(1)"], [tests]) == ["passed"]
    assert runner.run_tests(["def f(g): return g(2)"], [tests]) == ["failed"]


def test_groups_of_tests_end_with_the_first_that_is_not_passed(runner: Runner):
    suites = [Suite("assert f(1) == 1"), Suite("assert f(2) == 3"), Suite("assert f(1) == 1")]
    assert runner.run_tests(["def f(x): return x"], suites) == ["passed", "failed"]


def test_tests_that_cannot_be_parsed_are_an_error_and_no_verdict(runner: Runner):
    with pytest.raises(SandboxError, match="SyntaxError"):
        runner.run_tests(["x = 1"], [Suite("assert (")])
    with pytest.raises(
        SandboxError, match="they import 'numpyy', which the Python of the sandbox lacks"
    ):
        runner.run_tests(["x = 1"], [Suite("import numpyy as np\nassert f(1)")])
    with pytest.raises(SandboxError, match="no function `check"):
        runner.run_tests(["x = 1"], [Suite("assert f(1)", "f")])


def test_a_sandbox_leaves_no_descriptors_open(either: Sandbox):
    before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(3):
        either.box().close()
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_numbers_that_print_as_names_are_known(runner: Runner):
    tests = Suite(
        "inputs = [[inf], [2]]\nresults = [-inf, -2]\nfor i, e in zip(inputs, results):\n    assert f(*i) == e"
    )
    assert runner.run_tests(["def f(x): return -x"], [tests]) == ["passed"]

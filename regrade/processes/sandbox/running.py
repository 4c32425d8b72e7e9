"""Run programs in sandboxes: as scripts, by calls of their functions, or together with their tests.

What a program gives is judged in a sandbox of the tests. Here its bytes are only handed on, and a verdict is an exit code.
"""

import hashlib
import json
import logging
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from cachetools import LRUCache

from regrade.processes.sandbox.box import Box, OutOfTimeError
from regrade.processes.sandbox.calling import CalledProgram, Verdict, is_cpu_limit
from regrade.processes.sandbox.inside.frames import LARGEST, ClosedError
from regrade.processes.sandbox.inside.plain import dumps
from regrade.processes.sandbox.inside.programs import PASSED
from regrade.processes.sandbox.sandbox import Sandbox
from regrade.settings.errors import SandboxError

logger = logging.getLogger("regrade.score")
_END_SECONDS = 2.0
"""Time for tests to end that nobody waits for; then their sandbox is replaced."""
_PLANS = 64
"""Number of cached plans of tests; answers to the same question follow each other."""


@dataclass(frozen=True, slots=True)
class Suite:
    """Tests in Python: asserts, or a function `check(candidate)`."""

    source: str
    entry_point: str | None = None
    """Function of the program that is given to `check`; None: there is no `check`."""

    @property
    def key(self) -> str:
        """Identifies the tests."""
        return hashlib.sha256(f"{self.entry_point}\0{self.source}".encode()).hexdigest()


class Runner:
    """Runs programs one after the other, and keeps a separate sandbox for their tests."""

    def __init__(self, sandbox: Sandbox) -> None:
        self._sandbox, self._limits = sandbox, sandbox.limits
        self._judge: Box | None = None
        self._plans: LRUCache[str, Mapping[str, Any]] = LRUCache(_PLANS)

    def close(self) -> None:
        """End the sandbox of the tests."""
        if self._judge is not None:
            self._judge.close()
            self._judge = None

    def __enter__(self) -> "Runner":
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def run_scripts(
        self, sources: Sequence[str], inputs: Sequence[bytes], expected: Sequence[str]
    ) -> Verdict:
        """Run a program once for each input, until an output differs from what is expected.

        Args:
            sources: Parts of the program, executed in this order in the same namespace.
            inputs: Standard input of each run.
            expected: Standard output of each run.
        """
        with self._sandbox.box() as box:
            box.request("load", sources=list(sources))

            def run(tests: Box) -> Verdict | None:
                for content, output in zip(inputs, expected, strict=True):
                    verdict = self._script(box, content, output, tests)
                    if verdict is not None or tests.receive(self._wall, 0) is None:
                        return verdict
                return None

            return self._judged(run, "compare", text=True, deep=False)

    def _script(self, box: Box, content: bytes, expected: str, tests: Box) -> Verdict | None:
        """Run a program with an input, and hand its output on to the tests; return the verdict if there is none."""
        seconds = self._limits.test_cpu_seconds
        wall = seconds * self._limits.wall_factor + 10
        try:
            box.request("script")
            box.send_input(content)
            report = box.report(wall)
            if report.get("ended") == "wall" or is_cpu_limit(report, seconds):
                return "timeout"
            size = box.receive(wall, self._limits.output_bytes)
            if report["exit"] != 0 or size is None:
                return "failed"
            tests.send(json.dumps(expected).encode(), wall)
            box.relay(size, tests, wall)
        except OutOfTimeError:
            return "timeout"
        except (ClosedError, OSError):
            return "failed"  # the sandbox ran out of memory, and took the runner with it
        return None

    def run_calls(
        self,
        sources: Sequence[str],
        calls: Sequence[tuple[str, Sequence[Any]]],
        expected: Sequence[Any],
        *,
        deep: bool,
    ) -> Verdict:
        """Call functions of a program, until a result differs from what is expected, or a call raises.

        Args:
            sources: Parts of the program, executed in this order in the same namespace.
            calls: Name of a function, or `Class.method`, with arguments: plain values.
            expected: JSON value of each call.
            deep: Count tuples within results as lists.
        """
        seconds = self._limits.test_cpu_seconds
        everything = seconds * (len(calls) + 1)  # the program itself is executed, too
        with self._program(sources, seconds, everything) as program:

            def run(tests: Box) -> Verdict | None:
                for (name, arguments), value in zip(calls, expected, strict=True):
                    tests.send(json.dumps(value).encode(), self._wall)
                    verdict = program.call(dumps([name, list(arguments), {}]).encode(), tests)
                    if verdict is not None or tests.receive(self._wall, 0) is None:
                        return verdict
                return None

            return self._judged(run, "compare", text=False, deep=deep)

    def run_tests(self, sources: Sequence[str], suites: Sequence[Suite]) -> list[Verdict]:
        """Return the verdict of each suite of tests, up to the first that is not passed.

        The tests call the program from another sandbox. Only tests that need more than calls, such as classes of the
        program, share a process with it; docs/code.md describes the consequences.

        Args:
            sources: Parts of the program, executed in this order in the same namespace.
            suites: Tests, each executed in a namespace of its own.

        Raises:
            SandboxError: If the tests cannot be parsed, or the sandbox of the tests fails.
        """
        verdicts: list[Verdict] = []
        limits = self._limits
        with self._program(sources, limits.call_cpu_seconds, limits.program_cpu_seconds) as program:
            for tests in suites:
                plan = self._plan(tests)
                verdicts.append(
                    self._judged_inside(sources, tests)
                    if plan["inside"]
                    else self._judged_apart(program, tests, plan)
                )
                if verdicts[-1] != "passed":
                    break
        return verdicts

    @contextmanager
    def _program(
        self, sources: Sequence[str], cpu_seconds: int, all_cpu_seconds: int
    ) -> Iterator[CalledProgram]:
        program = CalledProgram(self._sandbox, sources, cpu_seconds, all_cpu_seconds)
        try:
            yield program
        finally:
            program.close()

    def _judge_box(self) -> Box:
        if self._judge is None:
            preload = ("numpy",) if self._sandbox.interpreter.packages else ()
            self._judge = self._sandbox.box(preload)
        return self._judge

    def _plan(self, tests: Suite) -> Mapping[str, Any]:
        if (known := self._plans.get(tests.key)) is not None:
            return known
        box = self._judge_box()
        box.request("plan", tests=tests.source, entry_point=tests.entry_point)
        try:
            size = box.receive(self._wall, LARGEST)
            plan = {"problem": "they take too long to parse"}
            if size is not None:
                plan = json.loads(box.take(size, self._wall))
            box.end(self._wall)
        except (ClosedError, OutOfTimeError, OSError, ValueError) as error:
            self.close()
            raise SandboxError(f"The sandbox of the tests failed: {error!r}.") from error
        if "problem" in plan:
            raise SandboxError(f"The tests of a question cannot be used: {plan['problem']}.")
        self._plans[tests.key] = plan
        return plan

    @property
    def _wall(self) -> float:
        return self._limits.program_cpu_seconds * self._limits.wall_factor

    def _judged_apart(
        self, program: CalledProgram, tests: Suite, plan: Mapping[str, Any]
    ) -> Verdict:
        """Return the verdict of tests that call the program from another sandbox."""

        def run(judge: Box) -> Verdict | None:
            for call in plan["calls"]:
                if (verdict := program.call(call.encode(), judge)) is not None:
                    return verdict
            while (size := judge.receive(self._wall, LARGEST)) is not None:
                if (verdict := program.call_of(judge, size)) is not None:
                    return verdict
            return None

        return self._judged(
            run,
            "judge",
            key=tests.key,
            tests=tests.source,
            entry_point=tests.entry_point,
            names=plan["names"],
            calls=plan["calls"],
        )

    def _judged(self, run: Callable[[Box], Verdict | None], do: str, **request: object) -> Verdict:
        """Return the verdict of tests in their sandbox, or that of `run`, which brings them what the program gives.

        An answer that ends the sandbox of its tests, such as by a result that fills its memory, has passed a limit.
        """
        tests = self._judge_box()
        try:
            tests.request(do, **request)
            verdict = run(tests)
        except OutOfTimeError:
            self.close()
            return "timeout"
        except (ClosedError, OSError, ValueError) as error:
            return self._lost(error)
        try:
            tests.send(b"", _END_SECONDS)  # nothing comes any more
            report = tests.end(_END_SECONDS if verdict else self._wall)
        except OutOfTimeError:
            self.close()
            return verdict or "timeout"
        except (ClosedError, OSError) as error:
            lost = self._lost(error)
            return verdict or lost
        return verdict or ("passed" if report["exit"] == PASSED else "failed")

    def _lost(self, error: Exception) -> Verdict:
        """Replace the sandbox of the tests, which an answer has ended. One that cannot start any more ends the scoring."""
        logger.warning("an answer ended the sandbox of its tests: %r", error)
        self.close()
        self._judge_box()
        return "timeout"

    def _judged_inside(self, sources: Sequence[str], tests: Suite) -> Verdict:
        """Return the verdict of tests in the same process as the program.

        After the last test, the process writes a nonce to a separate pipe, which shows that it passed.
        """
        nonce = secrets.token_hex(16)
        wall = self._limits.test_cpu_seconds * self._limits.wall_factor
        with self._sandbox.box() as box:
            box.request("load", sources=list(sources))
            box.request("tests", tests=tests.source, entry_point=tests.entry_point, nonce=nonce)
            try:
                size = box.receive(wall, len(nonce))
                message = None if size is None else box.take(size, wall)
                report = box.end(wall) if message is None else None
            except OutOfTimeError:
                return "timeout"
            except (ClosedError, OSError, ValueError):
                return "failed"
        if message is not None:
            return "passed" if message == nonce.encode() else "failed"
        return "timeout" if is_cpu_limit(report, self._limits.test_cpu_seconds) else "failed"

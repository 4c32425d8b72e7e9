"""Run programs in sandboxes: as scripts, by calls of their functions, or together with their tests."""

import hashlib
import json
import secrets
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

from regrade.processes.sandbox.box import Box, OutOfTimeError
from regrade.processes.sandbox.calling import CalledProgram, Raised, Verdict, is_cpu_limit, value_in
from regrade.processes.sandbox.inside.frames import LARGEST, ClosedError
from regrade.processes.sandbox.inside.plain import Value, dumps
from regrade.processes.sandbox.sandbox import Sandbox
from regrade.settings.errors import SandboxError

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
        self._plans: OrderedDict[str, Mapping[str, Any]] = OrderedDict()

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
        self,
        sources: Sequence[str],
        inputs: Sequence[bytes],
        accept: Callable[[int, bytes], bool],
    ) -> Verdict:
        """Run a program once for each input, until an output is not accepted.

        Args:
            sources: Parts of the program, executed in this order in the same namespace.
            inputs: Standard input of each run.
            accept: Takes the number of a run and its standard output; True if it is right.
        """
        wall = self._limits.test_cpu_seconds * self._limits.wall_factor + 10
        with self._sandbox.box() as box:
            box.request("load", sources=list(sources))
            for number, content in enumerate(inputs):
                try:
                    box.request("script")
                    box.send_input(content)
                    report = box.report(wall)
                    output = box.output(wall)
                except OutOfTimeError:
                    return "timeout"
                except (ClosedError, OSError):
                    return "failed"  # the sandbox ran out of memory, and took the runner with it
                if report.get("ended") == "wall" or is_cpu_limit(
                    report, self._limits.test_cpu_seconds
                ):
                    return "timeout"
                if report["exit"] != 0 or not accept(number, output):
                    return "failed"
        return "passed"

    def run_calls(
        self,
        sources: Sequence[str],
        calls: Sequence[tuple[str, Sequence[Any]]],
        accept: Callable[[int, Value | Raised], bool],
    ) -> Verdict:
        """Call functions of a program, until a result is not accepted.

        Args:
            sources: Parts of the program, executed in this order in the same namespace.
            calls: Name of a function, or `Class.method`, with arguments: plain values.
            accept: Takes the number of a call and its result, or `Raised`; True if it is right.
        """
        with self._program(sources, self._limits.test_cpu_seconds) as program:
            for number, (name, arguments) in enumerate(calls):
                answer = program.call(dumps([name, list(arguments), {}]))
                if isinstance(answer, str):
                    return answer
                if not accept(number, value_in(answer)):
                    return "failed"
        return "passed"

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
        with self._program(sources, self._limits.call_cpu_seconds) as program:
            for tests in suites:
                plan = self._plan(tests)
                verdict = None if plan["inside"] else self._judged(program, tests, plan)
                verdicts.append(verdict or self._judged_inside(sources, tests))
                if verdicts[-1] != "passed":
                    break
        return verdicts

    @contextmanager
    def _program(self, sources: Sequence[str], cpu_seconds: int) -> Iterator[CalledProgram]:
        program = CalledProgram(self._sandbox, sources, cpu_seconds)
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
        if tests.key in self._plans:
            self._plans.move_to_end(tests.key)
            return self._plans[tests.key]
        box = self._judge_box()
        box.request("plan", tests=tests.source, entry_point=tests.entry_point)
        try:
            answer = box.result(self._wall, LARGEST)
            plan = {"problem": "they take too long to parse"} if answer is None else None
            plan = plan or json.loads(answer or b"")
            box.report(self._wall)
        except (ClosedError, OutOfTimeError, OSError, ValueError) as error:
            self.close()
            raise SandboxError(f"The sandbox of the tests failed: {error!r}.") from error
        if "problem" in plan:
            raise SandboxError(f"The tests of a question cannot be used: {plan['problem']}.")
        self._plans[tests.key] = plan
        if len(self._plans) > _PLANS:
            self._plans.popitem(last=False)
        return plan

    @property
    def _wall(self) -> float:
        return self._limits.program_cpu_seconds * self._limits.wall_factor

    def _judged(
        self, program: CalledProgram, tests: Suite, plan: Mapping[str, Any]
    ) -> Verdict | None:
        """Return the verdict of tests that call the program from another sandbox; None if they cannot."""
        answers = []
        for call in plan["calls"]:
            answer = program.call(call)
            if isinstance(answer, str):
                return answer
            answers.append((call, answer.decode()))
        box, nonce = self._judge_box(), secrets.token_hex(16)
        try:
            box.request(
                "judge",
                key=tests.key,
                tests=tests.source,
                entry_point=tests.entry_point,
                names=plan["names"],
                answers=answers,
                nonce=nonce,
            )
            content: dict[str, Any] = {}
            while (message := box.result(self._wall, LARGEST)) is not None:
                content = json.loads(message)
                if "call" not in content:
                    break
                answer = program.call(content["call"])
                if isinstance(answer, str):
                    self.close()  # the tests still wait for the answer
                    return answer
                box.call(answer.decode(), self._wall)
            box.report(self._wall)
        except OutOfTimeError:
            self.close()
            return "timeout"
        except (ClosedError, OSError, ValueError) as error:
            self.close()
            raise SandboxError(f"The sandbox of the tests failed: {error!r}.") from error
        if message is None:
            return "failed"  # the tests' process was ended by its limits
        if content.get("nonce") != nonce:
            raise SandboxError("The sandbox of the tests failed: a verdict without its nonce.")
        verdict: Verdict | Literal["unsupported"] = content["verdict"]
        return None if verdict == "unsupported" else verdict

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
                message = box.result(wall, len(nonce))
                report = box.report(wall) if message is None else None
            except OutOfTimeError:
                return "timeout"
            except (ClosedError, OSError, ValueError):
                return "failed"
        if message is not None:
            return "passed" if message == nonce.encode() else "failed"
        return "timeout" if is_cpu_limit(report, self._limits.test_cpu_seconds) else "failed"

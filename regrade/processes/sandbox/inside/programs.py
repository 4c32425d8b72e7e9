"""The untrusted program: its process, from the limits to its end. Everything here runs after `os.fork`."""

import json
import resource
import sys
from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import Any

from regrade.processes.sandbox.inside import kernel
from regrade.processes.sandbox.inside.frames import read_frame, write_frame
from regrade.processes.sandbox.inside.plain import Form, NotPlainError, Value, encoded, loads

REQUESTS, VERDICTS = 3, 4
"""Descriptors of a program: calls come in on one, results go out on the other."""
PASSED = 10
"""Exit code of tests that are passed; no line of a program runs in their process."""


def become_untrusted(setup: Mapping[str, Any], cpu_seconds: int, hard_cpu_seconds: int) -> None:
    """Apply the limits and the system call filter to this process, irrevocably."""
    kernel.protect()
    mib = 1 << 20
    for limit, value in (
        (resource.RLIMIT_AS, setup["memory_mib"] * mib),
        (resource.RLIMIT_FSIZE, setup["file_mib"] * mib),
        (resource.RLIMIT_NPROC, setup["tasks"]),
        (resource.RLIMIT_NOFILE, 64),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_MEMLOCK, 0),
        (resource.RLIMIT_MSGQUEUE, 0),
    ):
        _set_limit(limit, value, value)
    _set_limit(resource.RLIMIT_STACK, 64 * mib, 64 * mib)
    _set_limit(resource.RLIMIT_CPU, cpu_seconds, hard_cpu_seconds)
    kernel.give_up_privileges()
    kernel.filter_system_calls(bytes.fromhex(setup["filter"]), setup["self"])


def _set_limit(limit: int, soft: int, hard: int) -> None:
    highest = resource.getrlimit(limit)[1]
    if highest != resource.RLIM_INFINITY:
        soft, hard = min(soft, highest), min(hard, highest)
    resource.setrlimit(limit, (soft, hard))


def allow_cpu(seconds: int) -> None:
    """Allow this process some more seconds of CPU time, after which the kernel ends it."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    hard = resource.getrlimit(resource.RLIMIT_CPU)[1]
    soft = int(used.ru_utime + used.ru_stime + seconds + 1)
    resource.setrlimit(resource.RLIMIT_CPU, (min(soft, hard), hard))


def namespace(name: str) -> "dict[str, Any]":
    """Return the variables of a new module with this name, which is also importable (pickle, dataclasses)."""
    module = ModuleType(name)
    sys.modules[name] = module
    return module.__dict__


def run(source: str, variables: "dict[str, Any]", name: str) -> None:
    """Execute a source text."""
    exec(compile(source, f"<{name}>", "exec", dont_inherit=True), variables)


def run_script(sources: Sequence[str]) -> None:
    """Execute a program as a script; its input and output are this process's."""
    variables = namespace("__main__")
    for source in sources:
        run(source, variables, "program")
    sys.stdout.flush()


def serve_calls(sources: Sequence[str], cpu_seconds: int) -> None:
    """Execute a program, say so by an empty message, then answer calls of its functions until there are no more.

    A program that raises while it is executed raises the same in every call.
    """
    allow_cpu(cpu_seconds)
    variables = namespace("program")
    problem: str | None = None
    try:
        for source in sources:
            run(source, variables, "program")
    except BaseException as error:  # noqa: BLE001 - whatever the program raises
        problem = type(error).__name__
    write_frame(VERDICTS, b"")
    instances: dict[str, Any] = {}
    while (call := loads(read_frame(REQUESTS))) is not None:
        allow_cpu(cpu_seconds)
        answer: dict[str, Any]
        try:
            if problem is None:
                answer = {"value": encoded(_call(variables, instances, call))}
            else:
                answer = {"raised": problem}
        except NotPlainError:
            answer = {"value": {"opaque": "nested"}}
        except BaseException as error:  # noqa: BLE001 - whatever the program raises
            answer = {"raised": type(error).__name__}
        write_frame(VERDICTS, json.dumps(answer).encode())


def _call(variables: "dict[str, Any]", instances: "dict[str, Any]", call: Value) -> Value:
    name, arguments, keywords = call
    owner, _, method = name.rpartition(".")
    if owner not in variables and method in variables:
        owner, name = "", method  # a function although a class was expected
    if not owner:
        return variables[name](*arguments, **keywords)
    if owner not in instances:
        instances[owner] = variables[owner]()
    return getattr(instances[owner], method)(*arguments, **keywords)


def run_with_tests(
    sources: Sequence[str], tests: str, entry_point: "str | None", nonce: str
) -> None:
    """Execute a program and its tests in one namespace; write the nonce if nothing was raised."""
    variables = namespace("program")
    for source in sources:
        run(source, variables, "program")
    for name in ("inf", "nan"):
        variables.setdefault(name, float(name))
    run(tests, variables, "tests")
    if entry_point is not None:
        variables["check"](variables[entry_point])
    write_frame(VERDICTS, nonce.encode())


def write_json(value: Form) -> None:
    """Write a value to the pipe for results."""
    write_frame(VERDICTS, json.dumps(value).encode())

"""Run the tests of a question in one sandbox, and the program whose functions they call in another.

The program sees arguments only, and its results arrive as plain values, so that it can neither read expected values nor
return an object that equals everything.
"""

import ast
import builtins
import json
import re
from collections import defaultdict, deque
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec
from types import CodeType
from typing import Any

from regrade.processes.sandbox.inside.frames import read_frame, write_frame
from regrade.processes.sandbox.inside.plain import NotPlainError, Value, decoded, dumps
from regrade.processes.sandbox.inside.programs import REQUESTS, VERDICTS, namespace

CHECK = "check"
"""Function of HumanEval's tests that takes the function to test."""
_FOREIGN = re.compile(r'\{"opaque":"(?!Opaque")')
"""A value that cannot be sent, and did not come from the program."""


_NUMBERS = {"inf": float("inf"), "nan": float("nan")}
"""Names of numbers in printed lists of inputs and results."""


class _Unsupported(BaseException):
    """A test passes a value that cannot be sent to another process."""


def plan(tests: str, entry_point: "str | None") -> "dict[str, Any]":
    """Return a plan of the tests.

    Returns:
        `names`: The names that the tests expect of the program.
        `inside`: True if program and tests must share a process, because the tests use more than calls of functions,
            such as classes of the program.
        `calls`: Calls that are known before the tests run, as texts `[name, arguments, keywords]`.
        `problem`: Set if the tests cannot be parsed.
    """
    try:
        tree = ast.parse(tests)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        return {"problem": f"{type(error).__name__}: {error}"}
    if absent := _absent_modules(tree):
        return {"problem": f"they import {absent}, which the Python of the sandbox lacks"}
    names = _missing(tree)
    aliases = {name: name for name in names}
    if entry_point is not None:
        checks = [node for node in tree.body if _is_function(node, CHECK)]
        if not checks or not checks[-1].args.args:  # type: ignore[attr-defined]
            return {"problem": f"there is no function `{CHECK}(candidate)`"}
        aliases[checks[-1].args.args[0].arg] = entry_point  # type: ignore[attr-defined]
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    functions = {id(node.func) for node in calls}
    used = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id in aliases
    ]
    ours = [node for node in calls if isinstance(node.func, ast.Name) and node.func.id in aliases]
    nested = (
        any(inner is not outer and inner in ours for outer in ours for inner in ast.walk(outer))
        if len(ours) < 1000
        else False
    )
    inside = nested or any(id(node) not in functions for node in used)
    known = [] if inside else _known_calls(tree, ours, aliases)
    return {"names": sorted(names), "inside": inside or known is None, "calls": known or []}


def _absent_modules(tree: ast.Module) -> str:
    """Return the modules that the tests import and that do not exist here, unless the tests handle the error."""
    handled = {
        id(node)
        for block in ast.walk(tree)
        if isinstance(block, ast.Try)
        for node in ast.walk(block)
    }
    imported: set[str] = set()
    for node in ast.walk(tree):
        if id(node) in handled:
            continue
        if isinstance(node, ast.Import):
            imported |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            imported.add((node.module or "").partition(".")[0])
    return ", ".join(sorted(repr(name) for name in imported if find_spec(name) is None))


def _is_function(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.FunctionDef) and node.name == name


def _missing(tree: ast.Module) -> "set[str]":
    """Return the names that the tests use but do not define, except builtins."""
    read: set[str] = set()
    made = {*dir(builtins), "__name__", "__file__", *_NUMBERS}
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            (read if isinstance(node.ctx, ast.Load) else made).add(node.id)
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            made.add(node.name)
        elif isinstance(node, ast.arg):
            made.add(node.arg)
        elif isinstance(node, ast.ExceptHandler) and node.name:
            made.add(node.name)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            for alias in node.names:
                made |= _imported(node, alias)
    return read - made


def _imported(node: "ast.Import | ast.ImportFrom", alias: ast.alias) -> "set[str]":
    if alias.name != "*":
        return {(alias.asname or alias.name).partition(".")[0]}
    module = import_module(getattr(node, "module", None) or "")
    public = (name for name in vars(module) if not name.startswith("_"))
    return set(getattr(module, "__all__", None) or public)


def _known_calls(
    tree: ast.Module, calls: Sequence[ast.Call], aliases: Mapping[str, str]
) -> "list[str] | None":
    """Return the calls whose arguments are written out, in order; None if one has arguments that cannot be sent.

    The arguments are constants, or `*inp` for each element of a list `inputs` (EvalPlus).
    """
    known: list[str] = []
    try:
        for call in calls:
            name = aliases[call.func.id]  # type: ignore[attr-defined]
            try:
                arguments = [ast.literal_eval(argument) for argument in call.args]
                keywords = {word.arg or "": ast.literal_eval(word.value) for word in call.keywords}
            except (ValueError, TypeError, SyntaxError):
                if len(call.args) == 1 and isinstance(call.args[0], ast.Starred):
                    known += [dumps([name, list(inputs), {}]) for inputs in _inputs(tree)]
                continue
            known.append(dumps([name, arguments, keywords]))
    except NotPlainError:
        return None
    return None if any(_FOREIGN.search(text) for text in known) else known


def _inputs(tree: ast.Module) -> Sequence[Any]:
    """Return the value of the list `inputs`; empty if it is not written out."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and any(
            isinstance(target, ast.Name) and target.id == "inputs" for target in node.targets
        ):
            expression = compile(ast.Expression(node.value), "<inputs>", "eval")
            try:
                value = eval(expression, dict(_NUMBERS))
            except Exception:  # noqa: BLE001 - then the calls come one by one
                return []
            return value if all(isinstance(item, (list, tuple)) for item in value) else []
    return []


def judge(code: CodeType, request: Mapping[str, Any]) -> None:
    """Execute tests; their calls of the program are answered from known answers or through the pipe.

    Args:
        code: Compiled tests.
        request: `names`, `entry_point`, `nonce`, and `answers`: pairs of a call's text and its answer's text.
    """
    answers: dict[str, deque[str]] = defaultdict(deque)
    for call, answer in request["answers"]:
        answers[call].append(answer)
    variables = namespace("tests")
    variables.update(_NUMBERS)
    for name in request["names"]:
        variables[name] = _remote(name, answers)
    verdict = "failed"
    try:
        exec(code, variables)
        if request["entry_point"] is not None:
            variables[CHECK](_remote(request["entry_point"], answers))
        verdict = "passed"
    except _Unsupported:
        verdict = "unsupported"
    except BaseException:  # noqa: BLE001 - a test that raises has failed
        pass
    message = {"verdict": verdict, "nonce": request["nonce"]}
    write_frame(VERDICTS, json.dumps(message).encode())


def _remote(name: str, answers: "Mapping[str, deque[str]]") -> "Callable[..., Any]":
    """Return a function that calls the program's function of this name."""

    def remote(*arguments: Value, **keywords: Value) -> Value:
        try:
            call = dumps([name, list(arguments), keywords])
        except NotPlainError as error:
            raise _Unsupported from error
        if _FOREIGN.search(call):
            raise _Unsupported
        known = answers.get(call)
        if known:
            answer = json.loads(known.popleft())
        else:
            write_frame(VERDICTS, json.dumps({"call": call}).encode())
            answer = json.loads(read_frame(REQUESTS))
        if "raised" in answer:
            raise _error_type(answer["raised"])
        return decoded(answer["value"])

    return remote


def _error_type(name: str) -> "type[BaseException]":
    kind = getattr(builtins, name, None)
    if isinstance(kind, type) and issubclass(kind, Exception):
        return kind
    return RuntimeError

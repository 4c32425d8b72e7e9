"""Run the tests of a question in one sandbox, and the program whose functions they call in another.

The program sees arguments only, and its results arrive as plain values, so that it can neither read expected values nor
return an object that equals everything.
"""

import ast
import builtins
import os
from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec
from types import CodeType
from typing import Any, NoReturn

from regrade.processes.sandbox.inside.frames import read_frame, write_frame
from regrade.processes.sandbox.inside.plain import (
    NotPlainError,
    RaisedError,
    Value,
    dumps,
    value_in,
)
from regrade.processes.sandbox.inside.programs import PASSED, REQUESTS, VERDICTS, namespace

CHECK = "check"
"""Function of HumanEval's tests that takes the function to test."""
_OPAQUE = '{"opaque":"'
"""Begins a value that cannot be sent."""


_NUMBERS = {"inf": float("inf"), "nan": float("nan")}
"""Names of numbers in printed lists of inputs and results."""


def plan(tests: str, entry_point: "str | None") -> "dict[str, Any]":
    """Return a plan of the tests.

    Returns:
        `names`: The names that the tests expect of the program.
        `inside`: True if program and tests must share a process, because the tests use more than calls of functions,
            such as classes of the program, or pass functions. The text of the tests decides it.
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
    inside = (
        nested
        or any(id(node) not in functions for node in used)
        or any(map(_is_code(tree), (part for call in ours for part in _passed(call))))
    )
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


def _passed(call: ast.Call) -> "Iterator[ast.expr]":
    """Yield the arguments of a call, and the elements of those that are written as a list, tuple, set or dictionary."""
    waiting = [*call.args, *(word.value for word in call.keywords)]
    while waiting:
        node = waiting.pop()
        yield node
        if isinstance(node, (ast.List, ast.Tuple, ast.Set)):
            waiting += node.elts
        elif isinstance(node, ast.Dict):
            waiting += node.values


def _is_code(tree: ast.Module) -> "Callable[[ast.expr], bool]":
    """Return a function that says whether an expression is a function or class, or an object of a class of the tests."""
    classes = {node.name for node in ast.walk(tree) if isinstance(node, ast.ClassDef)}
    functions = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
    known = {name for name, value in vars(builtins).items() if callable(value)}
    callables = classes | functions | known

    def is_code(node: ast.expr) -> bool:
        if isinstance(node, ast.Call):
            return isinstance(node.func, ast.Name) and node.func.id in classes
        return isinstance(node, ast.Lambda) or (isinstance(node, ast.Name) and node.id in callables)

    return is_code


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
    return None if any(_is_foreign(text) for text in known) else known


def _is_foreign(call: str) -> bool:
    """Return True if a value that cannot be sent did not come from the program."""
    return not all(value.startswith('Opaque"') for value in call.split(_OPAQUE)[1:])


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


def judge(code: CodeType, request: Mapping[str, Any]) -> "int | None":
    """Execute tests, whose calls of the program are answered from what is known or through the pipe; return the exit code.

    Args:
        code: Compiled tests.
        request: `names`, `entry_point`, and `calls`: the calls whose answers come first, as texts.
    """
    answers: dict[str, deque[bytes]] = defaultdict(deque)
    for call in request["calls"]:
        answers[call].append(_answer())
    variables = namespace("tests")
    variables.update(_NUMBERS)
    for name in request["names"]:
        variables[name] = _remote(name, answers)
    exec(code, variables)
    if request["entry_point"] is not None:
        variables[CHECK](_remote(request["entry_point"], answers))
    return PASSED


def _answer() -> bytes:
    answer = read_frame(REQUESTS)
    if not answer:  # there will be none
        _fail()
    return answer


def _fail() -> NoReturn:
    """End the tests at once, whatever they would make of an error."""
    os._exit(1)


def _remote(name: str, answers: "Mapping[str, deque[bytes]]") -> "Callable[..., Any]":
    """Return a function that calls the program's function of this name."""

    def remote(*arguments: Value, **keywords: Value) -> Value:
        try:
            call = dumps([name, list(arguments), keywords])
        except NotPlainError:
            _fail()
        if _is_foreign(call):
            _fail()
        known = answers.get(call)
        if known:
            answer = known.popleft()
        else:
            write_frame(VERDICTS, call.encode())
            answer = _answer()
        try:
            return value_in(answer)
        except RaisedError as error:
            raise _error_type(str(error)) from None
        except BaseException:  # noqa: BLE001 - nothing that the sandbox writes
            _fail()

    return remote


def _error_type(name: str) -> "type[BaseException]":
    kind = getattr(builtins, name, None)
    if isinstance(kind, type) and issubclass(kind, Exception):
        return kind
    return RuntimeError

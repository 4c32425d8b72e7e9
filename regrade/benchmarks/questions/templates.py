"""Jinja templates over the columns of a dataset: sandboxed, and strict about missing values.

A template names a column directly, `{{ question }}`, or as `{{ row['the question'] }}` if its name is not a word. One that only
prints what a row holds is rendered here, also in a loop over a short row. One that can grow further is compiled and rendered in a
child process with limits (`processes/limited.py`), because nothing else ends it.
"""

import base64
import pickle
from collections.abc import Mapping
from functools import cache
from typing import Any

from jinja2 import StrictUndefined, Template, TemplateError, TemplateSyntaxError, meta, nodes
from jinja2.sandbox import ImmutableSandboxedEnvironment

from regrade.processes.lasting import lasting_process
from regrade.processes.limited import Limits, Stopped
from regrade.settings.errors import SettingsError

_SHORT = 4096
"""Longest row, as Python writes it, over which a loop runs in this process: it makes at most the square of that."""
LIMITS = Limits(cpu_seconds=2, seconds=30, memory=512 << 20)
"""Limits of a row whose template can grow."""
_LONGEST = 64 << 20
"""Longest text that such a template may make of a row, in characters."""


class TemplateValueError(TemplateError):
    """A template cannot be rendered for a row."""


ROW = "row"
"""Name of the whole row in a template."""


class RowTemplate:
    """Template of a row; `names` are the names that it reads, `row_columns` the columns that it reads as `row['NAME']`."""

    def __init__(self, name: str, text: str) -> None:
        """Compile the template.

        Args:
            name: Setting with the template, for messages.
            text: Jinja source.

        Raises:
            SettingsError: If the template is not valid, or uses `row` other than as `row['NAME']`.
        """
        self._name, self._text = name, text
        try:
            tree = _ENVIRONMENT.parse(text)
        except TemplateSyntaxError as error:
            raise self._not_valid({"problem": error.message, "line": error.lineno}) from error
        self._loops = any(tree.find_all(nodes.For))
        self._grows = not _only_prints(tree)
        facts = self._asked(None)
        if "problem" in facts:
            raise self._not_valid(facts)
        names = frozenset(facts["names"])
        self.row_columns = _row_columns(name, tree) if ROW in names else frozenset()
        self.names = names - frozenset(_ENVIRONMENT.globals) - {ROW}

    def render(self, values: Mapping[str, Any]) -> str:
        """Render the template for a row.

        Args:
            values: Value of each of `names`, and the row under `row`.

        Raises:
            TemplateValueError: If a printed value is missing or null, the template cannot use a value, or takes more time or
                memory than it may for a row.
        """
        answer = self._asked(values)
        if "problem" in answer:
            problem = answer["problem"]
            raise TemplateValueError(f"the template {self._name} cannot be filled: {problem}")
        return str(answer["text"])

    def _asked(self, values: Mapping[str, Any] | None) -> Mapping[str, Any]:
        """Return what `asked` does, of the values that the template reads; without values, of the template itself."""
        if not (self._grows or self._loops):
            return _answer(self._text, values)
        read = None
        if values is not None:
            read = {name: values[name] for name in self.names if name in values}
            if self.row_columns:
                row = values[ROW]
                read[ROW] = {name: row[name] for name in self.row_columns if name in row}
        if not self._grows and len(repr(read)) <= _SHORT:
            return _answer(self._text, read)
        # Pickled, since a row holds more than JSON can, such as dates. Nobody but this process writes it.
        packed = base64.b64encode(pickle.dumps(read)).decode()
        answer = lasting_process(asked, LIMITS).compute({"template": self._text, "values": packed})
        if isinstance(answer, Stopped):
            return {"problem": f"it takes more than {_ALLOWED[answer.limit]}, the most for a row"}
        assert isinstance(answer, dict)  # noqa: S101 - `asked` returns it
        return answer

    def _not_valid(self, facts: Mapping[str, Any]) -> SettingsError:
        problem = (
            f"is not valid Jinja (line {facts['line']})"
            if "line" in facts
            else "cannot be compiled"
        )
        return SettingsError(
            f"The template {self._name} {problem}: {facts['problem'].rstrip('.')}. {_AS_ROW}"
        )


_ALLOWED = {
    "cpu": f"{LIMITS.cpu_seconds:g} s of CPU time",
    "time": f"{LIMITS.seconds:g} s",
    "memory": f"{LIMITS.memory >> 20} MiB of memory",
    "crash": "the stack of a process",
}
_AS_ROW = "A column whose name is not a word is written as `row['NAME']`."


def asked(request: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return what `_answer` does, if it is not too long. Runs in a child process."""
    answer = _answer(request["template"], pickle.loads(base64.b64decode(request["values"])))
    length = len(answer.get("text", ""))
    if length > _LONGEST:
        return {
            "problem": f"it makes {length:,} characters, more than {_LONGEST:,}, the most for a row"
        }
    return answer


def _answer(text: str, values: Mapping[str, Any] | None) -> Mapping[str, Any]:
    """Return the `text` that a template makes of values or, without values, the `names` that it reads; or the `problem`."""
    try:
        template = _compiled(text)
        if values is None:
            return {"names": sorted(meta.find_undeclared_variables(_ENVIRONMENT.parse(text)))}
        return {"text": template.render(values)}
    except TemplateSyntaxError as error:
        return {"problem": error.message, "line": error.lineno}
    except (TemplateError, TypeError, ValueError, ArithmeticError, LookupError) as error:
        return {"problem": str(error)}
    except RecursionError:
        return {"problem": "it calls itself without end"}


def _row_columns(template: str, tree: nodes.Template) -> frozenset[str]:
    """Return the columns read as `row['NAME']`, which have to be known before a row is read."""
    columns = [
        node.arg.value
        for node in tree.find_all(nodes.Getitem)
        if isinstance(node.node, nodes.Name)
        and node.node.name == ROW
        and isinstance(node.arg, nodes.Const)
        and isinstance(node.arg.value, str)
    ]
    if len(columns) < sum(node.name == ROW for node in tree.find_all(nodes.Name)):
        raise SettingsError(
            f"The template {template} uses `row` without the name of a column in quotes. {_AS_ROW}"
        )
    return frozenset(columns)


_PRINTING = (
    *(nodes.Output, nodes.TemplateData, nodes.Const, nodes.Name, nodes.Getattr, nodes.Getitem),
    *(nodes.Slice, nodes.List, nodes.Tuple, nodes.If, nodes.CondExpr, nodes.Compare, nodes.Operand),
    *(nodes.Test, nodes.And, nodes.Or, nodes.Not, nodes.Concat, nodes.Add, nodes.Sub, nodes.Neg),
)
_NEVER_LONGER = frozenset(
    (
        *("abs", "capitalize", "count", "d", "default", "endswith", "first", "float", "get", "int"),
        *("items", "keys", "last", "length", "lower", "lstrip", "removeprefix", "removesuffix"),
        *("reverse", "round", "rstrip", "startswith", "string", "strip", "title", "trim", "upper"),
        *("values", "wordcount"),
    )
)
"""Filters and methods that make nothing longer."""
_ONCE = ("join", "replace")
"""Filters that make a text longer by a constant in the template for each character. Two of them can multiply."""


def _only_prints(tree: nodes.Template) -> bool:
    """Return True if a template makes no more text than its own length times that of the row, and that for each of a loop."""
    growing = 0
    for node in tree.find_all(nodes.Node):
        if isinstance(node, nodes.For):
            allowed = not node.recursive and not any(node.find_all(nodes.For))
        elif isinstance(node, nodes.Filter) and node.name in _ONCE:
            growing += 1
            allowed = growing == 1 and all(isinstance(part, nodes.Const) for part in node.args)
        elif isinstance(node, nodes.Filter):
            allowed = node.name in _NEVER_LONGER
        elif isinstance(node, nodes.Call):
            called = node.node
            allowed = isinstance(called, nodes.Getattr) and called.attr in _NEVER_LONGER
        else:
            allowed = isinstance(node, _PRINTING)
        if not allowed:
            return False
    return True


def _refuse_null(value: object) -> object:
    if value is None or value != value:  # NaN, as pandas writes a missing value
        raise TemplateValueError(
            f"it would print a value that is {'null' if value is None else 'NaN'}; expected a text or number"
        )
    return value


_ENVIRONMENT = ImmutableSandboxedEnvironment(undefined=StrictUndefined, finalize=_refuse_null)


@cache
def _compiled(text: str) -> Template:
    return _ENVIRONMENT.from_string(text)

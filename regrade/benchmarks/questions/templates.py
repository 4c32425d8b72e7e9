"""Jinja templates over the columns of a dataset: sandboxed, and strict about missing values.

A template names a column directly, `{{ question }}`, or as `{{ row['the question'] }}` if its name is not a word.
"""

import re
from collections.abc import Callable, Mapping, Sized
from functools import wraps
from typing import Any

from jinja2 import StrictUndefined, TemplateError, TemplateSyntaxError, meta, nodes
from jinja2.runtime import Context
from jinja2.sandbox import ImmutableSandboxedEnvironment

from regrade.settings.errors import SettingsError

MAX_REPEATED = 1_000_000
"""Largest length of a text or list that a template may make by `*`, and largest result of `**`, in bits."""


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
        self._name = name
        try:
            self._template = _ENVIRONMENT.from_string(text)
            tree = _ENVIRONMENT.parse(text)
            names = meta.find_undeclared_variables(tree)
        except TemplateSyntaxError as error:
            raise SettingsError(
                f"The template {name} is not valid Jinja (line {error.lineno}): {error.message}. "
                f"{_AS_ROW}"
            ) from error
        self.row_columns = _row_columns(name, tree) if ROW in names else frozenset()
        self.names = frozenset(names) - frozenset(_ENVIRONMENT.globals) - {ROW}

    def render(self, values: Mapping[str, Any]) -> str:
        """Render the template for a row.

        Args:
            values: Value of each of `names`, and the row under `row`.

        Raises:
            TemplateValueError: If a printed value is missing or null, or the template cannot use a value.
        """
        try:
            return self._template.render(values)
        except (TemplateError, TypeError, ValueError, ArithmeticError, LookupError) as error:
            raise TemplateValueError(
                f"the template {self._name} cannot be filled: {error}"
            ) from error


_AS_ROW = "A column whose name is not a word is written as `row['NAME']`."


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


def _refuse_null(value: object) -> object:
    if value is None:
        raise TemplateValueError("it would print a value that is null; expected a text or number")
    return value


class _Environment(ImmutableSandboxedEnvironment):
    """A sandbox in which `{{ "a" * 10**10 }}` takes no memory; jinja2 bounds only `range`."""

    intercepted_binops = frozenset(("*", "**", "%"))

    def call_binop(self, context: Context, operator: str, left: object, right: object) -> object:
        """Compute `left * right` or `left ** right` if the result is not too large."""
        size = 0
        if operator == "%" and isinstance(left, str):
            _check_format(left, *(right if isinstance(right, tuple) else (right,)))
        if operator == "**" and isinstance(left, int) and isinstance(right, int):
            size = left.bit_length() * right
        elif operator == "*":
            for factor, times in ((left, right), (right, left)):
                if isinstance(times, int) and isinstance(factor, Sized):
                    size = len(factor) * times
        if size > MAX_REPEATED:
            raise TemplateValueError(f"the result of `{operator}` would be too large")
        return super().call_binop(context, operator, left, right)

    def call(self, context: Context, function: Any, /, *arguments: Any, **options: Any) -> Any:  # noqa: ANN401 - jinja2's
        """Call a function or method, unless it fills a text up to a large width."""
        if getattr(function, "__name__", "") in _PADDING:
            _check_width(*arguments, *options.values())
        text = getattr(getattr(function, "__wrapped__", function), "__self__", None)
        if isinstance(text, str) and getattr(function, "__name__", "") in ("format", "format_map"):
            _check_format(text, *arguments, *options.values())
        return super().call(context, function, *arguments, **options)


_PADDING = frozenset(("center", "expandtabs", "ljust", "rjust", "zfill", "lipsum", "to_bytes"))


def _check_width(*widths: object) -> None:
    if any(isinstance(width, int) and width > MAX_REPEATED for width in widths):
        raise TemplateValueError(f"it would fill a text with more than {MAX_REPEATED:,} characters")


def _check_format(text: str, *values: object) -> None:
    """Refuse a large width in a format of `%` or `format`, or as a value where the format asks for one."""
    widths = [int(digits) for digits in _WIDTH.findall(text)]
    _check_width(*widths, *(values if _ASKED_WIDTH.search(text) else ()))


_WIDTH = re.compile(r"(?:%(?:\([^()]*\))?[-+ #0.]{0,5}|\{[^{}]*[:.][^{}]{0,4}?)([0-9]{7,})")
_ASKED_WIDTH = re.compile(r"%[^%a-zA-Z]{0,8}\*|\{[^{}]*\{")


def _bounded(filled: Callable[..., Any]) -> Callable[..., Any]:
    """Return a filter that fills up to no large width."""

    @wraps(filled)
    def run(*arguments: Any, **options: Any) -> Any:  # noqa: ANN401 - as above
        if filled is _FORMAT:
            _check_format(str(arguments[0]), *arguments[1:], *options.values())
            return filled(*arguments, **options)
        _check_width(*arguments, *options.values())
        return filled(*arguments, **options)

    return run


_ENVIRONMENT = _Environment(undefined=StrictUndefined, finalize=_refuse_null)
_FORMAT = _ENVIRONMENT.filters["format"]
for _name in ("center", "format", "indent", "tojson"):
    _ENVIRONMENT.filters[_name] = _bounded(_ENVIRONMENT.filters[_name])

"""Jinja templates over the columns of a dataset: sandboxed, and strict about missing values."""

from collections.abc import Mapping, Sized
from typing import Any

from jinja2 import StrictUndefined, TemplateError, TemplateSyntaxError, meta
from jinja2.runtime import Context
from jinja2.sandbox import ImmutableSandboxedEnvironment

from regrade.errors import SettingsError

MAX_REPEATED = 1_000_000
"""Largest length of a text or list that a template may make by `*`, and largest result of `**`, in bits."""


class TemplateValueError(TemplateError):
    """A template cannot be rendered for a row."""


class RowTemplate:
    """Template of a row; `names` are the names that the template reads."""

    def __init__(self, name: str, text: str) -> None:
        """Compile the template.

        Args:
            name: Setting with the template, for messages.
            text: Jinja source.

        Raises:
            SettingsError: If the template is not valid.
        """
        self._name = name
        try:
            self._template = _ENVIRONMENT.from_string(text)
            names = meta.find_undeclared_variables(_ENVIRONMENT.parse(text))
        except TemplateSyntaxError as error:
            raise SettingsError(
                f"The template {name} is not valid Jinja (line {error.lineno}): {error.message}"
            ) from error
        self.names = frozenset(names) - frozenset(_ENVIRONMENT.globals)

    def render(self, values: Mapping[str, Any]) -> str:
        """Render the template for a row.

        Raises:
            TemplateValueError: If a printed value is missing or null, or the template cannot use a value.
        """
        try:
            return self._template.render(values)
        except (TemplateError, TypeError, ValueError, ArithmeticError, LookupError) as error:
            raise TemplateValueError(
                f"the template {self._name} cannot be filled: {error}"
            ) from error


def _refuse_null(value: object) -> object:
    if value is None:
        raise TemplateValueError("it would print a value that is null; expected a text or number")
    return value


class _Environment(ImmutableSandboxedEnvironment):
    """A sandbox in which `{{ "a" * 10**10 }}` takes no memory; jinja2 bounds only `range`."""

    intercepted_binops = frozenset(("*", "**"))

    def call_binop(self, context: Context, operator: str, left: object, right: object) -> object:
        """Compute `left * right` or `left ** right` if the result is not too large."""
        size = 0
        if operator == "**" and isinstance(left, int) and isinstance(right, int):
            size = left.bit_length() * right
        elif operator == "*":
            for one, times in ((left, right), (right, left)):
                if isinstance(times, int) and isinstance(one, Sized):
                    size = len(one) * times
        if size > MAX_REPEATED:
            raise TemplateValueError(f"the result of `{operator}` would be too large")
        return super().call_binop(context, operator, left, right)


_ENVIRONMENT = _Environment(undefined=StrictUndefined, finalize=_refuse_null)

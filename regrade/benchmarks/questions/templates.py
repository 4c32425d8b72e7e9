"""Jinja templates over the columns of a dataset, in a sandbox, strict about what is missing."""

from collections.abc import Mapping
from typing import Any

from jinja2 import StrictUndefined, TemplateError, TemplateSyntaxError, meta
from jinja2.sandbox import ImmutableSandboxedEnvironment

from regrade.errors import SettingsError


class TemplateValueError(TemplateError):
    """A row for which a template cannot be rendered."""


class RowTemplate:
    """A template that knows which names it reads."""

    def __init__(self, name: str, text: str) -> None:
        """Compile the template.

        Args:
            name: Setting that holds it, for messages.
            text: Jinja source.

        Raises:
            SettingsError: If it is not a valid template.
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
        """Return the text for one row.

        Raises:
            TemplateValueError: If a value is missing or null where it is printed, or cannot be used as the template does.
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


_ENVIRONMENT = ImmutableSandboxedEnvironment(undefined=StrictUndefined, finalize=_refuse_null)

"""Scorers: a module for each, which reads a value from answers and compares it with the target."""

from collections.abc import Callable, Mapping
from inspect import Parameter, signature
from typing import TYPE_CHECKING, Any

from regrade.scorers.user_functions.files import is_specification, load_file, loaded
from regrade.scorers.user_functions.values import Score as Score
from regrade.settings import registry
from regrade.settings.errors import SettingsError

if TYPE_CHECKING:
    from regrade.scorers.sessions import AnyScorer
    from regrade.settings import Method

JUDGE = "judge"
"""Scorer of judge runs; also the first scorer of benchmarks whose answers a judge grades."""


def scorer_names() -> tuple[str, ...]:
    """Names of all installed scorers."""
    return registry.names("scorer")


def is_known(name: str) -> bool:
    """Return True if a scorer of this name is installed, or was loaded from a file by this process."""
    base, _ = registry.called(name)
    return base in scorer_names() or loaded(base) is not None


def stored_name(name: str) -> str:
    """Return the name of a scorer in stored scores; of `path/to/file.py:name`, which is loaded, the plain name.

    Arguments are part of it, unless they are the defaults: `number(last=true)`, but `number` for `number(last=false)`.

    Raises:
        SettingsError: If the file cannot be used, or the scorer has no such argument.
    """
    base, given = registry.called(name)
    plain = load_file(base).name if is_specification(base) else base
    if not given:
        return plain
    options = options_of(_definition(plain))
    changed = {
        key: value
        for key, value in sorted(_checked_options(plain, given).items())
        if value != options[key].default
    }
    texts = (
        f"{key}={str(value).lower() if value in (True, False) else value}"
        for key, value in changed.items()
    )
    return f"{plain}({','.join(texts)})" if changed else plain


def options_of(definition: Callable[..., object]) -> dict[str, Parameter]:
    """Return the arguments that a scorer takes: keywords of a class, and parameters with a default of a function."""
    parameters = signature(definition).parameters.values()
    if isinstance(definition, type):
        return {p.name: p for p in parameters if p.kind is p.KEYWORD_ONLY}
    from regrade.records.columns import GENERATION_SCHEMA  # noqa: PLC0415 - needs Arrow

    return {
        p.name: p
        for p in parameters
        if p.default is not p.empty and p.name not in GENERATION_SCHEMA.names
    }


def _checked_options(name: str, given: Mapping[str, str]) -> dict[str, object]:
    """Return arguments in the types of the scorer's own.

    Raises:
        SettingsError: If the scorer has no such argument, or it cannot have this value.
    """
    from pydantic import TypeAdapter, ValidationError  # noqa: PLC0415 - hashes need only Python

    options = options_of(_definition(name))
    checked: dict[str, object] = {}
    for key, text in given.items():
        if key not in options:
            known = ", ".join(options) or "none"
            raise SettingsError(f"Scorer '{name}' has no argument '{key}'. Its arguments: {known}.")
        parameter = options[key]
        kind = parameter.annotation
        if kind is parameter.empty or isinstance(kind, str):
            kind = type(parameter.default)
        try:
            checked[key] = TypeAdapter(kind).validate_python(text)
        except ValidationError as error:
            raise SettingsError(
                f"Scorer '{name}' cannot have `{key}={text}`: {error.errors()[0]['msg']}."
            ) from error
    return checked


def _definition(name: str) -> Any:  # noqa: ANN401 - a class or a function
    file = loaded(name)
    if file is not None:
        return registry.checked("scorer", name, file.definition, f"'{file.path.name}'")
    return registry.load("scorer", name)


def load_scorer(name: str) -> "AnyScorer":
    """Return a scorer.

    Args:
        name: Name of an installed scorer, or `path/to/file.py:name`; with arguments if it has some.

    Raises:
        UnknownNameError: If no scorer of this name is installed.
        PluginError: If the scorer is installed but cannot be used.
        SettingsError: If the file cannot be used.
    """
    name, given = registry.called(stored_name(name))
    definition = _definition(name)
    options = _checked_options(name, given)
    if isinstance(definition, type):
        scorer: AnyScorer = definition(**options)
        return scorer
    from regrade.scorers.user_functions.functions import FunctionScorer  # noqa: PLC0415 - needs Arrow

    return FunctionScorer(name, definition, options)


def method_of(scorer: "AnyScorer") -> "Method":
    """Return the method that produces the answers of a scorer: `rank` if it reads log-probabilities of labels.

    A `SessionScorer` may take answers of both methods, and itself refuses those that it cannot score.
    """
    ranks = "label_logprobs" in scorer.columns and not hasattr(scorer, "session")
    return "rank" if ranks else "generate"

"""Problems of settings in plain words, in place of pydantic's."""

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, get_args

from pydantic import BaseModel, ValidationError

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

_Place = tuple[int | str, ...]
LONGEST = 60
"""Most characters of a wrong value that a message repeats."""
_GROUP = "a group of settings, such as `{{name: value}}`"
_EXPECTED = {
    "greater_than_equal": "{ge:g} or more",
    "greater_than": "above {gt:g}",
    "less_than_equal": "{le:g} or less",
    "less_than": "below {lt:g}",
    "literal_error": "{expected}",
    "int_type": "a whole number",
    "int_parsing": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "float_parsing": "a number",
    "finite_number": "a finite number",
    "bool_type": "`true` or `false`",
    "bool_parsing": "`true` or `false`",
    "string_type": "a text",
    "string_pattern_mismatch": "of the form `{pattern}`",
    "tuple_type": "a list, such as `[a, b]`",
    "list_type": "a list, such as `[a, b]`",
    "sequence_str": "a list, such as `[a, b]`",
    "model_type": _GROUP,
    "model_attributes_type": _GROUP,
    "dict_type": _GROUP,
    "mapping_type": _GROUP,
    "date_type": "a day, such as 2026-11-30",
    "date_parsing": "a day, such as 2026-11-30",
    "date_from_datetime_parsing": "a day, such as 2026-11-30",
}
"""Kind of a problem -> what the value should be, with the names of the kind's context."""
_FORMS = {
    r"^https?://": "an address that begins with `http://` or `https://`",
    r"^[a-z0-9][a-z0-9_-]{0,62}$": "up to 63 lower-case letters, digits, `-` and `_`",
}
"""Pattern -> its words."""
_SIZES = {
    "too_short": "{min_length} entries or more, not {actual_length}",
    "too_long": "{max_length} entries or less, not {actual_length}",
    "string_too_short": "{min_length} characters or more",
    "string_too_long": "{max_length} characters or less",
}
"""Kind of a problem -> the size that the value should have."""
_EMPTY = ("string_too_short", "too_short")


def one_line(error: ValidationError, model: type[BaseModel] | None = None) -> str:
    """Return the problems of a validation error in one line, each with the key of its setting in backticks.

    Args:
        error: The error.
        model: The outermost settings, whose names are listed where an unknown one was given. Of groups among which no `kind`
            chose, only the one that lacks the fewest of the given names is told about.
    """
    problems = error.errors()
    others = set() if model is None else _not_meant(problems, model)
    found = list(_of_chosen(problems, others)) or list(_of_unknown_kinds(problems))
    texts = []
    for problem, place in found:
        path = [part for part in problem["loc"][:-1] if isinstance(part, str)]
        groups = models_at(model, path) if model is not None else []
        known = dict.fromkeys(name for group in groups for name in group.model_fields)
        key = ".".join(map(str, place))
        texts.append(problem_text(problem, f"`{key}`" if key else "", tuple(known)))
    return "; ".join(dict.fromkeys(texts))


def sentence(text: str) -> str:
    """Return a text that ends as a sentence does."""
    return text if text.endswith((".", "?", "!")) else f"{text}."


def problem_text(problem: "ErrorDetails", name: str, known: Sequence[str] = ()) -> str:
    """Return a problem of a validation error in plain words.

    Args:
        problem: The problem.
        name: Name under which the value was given.
        known: Names that are known where an unknown one was given.
    """
    kind, context, name = problem["type"], problem.get("ctx", {}), name or "it"
    if kind == "missing":
        return f"{name} is missing"
    if kind == "extra_forbidden":
        close = get_close_matches(str(problem["loc"][-1]), known, n=1)
        hint = f" Did you mean '{close[0]}'?" if close else ""
        listed = f" Known: {', '.join(known)}." if known else ""
        return f"{name} is unknown.{hint}{listed}"
    if kind in _EMPTY and context.get("min_length") == 1:
        return f"{name} should not be empty"
    if kind in _SIZES:
        return f"{name} should have {_SIZES[kind].format(**context)}"
    if (expected := _expected(kind, context)) is not None:
        return f"{name} should be {expected}, not {shown(problem['input'])}"
    message = problem["msg"].removeprefix("Value error, ")
    if problem["loc"] and not message.startswith("`"):  # it names the settings itself
        message = f"{name}: {message}"
    return message if kind == "value_error" else f"{message} (got {shown(problem['input'])})"


def models_at(model: type[BaseModel], path: Sequence[str]) -> list[type[BaseModel]]:
    """Return the groups of settings that a field takes; of a choice of groups, the one that the path names.

    Args:
        model: The outermost settings.
        path: Fields on the way to the group, without the numbers of list elements.
    """
    models = [model]
    for part in path:
        chosen = [found for found in models if found.__name__ == part]
        fields = [found.model_fields[part] for found in models if part in found.model_fields]
        models = chosen or [inner for field in fields for inner in models_in(field.annotation)]
    return models


def _not_meant(problems: Sequence["ErrorDetails"], model: type[BaseModel]) -> set[_Place]:
    """Return the groups among which no `kind` chose, save the first of those that lack the fewest of the given names."""
    lacking: Counter[_Place] = Counter()
    for problem in problems:
        place = problem["loc"]
        for at, part in enumerate(place):
            groups = models_at(model, [above for above in place[:at] if isinstance(above, str)])
            if len(groups) > 1 and part in [group.__name__ for group in groups]:
                lacking[place[: at + 1]] += problem["type"] == "extra_forbidden"
    with_kind = {problem["loc"][:-2] for problem in problems if problem["loc"][-1:] == ("kind",)}
    meant: dict[_Place, _Place] = {}
    for group in sorted(lacking, key=lacking.__getitem__):
        meant.setdefault(group[:-1], group)
    return {g for g in lacking if g[:-1] not in with_kind and g != meant[g[:-1]]}


def _of_chosen(
    problems: Sequence["ErrorDetails"], others: Collection[_Place]
) -> Iterator[tuple["ErrorDetails", _Place]]:
    """Yield each problem and its place, without classes, other groups, and those that `kind` did not choose."""
    others = {*others} | {
        problem["loc"][:-1]
        for problem in problems
        if problem["type"] == "literal_error" and problem["loc"][-1:] == ("kind",)
    }
    choices = {other[:-1] for other in others}
    for problem in problems:
        place = problem["loc"]
        if any(place[: len(other)] == other for other in others):
            continue
        for choice in choices:
            if place[: len(choice)] == choice:
                place = (*choice, *place[len(choice) + 1 :])
        yield problem, place


def _of_unknown_kinds(
    problems: Sequence["ErrorDetails"],
) -> Iterator[tuple["ErrorDetails", _Place]]:
    """Yield one problem and its place for each `kind` that no group has, with all that could be chosen."""
    wrong = [problem for problem in problems if problem["loc"][-1:] == ("kind",)]
    for place in dict.fromkeys(problem["loc"][:-2] for problem in wrong):
        kinds = [problem for problem in wrong if problem["loc"][:-2] == place]
        expected = " or ".join(kind["ctx"]["expected"] for kind in kinds)
        chosen = (
            (*place, "kind") if len(kinds) > 1 else kinds[0]["loc"]
        )  # classes are named in a choice
        yield {**kinds[0], "ctx": {"expected": expected}}, chosen


def models_in(annotation: Any) -> Iterator[type[Any]]:  # noqa: ANN401 - any type
    """Yield the groups of settings that a type takes."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for inner in get_args(annotation):
        yield from models_in(inner)


def _expected(kind: str, context: dict[str, Any]) -> str | None:
    """Return what a value should be, or None if there are no words for it."""
    if kind not in _EXPECTED or not all(isinstance(v, int | float | str) for v in context.values()):
        return None
    return _FORMS.get(context.get("pattern", ""), _EXPECTED[kind].format(**context))


def shown(value: object) -> str:
    """Return a value as it is written in a YAML file or on the command line."""
    if value is None:
        return "empty"
    if isinstance(value, bool):
        return "true" if value else "false"
    text = f"{value:g}" if isinstance(value, float) else str(value)
    text = text if len(text) <= LONGEST else f"{text[:LONGEST]}..."
    return f"'{text}'" if isinstance(value, str) and not _is_number(value) else text


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True

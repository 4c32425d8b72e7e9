"""The form of a verdict: JSON with each explanation before its label, as a schema, and as a pattern for engines that take one.

The pattern leaves no white space to choose and bounds each explanation, so that a weak judge can neither fill the form with
blanks nor run out of tokens within it. An explanation after the label would be made up for it.

The pattern counts characters only in runs without an escape. xgrammar 0.2 needs 0.3 ms per token for the tokens that may come next
in such a run, and 300 to 1,000 ms where a choice of a character or an escape is counted (130,000 tokens, one core).
"""

import re
from collections.abc import Iterator
from typing import Any

from regrade.records import Structure
from regrade.records.rubrics.base import Rubric, VerdictField

CRITERIA = "criteria"
_CHARACTER = r'[^"\\\x00-\x1f]'
_FIRST = r'[^"\\\x00-\x20]'
_ESCAPED = r'\\["\\/]'
_MOST_ESCAPED = 8
"""Most quotation marks and backslashes of an explanation."""
_TOKENS_AROUND = 128
"""Room for names, marks and labels of a verdict, in tokens."""


def explanation_of(field: VerdictField, rubric: Rubric) -> str:
    """Name of a field's explanation in the JSON."""
    return "explanation" if len(rubric.fields) == 1 else f"{field.name}_explanation"


def structure_of(rubric: Rubric, criteria: int = 0) -> Structure | None:
    """Return the form of a verdict; None for a rubric that reads free replies and gives no schema.

    Args:
        rubric: The rubric.
        criteria: Number of criteria, for rubrics of this kind.
    """
    if rubric.is_free:
        return None if rubric.schema is None else Structure(rubric.schema)
    member = _object_schema(rubric)
    pattern = _object_pattern(rubric)
    if rubric.kind == "criteria":
        array = {"type": "array", "items": member, "minItems": criteria, "maxItems": criteria}
        listed = rf"(?:{pattern}, ){{{criteria - 1}}}{pattern}"
        return Structure(_object({CRITERIA: array}), regex=rf'\{{"{CRITERIA}": \[{listed}\]\}}')
    (first, *more) = rubric.fields
    choice = tuple(first.values) if not more and not first.explained else ()
    return Structure(member, regex=pattern, choice=choice)


def most_tokens(rubric: Rubric, criteria: int = 1) -> int:
    """Return the most new tokens of a verdict: enough for one character in each, or for three if explanations have eight escapes."""
    explained = sum(field.explained for field in rubric.fields)
    return criteria * (explained + _TOKENS_AROUND)


def reply_text(rubric: Rubric, criteria: int = 0) -> str:
    """Return the sentences that tell a judge the form of its reply."""
    (first, *more) = rubric.fields
    if rubric.kind == "criteria":
        return (
            f'Reply with one JSON object and nothing else: {{"{CRITERIA}": [...]}} with {criteria} objects, one for each '
            'criterion in its order, each as {"explanation": "...", "met": true}. The explanation comes first and has at most '
            f"{first.explained} characters; `met` is true or false."
        )
    if not more and not first.explained:
        return f"Reply with the verdict alone, one of: {', '.join(first.values)}."
    shown = ", ".join(
        part
        for field in rubric.fields
        for part in (
            *([f'"{explanation_of(field, rubric)}": "..."'] if field.explained else []),
            f'"{field.name}": "{next(iter(field.values))}"',
        )
    )
    bounds = "; ".join(
        f"`{field.name}` is one of {', '.join(field.values)}"
        + (
            f", after an explanation of at most {field.explained} characters"
            if field.explained
            else ""
        )
        for field in rubric.fields
    )
    return f"Reply with one JSON object and nothing else, such as {{{shown}}}: {bounds}."


def _object_schema(rubric: Rubric) -> dict[str, Any]:
    properties: dict[str, Any] = {}
    for field in rubric.fields:
        if field.explained:
            properties[explanation_of(field, rubric)] = {
                "type": "string",
                "minLength": 1,
                "maxLength": field.explained,
            }
        properties[field.name] = (
            {"type": "boolean"}
            if rubric.kind == "criteria"
            else {"type": "string", "enum": list(field.values)}
        )
    return _object(properties)


def _object(properties: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def _object_pattern(rubric: Rubric) -> str:
    return r"\{" + ", ".join(_members(rubric)) + r"\}"


def _members(rubric: Rubric) -> Iterator[str]:
    for field in rubric.fields:
        if field.explained:
            yield f'"{explanation_of(field, rubric)}": "{_text_pattern(field.explained)}"'
        labels = "|".join(map(_escaped, field.values))
        yield f'"{field.name}": ' + (
            f"({labels})" if rubric.kind == "criteria" else f'"({labels})"'
        )


def _text_pattern(most: int) -> str:
    """Pattern of a text of at most `most` characters, and a quarter of that after each escape."""
    after = rf"(?:{_ESCAPED}{_CHARACTER}{{0,{most // 4}}}){{0,{_MOST_ESCAPED}}}"
    return rf"{_FIRST}{_CHARACTER}{{0,{most - 1}}}{after}"


def _escaped(label: str) -> str:
    """Return a label as pattern of its JSON text."""
    return re.escape(label.replace("\\", r"\\").replace('"', r"\""))

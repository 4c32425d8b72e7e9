"""Reading of a verdict: a JSON object of the rubric's form, one label alone, or what the rubric's own patterns find.

Nothing else counts, and nothing is a default.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from regrade.records.patterns import compiled
from regrade.records.rubrics.facts import FieldFacts, RubricFacts

_FENCED = compiled(r"(?s)\A```(?:json)?[ \t]*\n(?P<inner>.*)\n```\Z")
_LINE = compiled(r"(?i)(?:\W|_)*(?:verd[i\u0130\u0131]ct|grade)(?:[^\w:=]|_)*[:=](?P<word>.+)")
"""Last line such as `Verdict: A`."""
_LONGEST_LINE = 200
"""Characters of such a line; longer ones are prose."""
_MARKDOWN = "*_`\"' \t\n"
_AROUND = f"{_MARKDOWN}()[]."


@dataclass(frozen=True, slots=True)
class Reading:
    """A verdict that was read."""

    labels: tuple[str, ...]
    """Label of each field, or of each criterion: `true` or `false`."""
    explanations: tuple[str, ...] = ()


def read_verdict(text: str, rubric: RubricFacts, criteria: int = 0) -> Reading | None:
    """Return the verdict in a judge's reply; None if it cannot be read without doubt.

    Args:
        text: Reply without its reasoning.
        rubric: The rubric.
        criteria: Number of criteria, for rubrics of this kind.
    """
    if rubric.fields[0].pattern:
        return _of_patterns(text, rubric, criteria)
    stripped = text.strip()
    fenced = _FENCED.match(stripped)
    document = _object(fenced["inner"] if fenced else stripped)
    if document is not None:
        return _of_object(document, rubric, criteria)
    if rubric.kind == "criteria" or len(rubric.fields) > 1:
        return None
    label = _label(stripped, rubric.fields[0])
    if label is None and not stripped.startswith(
        "{"
    ):  # the rest of an object says nothing for certain
        label = _label_alone(stripped, rubric.fields[0])
    return None if label is None else Reading((label,))


def _of_patterns(text: str, rubric: RubricFacts, criteria: int) -> Reading | None:
    found = [_matches(text, field) for field in rubric.fields]
    if rubric.kind == "criteria":
        (labels,) = found
    else:
        labels = [_chosen(given, field) for given, field in zip(found, rubric.fields, strict=True)]
    if None in labels or (rubric.kind == "criteria" and len(labels) != criteria):
        return None
    return Reading(tuple(map(str, labels)))


def _matches(text: str, field: FieldFacts) -> list[str | None]:
    """Return the label of each match of a field's pattern; None for one that is no label."""
    return [
        _label_or_number(next(filter(None, match.groups()), match[0]).strip(), field)
        for match in compiled(field.pattern).finditer(text)
    ]


def _label_or_number(text: str, field: FieldFacts) -> str | None:
    if field.range is None:
        alike = (label for label in field.values if label.lower() == text.lower())
        return _label(text, field) or next(alike, None)
    try:
        number = float(text)
    except ValueError:
        return None
    return text if field.range[0] <= number <= field.range[1] else None


def _chosen(labels: Sequence[str | None], field: FieldFacts) -> str | None:
    if not labels or (field.which == "only" and len(set(labels)) > 1):
        return None
    return labels[-1 if field.which == "last" else 0]


def _object(text: str) -> Mapping[str, Any] | None:
    try:
        document = orjson.loads(text)
    except orjson.JSONDecodeError:
        return None
    return document if isinstance(document, dict) else None


def _of_object(document: Mapping[str, Any], rubric: RubricFacts, criteria: int) -> Reading | None:
    if rubric.kind == "criteria":
        members = document.get("criteria")
        if not isinstance(members, list) or len(members) != criteria:
            return None
        met = [member.get("met") if isinstance(member, dict) else None for member in members]
        if not all(isinstance(value, bool) for value in met):
            return None
        return Reading(
            tuple("true" if value else "false" for value in met),
            tuple(str(member.get("explanation", "")) for member in members),
        )
    labels = [_label(document.get(field.name), field) for field in rubric.fields]
    if None in labels:
        return None
    return Reading(tuple(map(str, labels)), _explanations(document, rubric.fields))


def _explanations(document: Mapping[str, Any], fields: Sequence[FieldFacts]) -> tuple[str, ...]:
    names = ["explanation"] if len(fields) == 1 else [f"{f.name}_explanation" for f in fields]
    return tuple(str(document[name]) for name in names if name in document)


def _label(value: object, field: FieldFacts) -> str | None:
    """Return the label that a value is, as a text or a whole number."""
    if isinstance(value, bool) or not isinstance(value, str | int):
        return None
    text = str(value).strip()
    return text if text in field.values else field.words.get(text.lower())


def _label_alone(text: str, field: FieldFacts) -> str | None:
    """Return the label if the reply is one, or if its last line names it: a letter within a word is none.

    A label may have punctuation of its own, such as `[[A]]`, so that as little as possible is taken away.
    """
    label = _first_label(field, text.strip(_MARKDOWN), text.strip(_AROUND))
    if label is not None:
        return label
    last = text.rpartition("\n")[2].strip()
    line = _LINE.fullmatch(last) if len(last) <= _LONGEST_LINE else None
    if line is None:
        return None
    word = line["word"].lstrip(":=") or line["word"][-1]
    return _first_label(field, word, word.strip(_MARKDOWN), _without_edges(word))


def _without_edges(word: str) -> str:
    """Return a word without the punctuation around it; the sign of a number is none."""
    begin, end = 0, len(word)
    while begin < end and not word[begin].isalnum():
        if word[begin] in "+-" and word[begin + 1 : begin + 2].isdecimal():
            break
        begin += 1
    while begin < end and not word[end - 1].isalnum():
        end -= 1
    return word[begin:end]


def _first_label(field: FieldFacts, *texts: str) -> str | None:
    return next((label for text in texts if (label := _label(text, field)) is not None), None)

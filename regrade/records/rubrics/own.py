"""Rubrics of the user's own: a Jinja file with a head in YAML.

---
name: polite
verdicts: {polite: 1, neutral: 0.5, rude: 0}
explanation: 300
---
Is this answer polite?

{{ answer }}

A published judge is used as published: with a `pattern` that finds its verdict in a reply of any form, and messages after lines
`--- system`, `--- user` and `--- assistant`.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import yaml
from pydantic import BeforeValidator, Field, ValidationError

from regrade.records.patterns import PatternError, compiled
from regrade.records.rubrics.base import FIRST, SECOND, TIE, Kind, Rubric, VerdictField, Which
from regrade.settings import StrictModel
from regrade.settings.errors import SettingsError
from regrade.settings.problems import one_line

NAME = r"^[a-z0-9][a-z0-9_-]{0,40}$"
_HEAD = re.compile(r"\A---[ \t]*\n(?P<head>.*?)^---[ \t]*\n(?P<template>.*)\Z", re.S | re.M)
_LONGEST, _LONGEST_FREE = 600, 16_000
"""Longest explanation in characters, if the head does not say; published judges think before their verdict."""
_OWN_FORM: Mapping[Kind, tuple[str, ...]] = {
    "criteria": ("true", "false"),
    "pairwise": (FIRST, SECOND, TIE),
}
"""Labels of the form that regrade asks for, where they are not the rubric's."""
_EXPECTED = "It should begin with a line `---`, then `name: ...` and `verdicts: {yes: 1, no: 0}`, then a line `---`"


def _as_labels(verdicts: object) -> object:
    """Return verdicts with labels as text: YAML 1.1 reads `yes` and `no` as true and false, and 1 as a number."""
    if not isinstance(verdicts, dict):
        return verdicts
    words = {True: "yes", False: "no"}
    return {
        words[label] if isinstance(label, bool) else str(label): value
        for label, value in verdicts.items()
    }


class FieldHead(StrictModel):
    """Head of a part of the verdict."""

    verdicts: Annotated[dict[str, float] | None, BeforeValidator(_as_labels)] = Field(
        None, min_length=2
    )
    """Labels that the judge can choose, with the value of each."""
    range: tuple[float, float] | None = None
    """Smallest and largest number, for a part that is a number."""
    explanation: int | None = Field(None, ge=0, le=100_000)
    """Longest explanation before the verdict, in characters; 0: none. Default: 600, with a pattern 16,000."""
    pattern: str = Field("", max_length=1000)
    """Regular expression that finds the label in a reply of any form, as its group if it has one."""
    which: Which = "only"
    """Match that counts; `only`: a reply whose matches differ has no verdict."""
    weights: Annotated[dict[str, float], BeforeValidator(_as_labels)] = Field(default_factory=dict)
    """How often the two verdicts on a pair count, by label."""


_NOTHING = {name: getattr(FieldHead(), name) for name in FieldHead.model_fields}


class Head(FieldHead):
    """Head of a rubric's file."""

    name: str = Field(pattern=NAME)
    """Name of the rubric, part of the benchmark's name."""
    kind: Kind = "verdict"
    reference: bool = False
    """Answers without a reference cannot be graded."""
    source: str = ""
    """Paper or address of the method."""
    fields: dict[str, FieldHead] = Field(default_factory=dict)
    """Several parts of a verdict instead of one; the first gives the headline number."""
    shares: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    """Named values: 1 for a verdict with one of these labels, else 0."""
    fence: bool | None = None
    """The judge sees each text between marks that it does not contain. Default: unless there are patterns."""
    schema_: dict[str, Any] | None = Field(None, alias="schema")
    """JSON schema of the reply, which servers then enforce."""


def read_rubric(path: Path) -> Rubric:
    """Return the rubric in a file.

    Raises:
        SettingsError: If it cannot be read, or its head is not valid.
    """
    try:
        text = path.expanduser().read_bytes().decode()
    except (OSError, UnicodeDecodeError) as error:
        problem = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise SettingsError(f"Rubric '{path}' cannot be read: {problem}.") from error
    found = _HEAD.match(text.replace("\r\n", "\n"))
    if found is None:
        raise SettingsError(f"Rubric '{path}' has no head. {_EXPECTED}.")
    try:
        head = Head.model_validate(_parsed(found["head"], path))
    except ValidationError as error:
        raise SettingsError(
            f"The head of rubric '{path}' is not valid: {one_line(error)}."
        ) from error
    own = {name: getattr(head, name) for name in FieldHead.model_fields}
    first = "met" if head.kind == "criteria" else "verdict"
    heads = head.fields or {first: FieldHead.model_construct(**own)}
    fields = tuple(_field(name, given, head.kind, path) for name, given in heads.items())
    free = fields[0].is_free
    known = {label for field in fields for label in field.values}
    unknown = sorted({label for labels in head.shares.values() for label in labels} - known)
    for wrong, problem in (
        (bool(head.fields) and own != _NOTHING, "with `fields`, each of them has its own verdicts"),
        (len({field.is_free for field in fields}) > 1, "all fields need a `pattern`, or none"),
        (head.schema_ is not None and not free, "`schema` is for replies read by a `pattern`"),
        (
            len(fields) > 1 and head.kind != "verdict",
            f"`{head.kind}` has one verdict, not several fields",
        ),
        (bool(unknown), f"`shares` names {', '.join(unknown)}, which is no verdict"),
    ):
        if wrong:
            raise SettingsError(f"Rubric '{path}': {problem}.")
    return Rubric(
        name=head.name,
        source=head.source or path.name,
        template=found["template"],
        needs_reference=head.reference,
        fields=fields,
        kind=head.kind,
        shares=head.shares,
        fenced=not free if head.fence is None else head.fence,
        schema=head.schema_,
    )


def _field(name: str, head: FieldHead, kind: Kind, path: Path) -> VerdictField:
    values = head.verdicts or {}
    if kind == "criteria" and not values:
        values = {"true": 1.0, "false": 0.0}
    blank = [label for label in values if not label.strip() or label != label.strip()]
    own_form = set(_OWN_FORM.get(kind, values))
    for wrong, problem in (
        (
            bool(values) == (head.range is not None),
            f"`{name}` needs `verdicts`, such as `{{yes: 1, no: 0}}`, or a `range` of numbers, such as `[1, 10]`",
        ),
        (
            bool(values) and len(set(values.values())) < 2,
            "all verdicts have the same value, so that none says anything",
        ),
        (
            bool(blank),
            f"the verdict '{''.join(blank[:1])}' should be a text without spaces at its ends",
        ),
        (
            head.range is not None and head.range[0] >= head.range[1],
            f"the range of `{name}` is empty",
        ),
        (head.range is not None and not head.pattern, f"a `range` needs a `pattern` (`{name}`)"),
        (
            kind != "verdict" and not all(0 <= value <= 1 for value in values.values()),
            f"the values of `{kind}` should be from 0 to 1",
        ),
        (
            not head.pattern and set(values) != own_form,
            f"without a `pattern`, the verdicts of `{kind}` are {', '.join(sorted(own_form))}",
        ),
        (bool(head.weights) and kind != "pairwise", "`weights` are for `kind: pairwise`"),
        (
            not all(weight > 0 and label in values for label, weight in head.weights.items()),
            "`weights` should be numbers above 0 of labels among the `verdicts`",
        ),
    ):
        if wrong:
            raise SettingsError(f"Rubric '{path}': {problem}.")
    try:
        if head.pattern:
            compiled(head.pattern).checked()
    except PatternError as error:
        raise SettingsError(f"Rubric '{path}': {error}") from error
    longest = _LONGEST_FREE if head.pattern else _LONGEST
    return VerdictField(
        name,
        values,
        explained=longest if head.explanation is None else head.explanation,
        pattern=head.pattern,
        which=head.which,
        range=head.range,
        weights=head.weights,
    )


def _parsed(head: str, path: Path) -> Any:  # noqa: ANN401 - any YAML
    try:
        return yaml.safe_load(head)
    except yaml.YAMLError as error:
        raise SettingsError(
            f"The head of rubric '{path}' is not YAML: {' '.join(str(error).split())}."
        ) from error

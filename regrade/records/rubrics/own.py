"""Rubrics of the user's own: a Jinja file with a head in YAML.

---
name: polite
verdicts: {polite: 1, neutral: 0.5, rude: 0}
explanation: 300
---
Is this answer polite?

{{ answer }}
"""

import re
from pathlib import Path
from typing import Annotated, Any

import yaml
from pydantic import BeforeValidator, Field, ValidationError

from regrade.records.rubrics.base import Rubric, VerdictField
from regrade.settings import StrictModel
from regrade.settings.errors import SettingsError
from regrade.settings.problems import one_line

NAME = r"^[a-z0-9][a-z0-9_-]{0,40}$"
_HEAD = re.compile(r"\A---[ \t]*\n(?P<head>.*?)^---[ \t]*\n(?P<template>.*)\Z", re.S | re.M)
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


class Head(StrictModel):
    """Head of a rubric's file."""

    name: str = Field(pattern=NAME)
    """Name of the rubric, part of the benchmark's name."""
    verdicts: Annotated[dict[str, float], BeforeValidator(_as_labels)] = Field(min_length=2)
    """Labels that the judge can choose, with the value of each."""
    explanation: int = Field(600, ge=0, le=10_000)
    """Longest explanation before the verdict, in characters; 0: none."""
    reference: bool = False
    """Answers without a reference cannot be graded."""
    source: str = ""
    """Paper or address of the method."""


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
    if len(set(head.verdicts.values())) < 2:
        raise SettingsError(
            f"Rubric '{path}': all verdicts have the same value, so that none says anything."
        )
    blank = [label for label in head.verdicts if not label.strip() or label != label.strip()]
    if blank:
        raise SettingsError(
            f"Rubric '{path}': the verdict '{blank[0]}' should be a text without spaces at its ends."
        )
    return Rubric(
        name=head.name,
        source=head.source or path.name,
        template=found["template"],
        needs_reference=head.reference,
        fields=(VerdictField("verdict", head.verdicts, explained=head.explanation),),
    )


def _parsed(head: str, path: Path) -> Any:  # noqa: ANN401 - any YAML
    try:
        return yaml.safe_load(head)
    except yaml.YAMLError as error:
        raise SettingsError(
            f"The head of rubric '{path}' is not YAML: {' '.join(str(error).split())}."
        ) from error

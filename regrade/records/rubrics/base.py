"""Data types of a rubric: its template, and the fields of a verdict with their labels and values."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

import orjson

Kind = Literal["verdict", "criteria", "pairwise"]
"""`verdict`: one answer, one verdict of one or several fields. `criteria`: one answer, a list of criteria that it meets or
not. `pairwise`: two answers, in both orders."""

QUESTION, REFERENCE, ANSWER = "question", "reference", "answer"
FIRST, SECOND = "first", "second"
TIE = "tie"
REPLY = "reply"
"""Name of the text that tells the judge the form of its reply."""
NAMES: Mapping[Kind, tuple[str, ...]] = {
    "verdict": (QUESTION, REFERENCE, ANSWER, REPLY),
    "criteria": (QUESTION, REFERENCE, ANSWER, "criteria", REPLY),
    "pairwise": (QUESTION, REFERENCE, FIRST, SECOND, REPLY),
}
"""Names that a template can use. Question, reference and answers are fenced; without a reference, that is none."""


@dataclass(frozen=True, slots=True)
class VerdictField:
    """A part of a verdict: one of several labels."""

    name: str
    values: Mapping[str, float]
    """Value of each label."""
    words: Mapping[str, str] = field(default_factory=dict)
    """Label of other words that a judge without a constrained form may write, in lower case."""
    explained: int = 600
    """Longest explanation before the label, in characters; 0: none."""


@dataclass(frozen=True, slots=True)
class Rubric:
    """A rubric."""

    name: str
    source: str
    """Paper or address of the method, or the name of the user's file."""
    template: str
    """Jinja template of the prompt; `NAMES` has the names that it can use."""
    fields: tuple[VerdictField, ...]
    """Parts of the verdict; the first gives the headline number. Of `criteria`: the part that is repeated for each."""
    kind: Kind = "verdict"
    needs_reference: bool = False
    """Answers without a reference cannot be graded."""
    shares: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Named values: 1 for a verdict with one of these labels, else 0."""

    @property
    def sha256(self) -> str:
        """Hash of everything that decides prompts and verdicts."""
        content = {
            "template": self.template,
            "kind": self.kind,
            "needs_reference": self.needs_reference,
            "fields": [
                # A list, because the judge reads the labels in their order.
                {"name": f.name, "values": list(f.values.items()), "explained": f.explained}
                for f in self.fields
            ],
        }
        return hashlib.sha256(orjson.dumps(content, option=orjson.OPT_SORT_KEYS)).hexdigest()

    @property
    def scale(self) -> tuple[float, float]:
        """Worst and best value; 0 and 1 if all values are shares."""
        if self.kind != "verdict":
            return 0.0, 1.0
        values = self.fields[0].values.values()
        is_share = min(values) >= 0 and max(values) <= 1
        return (0.0, 1.0) if is_share else (min(values), max(values))

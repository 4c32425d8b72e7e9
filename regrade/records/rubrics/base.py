"""Data types of a rubric: its template, and the fields of a verdict with their labels and values."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import orjson

Kind = Literal["verdict", "criteria", "pairwise"]
"""`verdict`: one answer, one verdict of one or several fields. `criteria`: one answer, a list of criteria that it meets or
not. `pairwise`: two answers, in both orders."""

QUESTION, REFERENCE, ANSWER = "question", "reference", "answer"
CONVERSATION = "conversation"
"""All turns before the answer, each as `role: text`."""
TURNS = "turns"
"""Earlier turns of a conversation with the model's own answers, each with `question`, `answer` and `reference`; empty without any."""
LAST_QUESTION = "last_question"
"""The turn of the user that the answer follows; `question` has the whole conversation if that has other turns."""
TRAJECTORY = "trajectory"
"""Actions of an agent, in the same form with its calls and their results; of other answers the answer."""
FIRST, SECOND = "first", "second"
TIE = "tie"
REPLY = "reply"
"""Name of the text that tells the judge the form of its reply."""
_OF_QUESTION = (QUESTION, LAST_QUESTION, CONVERSATION, TURNS, REFERENCE)
NAMES: Mapping[Kind, tuple[str, ...]] = {
    "verdict": (*_OF_QUESTION, ANSWER, TRAJECTORY, REPLY),
    "criteria": (*_OF_QUESTION, ANSWER, TRAJECTORY, "criteria", REPLY),
    "pairwise": (*_OF_QUESTION, FIRST, SECOND, REPLY),
}
"""Names that a template can use. Question, reference and answers are fenced; without a reference, that is none."""
Which = Literal["only", "first", "last"]
"""Match of a pattern that counts. `only`: all matches must say the same."""


@dataclass(frozen=True, slots=True)
class VerdictField:
    """A part of a verdict: one of several labels, or a number."""

    name: str
    values: Mapping[str, float]
    """Value of each label; empty for a number."""
    words: Mapping[str, str] = field(default_factory=dict)
    """Label of other words that a judge without a constrained form may write, in lower case."""
    explained: int = 600
    """Longest explanation before the label, in characters; 0: none."""
    pattern: str = ""
    """Regular expression that finds the label in a free reply, as its group if it has one; "": the reply has regrade's form."""
    which: Which = "only"
    range: tuple[float, float] | None = None
    """Smallest and largest number; None for labels."""
    weights: Mapping[str, float] = field(default_factory=dict)
    """Weight of a label that counts more or less than once, of the two verdicts on a pair."""

    @property
    def is_free(self) -> bool:
        """The reply is read by a pattern."""
        return bool(self.pattern)


@dataclass(frozen=True, slots=True)
class Rubric:
    """A rubric."""

    name: str
    source: str
    """Paper or address of the method, or the name of the user's file."""
    template: str
    """Jinja template of the prompt; `NAMES` has the names that it can use. If its first line is `--- system`, `--- user` or
    `--- assistant`, it is several messages, each after such a line."""
    fields: tuple[VerdictField, ...]
    """Parts of the verdict; the first gives the headline number. Of `criteria`: the part that is repeated for each."""
    kind: Kind = "verdict"
    needs_reference: bool = False
    """Answers without a reference cannot be graded."""
    shares: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Named values: 1 for a verdict with one of these labels, else 0."""
    fenced: bool = True
    """The judge sees each text between marks that it does not contain."""
    schema: Mapping[str, Any] | None = None
    """JSON schema of a reply that is read by patterns; None: it has no form that a server would enforce."""

    @property
    def is_free(self) -> bool:
        """The reply is read by patterns, and the prompt says nothing of its form that is not in the template."""
        return self.fields[0].is_free

    @property
    def sha256(self) -> str:
        """Hash of everything that decides prompts and verdicts."""
        content: dict[str, Any] = {
            "template": self.template,
            "kind": self.kind,
            "needs_reference": self.needs_reference,
            "fields": [
                # A list, because the judge reads the labels in their order.
                {"name": f.name, "values": list(f.values.items()), "explained": f.explained}
                | ({"pattern": f.pattern, "which": f.which} if f.pattern else {})
                | ({"range": f.range} if f.range else {})
                | ({"weights": dict(f.weights)} if f.weights else {})
                for f in self.fields
            ],
        }
        content |= {} if self.fenced else {"fenced": False}
        content |= {} if self.schema is None else {"schema": self.schema}
        return hashlib.sha256(orjson.dumps(content, option=orjson.OPT_SORT_KEYS)).hexdigest()

    @property
    def scale(self) -> tuple[float, float]:
        """Worst and best value; 0 and 1 if all values are shares."""
        if self.kind != "verdict":
            return 0.0, 1.0
        values = self.fields[0].range or self.fields[0].values.values()
        is_share = min(values) >= 0 and max(values) <= 1
        return (0.0, 1.0) if is_share else (min(values), max(values))

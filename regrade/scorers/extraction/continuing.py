"""Find where an answer ends because the model goes on with another question: where its prompt's own template recurs."""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass

from regrade.scorers.extraction import columns as c
from regrade.scorers.extraction.pieces import Pieces

ROLES = (
    r"<\|im_start\|>(?:user|system)\b|<\|start_header_id\|>user|<\|user\|>|<start_of_turn>user\b"
    r"|<\|(?:im_end|endoftext|end_of_text|eot_id|end)\|>(?:\n|<|[A-Z])"
)
"""Turns of a chat or texts that follow, in the marks of chat templates, which some models write as text."""
COMMON = (
    r"#{1,6} *\**(?:Question|Problem|Instructions?|Task|Exercise|Example|Human|User|Input)\b|(?:Question|Problem|Example|Exercise)(?: [0-9]+)?:|Q:"
    r"|(?:Human|User|Instruction):|\[INST\]"
)
"""Begin of a question in common templates, at the start of a line, for answers whose template is not known."""
_COMMON_LINE = rf"\n[ \t]*(?:{COMMON})"
_STATED = (
    r"(?s)\A\s*\S+\s*\z|\\f?boxed\s*\{\s*[^\s}]|####[ \t]*\S|</[aA]nswer>|(?:\A|\n)[ *]*A:[ \t]*\S|\A[\s*]*\(?[A-J][).:]\s"
    r"|(?i:answer)[^\n.:=!?]{0,60}?(?:\b(?i:is|was|be|equals)\b|[:=])[^\n.!?]*[0-9A-Z(\\$\"']"
    r"|(?i:answer)(?: is|[\"'*]*:)[ \t*_\"']*[^\s]+\s*\z"
)
"""Text that has given an answer: a single word, or a slot or statement with something in it."""
_FIELD = re.compile(r"\{\{.*?(?:\}\}|\Z)|\{%.*?(?:%\}|\Z)|(?<!\{)\{[A-Za-z_]\w*\}(?!\})", re.DOTALL)
_LABEL = re.compile(
    r"[ \t]*(?:[#>*_]+[ \t]*)?[A-Za-z][\w ()/-]{0,40}:|[ \t]*#{1,6}[ \t]*[A-Za-z].*|[ \t]*([-=#*~_])\1{2,}"
)
_SENTENCE = 20
"""Least characters of a line of a template that is not a label, such as an instruction, to be recognised."""


@dataclass(frozen=True, slots=True)
class NextQuestion:
    """Patterns of the text with which a model begins another question; "" for none."""

    heading: str
    """Start of a question, such as `Question:`."""
    cue: str = ""
    """A whole question, from the blank line before it to its cue, such as `Answer:`; for templates without a heading."""


def of_template(template: str) -> NextQuestion | None:
    """Return the patterns of a prompt's template; None if the text has no fields, and so is only a name."""
    literals = _FIELD.split(template)
    if len(literals) == 1:
        return None
    return _of(literals[0], literals[-1], is_template=True)


def of_prompts(prompts: Sequence[str]) -> NextQuestion | None:
    """Return the patterns of some prompts: of what is the same in all of them; None if two different ones are not known."""
    different = sorted({re.sub(r"[0-9]+", "0", _last_message(prompt)) for prompt in prompts})
    if len(different) < 2:
        return None
    before = _same(different)
    after = _same([prompt[::-1] for prompt in different])[::-1]
    return _of(re.sub(r"(?<!\w)\w++\Z", "", before), after, is_template=False)


def _same(texts: Sequence[str]) -> str:
    """Return the beginning that all texts share."""
    first, last = min(texts), max(texts)  # what they share, all between them share
    return first[
        : next(
            (i for i, pair in enumerate(zip(first, last, strict=False)) if pair[0] != pair[1]),
            len(first),
        )
    ]


def _last_message(prompt: str) -> str:
    if prompt.startswith("["):
        try:
            messages = json.loads(prompt)
            return str(messages[-1]["content"])
        except (ValueError, TypeError, LookupError, RecursionError):
            return prompt
    return prompt


def _of(before: str, after: str, *, is_template: bool) -> NextQuestion:
    cue = _label(after.rstrip().rpartition("\n")[2])
    *earlier, line = before.split("\n")
    if not line.strip():
        line = next((text for text in reversed(earlier) if text.strip()), "")
    heading = _label(line)
    if heading is not None and heading != cue:
        return NextQuestion(rf"\n[ \t]*(?:{heading})")
    is_sentence = is_template and len(line.strip()) >= _SENTENCE
    sentence = rf"\n[ \t]*(?:{_escaped(line)})" if is_sentence else ""
    return NextQuestion(sentence, rf"\n[ \t]*\n[^\n]+(?:\n[^\n]+)*\n[ \t]*(?:{cue})" if cue else "")


def _label(line: str) -> str | None:
    """Return the pattern of the label with which a line begins, such as `Question 3:`; numbers may be others."""
    found = _LABEL.match(line)
    return _escaped(found[0]) if found else None


def _escaped(text: str) -> str:
    return re.sub(r"[0-9]+", "[0-9]+", re.sub(r"[^\w\s]", r"\\\g<0>", text.strip()))


def without_next_question(
    answers: Pieces, known: NextQuestion | None, is_completion: c.Mask
) -> Pieces:
    """Return answers up to the place at which the model begins another question.

    In a completion, the heading of the prompt's template ends an answer that has begun. In a chat, where models restate the
    question, and for imported answers, it ends an answer that has been stated.

    Args:
        answers: The answers.
        known: Patterns of the prompt's template; None if it is not known.
        is_completion: True for answers to a completion prompt.
    """
    answers = _cut(answers, ROLES, is_completion, enough=r"\S")
    if known is None:
        return _cut(answers, _COMMON_LINE, is_completion)
    if known.heading:
        answers = _cut(answers, known.heading, is_completion)
    elif c.is_any(is_completion):
        answers = _cut(answers.where(is_completion), _COMMON_LINE, is_completion).otherwise(answers)
    if known.cue and c.is_any(is_completion):
        ended = _cut(answers.where(is_completion), known.cue, c.negated(is_completion))
        answers = ended.otherwise(answers)
    return answers


def _cut(answers: Pieces, pattern: str, is_begun: c.Mask, enough: str = _STATED) -> Pieces:
    """Return answers up to the first match of a pattern, if there is text before it.

    Args:
        answers: The answers.
        pattern: Pattern of what ends an answer.
        is_begun: True for answers that end there if they have begun; for others the text before must match `enough`.
        enough: See `is_begun`.
    """
    more = answers.matches(pattern)
    if not c.is_any(more):
        return answers
    before = answers.where(more).trimmed().before_first(pattern)
    ends = c.either(before.matches(enough), c.both(is_begun, before.matches(r"\S")))
    return before.where(ends).otherwise(answers)

"""RealWorldQA: 765 questions about photographs, many of them taken from cars, with letters or words as answers.

Source:   xAI, announced with Grok-1.5 Vision, https://x.ai/blog/grok-1.5v
Dataset:  https://huggingface.co/datasets/xai-org/RealworldQA (split `test`). The newest commit is read, and recorded
Licence:  CC-BY-ND-4.0

The question is sent as it is: it holds its choices and asks for the letter, a word or a number, as in lmms-eval 0.7.3
(tests/scorers/test_peers.py). Choices are the lines `A. ...` of a question whose answer is one of their letters.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from regrade.benchmarks.questions.targets import LETTERS, RowError, question_text, text_target
from regrade.benchmarks.questions.visual import ImageQuestions
from regrade.settings import ScorerName

_CHOICE = re.compile(r"^([A-Z])\. *(\S[^\n]*)$", re.MULTILINE)


class RealWorldQa(ImageQuestions):
    """RealWorldQA in a chat."""

    name = "realworldqa"
    description = "Questions about photographs, with a letter, a word or a number as answer."
    paper = "https://x.ai/blog/grok-1.5v"
    scorers: tuple[ScorerName, ...] = ("choice_or_text",)
    hub_dataset, split = "xai-org/RealworldQA", "test"
    columns = ("image", "question", "answer")
    question_template = "{question}"

    def text(self, index: int, row: Mapping[str, Any]) -> str:
        """Return the question, which holds its choices."""
        return super().text(index, row).strip()

    def choices(self, index: int, row: Mapping[str, Any]) -> tuple[str, ...]:
        """Return the choices of a question whose answer is the letter of one."""
        found = _CHOICE.findall(question_text(index, row["question"]))
        letters = "".join(letter for letter, _ in found)
        answer = text_target(row["answer"]) or ""
        is_listed = bool(letters) and LETTERS.startswith(letters) and answer.strip() in [*letters]
        return tuple(text.strip() for _, text in found) if is_listed else ()

    def target(self, index: int, row: Mapping[str, Any], choices: Sequence[str]) -> str:  # noqa: ARG002 - the letter is the target
        """Return the letter, or the word or number."""
        target = text_target(row["answer"])
        if target is None:
            raise RowError(index, f"the answer is {row['answer']!r}; expected a text")
        return target.strip()


benchmark = RealWorldQa

"""OpenAI MRCR: 2,400 long conversations in which one of 2, 4 or 8 texts that were asked for in the same words has to be repeated.

Paper:    Vodrahalli et al. 2024, Michelangelo: Long Context Evaluations Beyond Haystacks, https://arxiv.org/abs/2409.12640
Dataset:  https://huggingface.co/datasets/openai/mrcr (split `train`). The newest commit is read, and recorded
Licence:  MIT

The conversation is sent as it is. It has 4 thousand to a million tokens: an answer whose prompt does not fit fails.
"""

from collections.abc import Mapping
from typing import Any

import orjson

from regrade.benchmarks.questions.samples import Question
from regrade.benchmarks.questions.standard import WrittenConversations
from regrade.benchmarks.questions.targets import RowError, plain_text, turns_of
from regrade.scorers.mrcr import START
from regrade.settings import SamplingParams, ScorerName


class Mrcr(WrittenConversations):
    """MRCR, as conversations."""

    name = "mrcr"
    description = "Long conversations of which one text has to be repeated, graded by similarity."
    paper = "https://arxiv.org/abs/2409.12640"
    scorers: tuple[ScorerName, ...] = ("mrcr",)
    hub_dataset, split = "openai/mrcr", "train"
    columns = ("prompt", "answer", START, "n_needles")
    question_template = "{prompt}"
    sampling = SamplingParams(temperature=0.0, max_tokens=8192)

    def read_row(self, index: int, row: Mapping[str, Any]) -> Question:
        """Return a question whose subset is the number of texts that were asked for in the same words."""
        start, target, needles = row[START], row["answer"], row["n_needles"]
        plain_text(index, START, start)
        if not isinstance(target, str) or not target.startswith(start):
            raise RowError(
                index,
                f"the answer is {str(target)[:60]!r}; expected a text that begins with {start!r}",
            )
        if not isinstance(needles, int):
            raise RowError(index, f"n_needles is {needles!r}; expected a number")
        prompt = row["prompt"]
        try:
            turns = orjson.loads(prompt) if isinstance(prompt, str) else None
        except orjson.JSONDecodeError:
            turns = prompt
        return Question(
            content={"prompt": prompt, "n_needles": needles},
            target=target,
            fields={"turns": turns_of(index, "the prompt", turns)},
            subset=f"{needles} needles",
            doc={START: start},
        )


benchmark = Mrcr

"""MT-Bench: 80 questions in eight categories, each with a second turn, graded from 1 to 10 by a judge model.

Paper:    Zheng et al. 2023, Judging LLM-as-a-Judge with MT-Bench and Chatbot Arena, https://arxiv.org/abs/2306.05685
Dataset:  https://huggingface.co/datasets/philschmid/mt-bench, the authors' `question.jsonl`
          (https://github.com/lm-sys/FastChat/tree/main/fastchat/llm_judge); a file in the same columns can replace it
Revision: the newest commit, which becomes part of the specification
Licence:  Apache-2.0

Each turn is sent as it is, the second after the model's own first answer. The judge rates each answer alone (rubric `mt_bench`),
that of the second turn in the whole conversation, and of mathematics, programming and reasoning against the reference, where the
file has one; the authors' judge had GPT-4's answers. Decoding is greedy for all categories, where the authors had temperatures from 0
to 0.7, and an answer may be twice as long.
"""

from collections.abc import Mapping
from typing import Any

from regrade.benchmarks.questions.samples import Question, UserTurn
from regrade.benchmarks.questions.standard import PublishedConversations
from regrade.benchmarks.questions.targets import RowError, plain_text, question_text
from regrade.records.specification import TURNS
from regrade.settings import SamplingParams, ScorerName

_WITH_REFERENCE = frozenset({"math", "coding", "reasoning"})
"""Categories whose judge gets the reference (`NEED_REF_CATS`)."""


class MtBench(PublishedConversations):
    """MT-Bench, as conversations with the model's own answers."""

    name = "mt_bench"
    description = "Questions with a second turn, graded from 1 to 10 by a judge."
    paper = "https://arxiv.org/abs/2306.05685"
    scorers: tuple[ScorerName, ...] = ("judge",)
    rubric = "mt_bench"
    hub_dataset, split = "philschmid/mt-bench", "train"
    columns = ("question_id", "category", "turns", "reference")
    sampling = SamplingParams(temperature=0.0, max_tokens=2048)

    @property
    def parameters(self) -> dict[str, Any]:
        """The most turns of a conversation."""
        return {TURNS: 2}

    def read_row(self, index: int, row: Mapping[str, Any]) -> Question:
        """Return a conversation, each turn with its reference as the target if the judge gets it."""
        category, texts = plain_text(index, "category", row["category"]), row["turns"]
        if not isinstance(texts, list) or not texts:
            raise RowError(index, f"turns is {texts!r}; expected a list of texts")
        given = row["reference"] or []
        if not isinstance(given, list) or not all(isinstance(text, str) for text in given):
            raise RowError(index, f"reference is {given!r}; expected a list of texts")
        if given and len(given) != len(texts):
            raise RowError(index, f"there are {len(texts)} turns, and {len(given)} references")
        if category not in _WITH_REFERENCE or not given:
            given = [""] * len(texts)
        turns = tuple(
            UserTurn(question_text(index, text), reference)
            for text, reference in zip(texts, given, strict=True)
        )
        return Question(
            content={TURNS: [turn.text for turn in turns], "question_id": str(row["question_id"])},
            target="\n\n".join(given).strip(),
            fields={TURNS: turns},
            subset=category,
        )


benchmark = MtBench

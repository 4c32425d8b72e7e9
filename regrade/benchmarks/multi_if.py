"""Multi-IF: conversations of up to three turns in eight languages, whose instructions a program can check and add up.

Paper:    He et al. 2024, Multi-IF: Benchmarking LLMs on Multi-Turn and Multilingual Instructions Following,
          https://arxiv.org/abs/2410.15553
Dataset:  https://huggingface.co/datasets/facebook/Multi-IF; 4,501 conversations
Revision: the newest commit, which becomes part of the specification
Licence:  CC-BY-NC-2.0

Each turn is sent as it is, after the model's own answers to those before it. A turn is right if its answer follows all
instructions so far (prompt-level, strict); the headline number is the mean over all turns, and each turn and each language has its
own. The checks are those of IFEval: where a language has no words between spaces, words are counted as IFEval does.
"""

import json
from collections.abc import Mapping
from typing import Any

from regrade.benchmarks.ifeval import read_instructions
from regrade.benchmarks.questions.samples import Question, UserTurn
from regrade.benchmarks.questions.standard import PublishedConversations
from regrade.benchmarks.questions.targets import RowError, plain_text, question_text
from regrade.records.specification import TURNS
from regrade.settings import SamplingParams, ScorerName

_MOST = 3
"""Turns of the longest conversation."""
_PARTS = ("prompt", "instruction_id_list", "kwargs")


class MultiIf(PublishedConversations):
    """Multi-IF, as conversations with the model's own answers."""

    name = "multi_if"
    description = "Conversations of up to three turns, with instructions that a program can check."
    paper = "https://arxiv.org/abs/2410.15553"
    scorers: tuple[ScorerName, ...] = ("ifeval",)
    hub_dataset, split = "facebook/Multi-IF", "train"
    columns = (
        *("key", "language"),
        *(f"turn_{number}_{part}" for number in range(1, _MOST + 1) for part in _PARTS),
    )
    sampling = SamplingParams(temperature=0.0, max_tokens=2048)

    @property
    def parameters(self) -> dict[str, Any]:
        """The most turns of a conversation."""
        return {TURNS: _MOST}

    def read_row(self, index: int, row: Mapping[str, Any]) -> Question:
        """Return a conversation, each turn with its instructions as `doc`; the subset is the language."""
        turns, content = [], []
        for number in range(1, _MOST + 1):
            prompt, names, given = (row[f"turn_{number}_{part}"] for part in _PARTS)
            if prompt in (None, "", "None"):
                break
            text = question_text(index, _content(index, prompt))
            instructions = read_instructions(
                index,
                {"instruction_id_list": _parsed(index, names), "kwargs": _parsed(index, given)},
            )
            doc = {"key": row["key"], "prompt": text, "instructions": instructions}
            content.append([text, instructions])
            turns.append(UserTurn(text, ", ".join(str(asked["id"]) for asked in instructions), doc))
        if not turns:
            raise RowError(index, "turn_1_prompt is empty; expected the user's first turn")
        return Question(
            content={TURNS: content, "key": str(row["key"])},
            target="",
            fields={TURNS: tuple(turns)},
            subset=plain_text(index, "language", row["language"]),
        )


def _content(index: int, prompt: object) -> object:
    """Return the text of a turn, which the dataset has as a message in JSON."""
    message = _parsed(index, prompt)
    return message.get("content") if isinstance(message, Mapping) else message


def _parsed(index: int, value: object) -> object:
    """Return a value, which the dataset has as JSON."""
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except ValueError as error:
        raise RowError(index, f"{value[:60]!r} is no JSON") from error


benchmark = MultiIf

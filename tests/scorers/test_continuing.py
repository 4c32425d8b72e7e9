"""An answer ends where the model begins another question: where its prompt's own template recurs."""

import json
from pathlib import Path

import pyarrow as pa
import pytest

from regrade.answers.local import LocalRepository
from regrade.records.specification import PromptIdentity
from regrade.scorers.extraction.continuing import (
    NextQuestion,
    of_prompts,
    of_template,
    without_next_question,
)
from regrade.scorers.extraction.pieces import Pieces
from regrade.settings import PromptFormat
from tests.builders import row
from tests.stored import publish, score

ZEROEVAL = (
    "## Question: \n\n{question}\n\n\n## Instruction \n\nShow your final answer in the `answer` field, "
    'e.g.,`"answer": "42"`.\n'
)


def ended(text: str, known: NextQuestion | None, prompt_format: str) -> str:
    pieces = Pieces.whole(pa.array([text]))
    is_completion = pa.array([prompt_format == "completion"])
    return str(without_next_question(pieces, known, is_completion).text[0]).strip()


@pytest.mark.parametrize("prompt_format", ["chat", "completion"])
def test_the_answer_of_a_template_is_not_read_from_a_question_that_the_model_made_up(
    tmp_path: Path, prompt_format: PromptFormat
) -> None:
    prompt = PromptIdentity(format=prompt_format, template=ZEROEVAL, n_shots=0)
    made_up = '{"answer": "5"}\n\n## Question: x\n\n## Instruction \n\ne.g., "answer": "42"'
    rows = [row(0, made_up, target="5"), row(1, '{"answer": "6"}', target="6")]
    answers = publish(LocalRepository(tmp_path / "answers"), rows, prompt=prompt)

    assert score(answers).summary.overall.accuracy == 1.0


def test_imported_answers_end_where_the_common_text_of_their_prompts_recurs(tmp_path: Path) -> None:
    prompt = PromptIdentity(format=None, template="as imported", n_shots=None)
    rows = [
        row(number, "So the answer is 5.\nAufgabe 8: Und 4 + 4?\nThe answer is 8.", target="5")
        | {"prompt": f"Aufgabe {number}: {question}?\nLösung:"}
        for number, question in enumerate(("Was ist 2 + 3", "Wie viel ist 1 + 4"))
    ]
    answers = publish(LocalRepository(tmp_path / "answers"), rows, prompt=prompt)

    assert score(answers).summary.overall.accuracy == 1.0


@pytest.mark.parametrize(
    ("template", "text", "reads"),
    [
        ("Problem: {question}\nAnswer:", " 5\n\nProblem: 2+2?\nAnswer: 4", "5"),
        ("Problem: {{ row['q'] }}\nAnswer:", " 5 eggs.\nProblem: 2+2?\nAnswer: 4", "5 eggs."),
        ("Q: {question}\nA:", "It is 5.\nQuestion: which? The 5.", "It is 5.\nQuestion: which? The 5."),
        ("{question}\n{choices}\nAnswer:", " B\n\nWhat is it?\nA. x\nB. y\nAnswer: C", "B"),
        ("{question}\n\nAnswer:", "So 2+3=5.\n\nThen 5+1=6.\nAnswer: 6", "So 2+3=5.\n\nThen 5+1=6.\nAnswer: 6"),
        ("### Problem 1\n{question}\n", "The answer is 5.\n### Problem 2\n2+2?", "The answer is 5."),
        ("---\n{question}\n", "The answer is 5.\n---\n2+2?\n4", "The answer is 5."),
        ("{question}", "5<|im_end|>\n<|im_start|>user\nAnd 6?", "5"),
    ],
)  # fmt: skip
def test_a_completion_ends_at_heading_separator_cue_and_role(
    template: str, text: str, reads: str
) -> None:
    known = of_template(template)

    assert ended(text, known, "completion") == reads


@pytest.mark.parametrize(
    "text",
    [
        "I restate it.\nQuestion: how many of the 3?\nAnswer: 7",
        "The answer must be a whole number.\nQuestion: how many of the 3?\nAnswer: 7",
        "Question: how many?\nThe answer is 7.",
    ],
)
def test_a_chat_that_restates_the_question_is_read_whole(text: str) -> None:
    assert ended(text, of_template("Question: {question}"), "chat") == text


def test_a_request_without_a_template_is_answered_by_the_whole_text() -> None:
    text = "Answer: yes\n\nQuestion: what is asked?\nAnswer: all of it"

    assert ended(text, of_template("{prompt}"), "chat") == text
    assert ended(text, None, "chat") == "Answer: yes"


def test_the_program_between_its_fences_is_no_heading_of_a_question() -> None:
    template = "Complete this function.\n\n```python\n{prompt}\n```"
    text = "The answer is 5:\n```python\ndef f(): ...\n```"

    assert ended(text, of_template(template), "chat") == text


def test_prompts_tell_their_heading_and_messages_the_one_of_their_last_turn() -> None:
    texts = [f"Solve.\n\nTask: {question}\nResult:" for question in ("Is it?", "It is!")]
    turns = [json.dumps([{"role": "user", "content": text}]) for text in texts]

    assert of_prompts(texts) == of_prompts(turns) == NextQuestion(r"\n[ \t]*(?:Task\:)")
    assert of_prompts(texts[:1]) is None
    assert of_template("lm_eval:gsm8k") is None

from pathlib import Path

import pytest

from regrade.benchmarks import open_benchmark
from regrade.benchmarks.gsm8k_chat import INSTRUCTION
from regrade.settings import PromptSettings
from regrade.settings.errors import SourceError
from tests.benchmarks.files import GSM8K_TEST, gsm8k_folder, write_jsonl

ZERO_SHOT = PromptSettings(n_shots=0)


def test_worked_examples_are_the_first_train_rows_without_annotations(tmp_path: Path) -> None:
    file = gsm8k_folder(tmp_path) / "test.jsonl"  # the split `train` lies beside it
    benchmark = open_benchmark("gsm8k", source=str(file), prompt=PromptSettings(n_shots=2))

    assert benchmark.prompt(benchmark.samples()[1]) == (
        "Question: One and one?\nAnswer: 1 + 1 = 2.\n#### 2\n\n"
        "Question: Two and two?\nAnswer: 2 + 2 = $4.\n#### 4\n\n"
        "Question: How cold is it?\nAnswer:"
    )


def test_a_completion_stops_at_the_next_question_and_a_chat_does_not() -> None:
    sampling = open_benchmark("gsm8k").sampling
    chat = open_benchmark("gsm8k", prompt=PromptSettings(format="chat")).sampling

    assert (sampling.stop, sampling.max_tokens) == (("\nQuestion:",), 512)
    assert chat.stop == ()


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        ({"question": "Q?", "answer": "#### many"}, "the target 'many' is not a number"),
        ({"question": "Q?", "answer": "#### "}, "the target '' is not a number"),
        ({"question": "Q?", "answer": "42"}, "expected a text that ends with `#### N`"),
        ({"question": "Q?", "answer": None}, "the answer is None"),
        ({"question": " ", "answer": "#### 1"}, "the question is ' '; expected a text"),
        ({"question": None, "answer": "#### 1"}, "the question is None; expected a text"),
    ],
)
def test_a_row_that_cannot_be_used_is_named(
    tmp_path: Path, row: dict[str, str | None], problem: str
) -> None:
    path = write_jsonl(tmp_path / "test.jsonl", [*GSM8K_TEST, row])

    with pytest.raises(SourceError) as error:
        open_benchmark("gsm8k", source=str(path), prompt=ZERO_SHOT).samples()

    assert "row 2 (from 0) of split 'test': " in str(error.value)
    assert problem in str(error.value)


def test_a_bad_worked_example_is_named_with_its_split(tmp_path: Path) -> None:
    gsm8k_folder(tmp_path)
    write_jsonl(tmp_path / "train.jsonl", [{"question": "Q?", "answer": "#### x"}])

    with pytest.raises(SourceError, match=r"row 0 \(from 0\) of split 'train': the target 'x'"):
        open_benchmark("gsm8k", source=str(tmp_path), prompt=PromptSettings(n_shots=1)).samples()


def test_a_chat_has_an_instruction_and_the_questions_and_ids_of_the_completion(
    tmp_path: Path,
) -> None:
    folder = str(gsm8k_folder(tmp_path))
    chat = open_benchmark("gsm8k_chat", source=folder)
    plain = open_benchmark("gsm8k", source=folder, prompt=ZERO_SHOT)

    prompt = chat.prompt(chat.samples()[1])

    assert prompt == ({"role": "user", "content": f"{INSTRUCTION}\n\nHow cold is it?"},)
    assert (chat.sampling.max_tokens, chat.sampling.stop) == (1024, ())
    assert chat.samples() == plain.samples()

from pathlib import Path

from regrade.benchmarks import open_benchmark
from regrade.benchmarks.gsm8k_chat import INSTRUCTION
from regrade.settings import PromptSettings
from tests.benchmarks.files import GSM8K_TEST, gsm8k_folder, write_jsonl


def test_a_question_is_asked_with_an_instruction_and_no_examples(tmp_path: Path) -> None:
    path = write_jsonl(tmp_path / "any.jsonl", GSM8K_TEST)
    benchmark = open_benchmark("gsm8k_chat", source=str(path))

    prompt = benchmark.prompt(benchmark.samples()[1])

    assert prompt == ({"role": "user", "content": f"{INSTRUCTION}\n\nHow cold is it?"},)
    assert benchmark.sampling.max_tokens == 1024
    assert benchmark.sampling.stop == ()


def test_examples_are_turns_and_the_instruction_stands_once(tmp_path: Path) -> None:
    benchmark = open_benchmark(
        "gsm8k_chat", source=str(gsm8k_folder(tmp_path)), prompt=PromptSettings(n_shots=1)
    )

    assert benchmark.prompt(benchmark.samples()[1]) == (
        {"role": "user", "content": f"{INSTRUCTION}\n\nOne and one?"},
        {"role": "assistant", "content": "1 + 1 = 2.\n#### 2"},
        {"role": "user", "content": "How cold is it?"},
    )


def test_questions_and_ids_are_those_of_gsm8k(tmp_path: Path) -> None:
    folder = str(gsm8k_folder(tmp_path))
    plain = open_benchmark("gsm8k", source=folder, prompt=PromptSettings(n_shots=0))

    assert open_benchmark("gsm8k_chat", source=folder).samples() == plain.samples()

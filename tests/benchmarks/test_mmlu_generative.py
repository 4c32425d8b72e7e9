from pathlib import Path

from regrade.benchmarks import open_benchmark
from regrade.benchmarks.mmlu_generative import INSTRUCTION
from regrade.settings import PromptSettings
from tests.benchmarks.files import mmlu_folder

ASKED = "q1\nA. north\nB. south\nC. None\nD. west"


def test_a_question_is_asked_with_an_instruction_and_no_examples(tmp_path: Path) -> None:
    benchmark = open_benchmark("mmlu_generative", source=str(mmlu_folder(tmp_path)))
    sample = benchmark.samples()[-1]

    instruction = INSTRUCTION.format(subject="astronomy")
    assert benchmark.prompt(sample) == ({"role": "user", "content": f"{instruction}\n\n{ASKED}"},)
    assert (benchmark.method, benchmark.scorers) == ("generate", ("choice_letter",))
    assert benchmark.labels(sample) == ()


def test_examples_answer_as_the_instruction_asks(tmp_path: Path) -> None:
    benchmark = open_benchmark(
        "mmlu_generative", source=str(mmlu_folder(tmp_path)), prompt=PromptSettings(n_shots=1)
    )

    messages = benchmark.prompt(benchmark.samples()[-1])

    assert messages[1:] == (
        {"role": "assistant", "content": "Answer: A"},
        {"role": "user", "content": ASKED},
    )


def test_as_plain_text_it_asks_like_mmlu(tmp_path: Path) -> None:
    folder = str(mmlu_folder(tmp_path))
    prompt = PromptSettings(n_shots=2, format="completion")
    text = open_benchmark("mmlu_generative", source=folder, prompt=prompt)
    ranked = open_benchmark("mmlu", source=folder, prompt=prompt)

    assert text.samples() == ranked.samples()
    for sample in text.samples():
        assert text.prompt(sample) == ranked.prompt(sample)
    assert text.sampling.stop == ("\n\n",)

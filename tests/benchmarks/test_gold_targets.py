"""Gold answers, in the form that the benchmark asks for, are right for all its scorers."""

from collections.abc import Callable, Sequence
from pathlib import Path

import pyarrow as pa
import pytest

from regrade.benchmarks import open_benchmark, open_dataset
from regrade.benchmarks.base import Benchmark
from regrade.benchmarks.questions.targets import LETTERS
from regrade.records import Completion, Sample
from regrade.records.columns import GENERATION_SCHEMA, generation_row
from regrade.settings import DatasetBenchmark, PromptSettings, ScorerName
from tests.benchmarks.files import shared, write_jsonl
from tests.benchmarks.rows import BENCHMARKS, FOLDERS
from tests.scorers.batches import batch_score

REAL = [("gsm8k", "gsm8k"), ("gsm8k_chat", "gsm8k"), ("mmlu", "mmlu"), ("mmlu_generative", "mmlu")]
Write = Callable[[Sample], str]


def accuracy(scorer: ScorerName, samples: Sequence[Sample], write: Write) -> float:
    """Share of samples whose gold answer (as text, or as the best label's log-probability) is scored as right."""
    rows = [
        generation_row(
            sample,
            0,
            Completion(
                key=number,
                prompt="",
                text=write(sample),
                finish_reason="stop",
                label_logprobs=tuple(
                    -0.1 if name == sample.target else -2.0
                    for name in LETTERS[: len(sample.choices)]
                ),
            ),
        )
        for number, sample in enumerate(samples)
    ]
    table = pa.Table.from_pylist(rows, schema=GENERATION_SCHEMA).combine_chunks()
    scored = batch_score(scorer)(table.to_batches()[0])
    assert scored.num_rows == len(samples)
    values = scored.column("value").to_pylist()
    return sum(values) / len(values)


def worked_solution(sample: Sample) -> str:
    return str(sample.fields["answer"])


def in_the_asked_form(benchmark: Benchmark) -> Write:
    if "math" in benchmark.scorers:
        return lambda sample: f"We see that $x=1$. So the answer is $\\boxed{{{sample.target}}}$."
    if benchmark.name.startswith("gsm8k"):
        return lambda sample: f"The answer follows.\n#### {sample.target}"
    return lambda sample: f"Let us see.\nAnswer: {sample.target}"


@pytest.mark.parametrize(("name", "folder"), REAL)
def test_the_target_in_the_asked_form_is_right(name: str, folder: str) -> None:
    benchmark = open_benchmark(name, source=str(shared(folder)), prompt=PromptSettings(n_shots=0))

    for scorer in benchmark.scorers:
        assert accuracy(scorer, benchmark.samples(), in_the_asked_form(benchmark)) == 1.0


@pytest.mark.parametrize("name", BENCHMARKS)
def test_the_target_in_the_asked_form_is_right_on_rows_like_the_real_ones(
    name: str, tmp_path: Path
) -> None:
    benchmark = open_benchmark(
        name, source=str(FOLDERS[name](tmp_path)), prompt=PromptSettings(n_shots=0)
    )

    for scorer in benchmark.scorers:
        assert accuracy(scorer, benchmark.samples(), in_the_asked_form(benchmark)) == 1.0


def test_the_solutions_that_gsm8k_itself_gives_are_right() -> None:
    benchmark = open_benchmark(
        "gsm8k", source=str(shared("gsm8k")), prompt=PromptSettings(n_shots=0)
    )

    for scorer in benchmark.scorers:
        assert accuracy(scorer, benchmark.samples(), worked_solution) == 1.0


def test_the_text_of_a_worked_completion_is_right() -> None:
    samples = open_benchmark(
        "mmlu_generative",
        source=str(shared("mmlu")),
        prompt=PromptSettings(n_shots=0, format="completion"),
    ).samples()

    assert accuracy("choice_letter", samples, lambda sample: f" {sample.target}") == 1.0


@pytest.mark.parametrize(
    "text", ["18", "2,125", "-10", "+7", "0.50", ".5", "3/4", "$1,200.50", "-$3", "5%"]
)
def test_every_number_that_may_be_a_target_is_one_for_the_scorers(
    tmp_path: Path, text: str
) -> None:
    path = write_jsonl(tmp_path / "a.jsonl", [{"question": "q", "answer": text}])

    for scorer in ("number", "number_strict"):
        settings = DatasetBenchmark(name="own", path=str(path), scorer=scorer)
        samples = open_dataset(settings).samples()
        assert accuracy(scorer, samples, lambda sample: f"#### {sample.target}") == 1.0
        assert accuracy(scorer, samples, lambda _: f"#### {text}") == 1.0


def test_an_exact_target_is_right(tmp_path: Path) -> None:
    rows = [{"question": "q", "answer": "New York"}, {"question": "r", "answer": "3.50"}]
    path = write_jsonl(tmp_path / "a.jsonl", rows)
    samples = open_dataset(DatasetBenchmark(name="own", path=str(path))).samples()

    assert accuracy("exact", samples, lambda sample: sample.target) == 1.0

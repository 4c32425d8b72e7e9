"""Prompts that are said to be a reference's, compared with the reference's own package."""

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from regrade.benchmarks import open_benchmark
from regrade.benchmarks.questions.targets import LETTERS
from tests.benchmarks.files import SHARED, Rows, write_parquet

CHOICES = (["left ", " right", "None", "0"], ["$20", " $ 20", "½", "a\tb"])
SUBJECTS = ("high_school_us_history", "virology")


def _made(split: str, subject: str, count: int) -> Iterator[dict[str, Any]]:
    for number in range(count):
        yield {
            "question": f" {split} {number} of {subject}, {{{{ braces }}}}\nwith lines? \n",
            "subject": subject,
            "choices": CHOICES[number % 2],
            "answer": number % 4,
        }


def written(folder: Path) -> Path:
    """Rows in the columns of the Hub dataset: hand-made ones of two subjects, and some of each other subject of the real ones."""
    dev: Rows = [row for subject in SUBJECTS for row in _made("dev", subject, 7)]
    test: Rows = [row for number in range(6) for row in _made("test", SUBJECTS[number % 2], 1)]
    test += [row for subject in SUBJECTS for row in _made("test", subject, 5)]
    if (real := SHARED / "mmlu").is_dir():
        others = pc.invert(pc.is_in(pc.field("subject"), pa.array(SUBJECTS)))
        tables = {
            split: pq.read_table(real / f"{split}.parquet", filters=others).to_pylist()
            for split in ("dev", "test")
        }
        dev += tables["dev"]
        taken = Counter[str]()
        for row in tables["test"]:
            taken[row["subject"]] += 1
            # The worked examples of 2 subjects have white space that makes all of their prompts differ.
            if taken[row["subject"]] <= 3 or any(c != c.strip() for c in row["choices"]):
                test.append(row)
    write_parquet(folder / "dev.parquet", dev)
    write_parquet(folder / "test.parquet", test)
    return folder


def test_the_harness_is_the_version_that_the_docs_name() -> None:
    docs = Path(__file__).parents[2] / "docs" / "benchmarks.md"

    assert f"lm-evaluation-harness {version('lm_eval')}" in docs.read_text()


def test_mmlu_asks_what_the_harness_asks_with_5_worked_examples(tmp_path: Path) -> None:
    benchmark = open_benchmark("mmlu", source=str(written(tmp_path)))
    samples = benchmark.samples()
    subjects = list(dict.fromkeys(sample.subset for sample in samples))

    harness = subprocess.run(
        [sys.executable, "-m", "tests.benchmarks.harness_mmlu", str(tmp_path), *subjects],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert harness.returncode == 0, harness.stderr
    asked = json.loads(harness.stdout)

    assert len(asked) == len(samples) > 10
    for sample, reference in zip(samples, asked, strict=True):
        assert benchmark.prompt(sample) == reference["context"]
        assert list(benchmark.labels(sample)) == reference["continuations"]
        assert LETTERS.index(sample.target) == reference["right"]

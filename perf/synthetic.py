"""Generate answers like those to GSM8K, 200 to 2,000 characters each, and store them in a local repository."""

import hashlib
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pyarrow as pa

from regrade.answers.local import LocalRepository
from regrade.answers.origin import SetDescription
from regrade.answers.parquet import seal_table
from regrade.answers.publishing import SetFiles, publish_files
from regrade.answers.sets import AnswerSet
from regrade.records.columns import GENERATION_SCHEMA
from regrade.records.specification import BenchmarkIdentity, ModelIdentity, PromptIdentity
from tests import builders

N_SENTENCES = 20_000
"""Different sentences that the answers are composed of."""
SHARD_ROWS = 40_000
"""Rows per file; similar to the files that a spool seals."""
_NAMES = ("Natalia", "Weng", "Betty", "Julie", "James", "Mark", "Albert", "Ken", "Tina", "Maila")
_THINGS = ("apples", "boxes", "pages", "dollars", "clips", "eggs", "hours", "tickets", "marbles")


def sentences(rng: np.random.Generator) -> list[str]:
    """Make sentences that are steps of a calculation."""
    texts = []
    for a, b, name, thing, form in rng.integers(2, 900, (N_SENTENCES, 5)).tolist():
        who, what = _NAMES[name % len(_NAMES)], _THINGS[thing % len(_THINGS)]
        texts.append(
            (
                f"{who} has {a} {what} and gets {b} more, so there are {a} + {b} = {a + b} {what}.",
                f"Each of the {a} {what} costs ${b}.00, which makes {a} * {b} = <<{a}*{b}={a * b}>>{a * b:,} in total.",
                f"After that {who} gives away {b} of them; we have to look at what is left over.",
                f"First, let us find out how many {what} {who} needs for {a % 30} weeks of {b % 7 + 1} days each.",
                f"That is {a / 4:.2f} {what} per day, because {a} / 4 = {a / 4:.2f}.",
            )[form % 5]
        )
    return texts


def answer_texts(n: int, seed: int) -> Iterator[tuple[str, str]]:
    """Yield answer and target; 80 % of the answers end in a known form, and 70 % give the target."""
    rng = np.random.default_rng(seed)
    steps = sentences(rng)
    for start in range(0, n, 10_000):
        size = min(10_000, n - start)
        lengths = rng.integers(200, 1_960, size).tolist()
        picks = rng.integers(0, N_SENTENCES, (size, 40)).tolist()
        targets = rng.integers(1, 20_000, size).tolist()
        kinds = rng.random((size, 2)).tolist()
        for length, pick, target, (kind, luck) in zip(lengths, picks, targets, kinds, strict=True):
            body = " ".join(steps[step] for step in pick)[:length]
            number = target if luck < 0.7 else target + 1
            yield f"{body}{_ending(kind, number)}", str(target)


def _ending(kind: float, number: int) -> str:
    if kind < 0.55:
        return f"\n#### {number}"
    if kind < 0.70:
        return f" The answer is ${number:,}.00."
    if kind < 0.80:
        return f"\nSo the final answer is \\boxed{{{number}}}."
    return f" So it is {number}" if kind < 0.97 else ""


def table(n: int, seed: int, start: int = 0) -> pa.Table:
    """Make `n` rows of `GENERATION_SCHEMA`."""
    pairs = list(answer_texts(n, seed))
    texts = [text for text, _ in pairs]
    question = "How much is it in total? " * 12
    columns = {
        "sample_id": [
            hashlib.blake2b(f"{seed}/{i}".encode(), digest_size=8).hexdigest() for i in range(n)
        ],
        "index": range(start, start + n),
        "repeat": [0] * n,
        "subset": [""] * n,
        "prompt": [f"Question {i}: {question}\nAnswer:" for i in range(start, start + n)],
        "prompt_kind": ["text"] * n,
        "prompt_truncated": [False] * n,
        "reasoning_open": [False] * n,
        "target": [target for _, target in pairs],
        "choices": [[]] * n,
        "text": texts,
        "finish_reason": ["stop" if i % 20 else "length" for i in range(n)],
        "prompt_tokens": [120] * n,
        "completion_tokens": [len(text) // 4 for text in texts],
        "time_to_first_token": [0.05] * n,
        "latency": [1.0 + i % 100 / 100 for i in range(n)],
    }
    missing = [None] * n
    filled = {name: columns.get(name, missing) for name in GENERATION_SCHEMA.names}
    return pa.table(filled, schema=GENERATION_SCHEMA)


def description(n: int, seed: int) -> SetDescription:
    """Description of the answer set."""
    model = ModelIdentity(name="synthetic", kind="imported", revision=str(seed))
    benchmark = BenchmarkIdentity(
        name="gsm8k", version=1, source="local", source_revision=str(n), split="test"
    )
    prompt = PromptIdentity(format="completion", template="", n_shots=0)
    return builders.description(n, benchmark=benchmark, model=model, prompt=prompt)


def write_answers(folder: Path, n: int, seed: int = 0) -> AnswerSet:
    """Write `n` answers to a local answer repository; answers that it already has are kept."""
    repository = LocalRepository(folder)
    staging = folder.with_name(folder.name + ".staging")
    staging.mkdir(parents=True, exist_ok=True)
    files = []
    for number, start in enumerate(range(0, n, SHARD_ROWS)):
        rows = table(min(SHARD_ROWS, n - start), seed + number, start)
        files.append(seal_table(rows, staging / f"{number}.parquet"))
    stamp = datetime.now(UTC).isoformat(timespec="seconds")
    (answers,) = publish_files(
        repository, [SetFiles(description(n, seed), files)], f"Synthetic answers, {stamp}"
    )
    for file in files:
        file.path.unlink()
    staging.rmdir()
    return answers

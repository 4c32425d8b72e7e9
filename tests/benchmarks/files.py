"""Small source files for benchmark tests, and the folder with the real questions."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

Rows = list[dict[str, Any]]
SHARED = Path(__file__).parents[2] / "../shared/data"

GSM8K_TRAIN: Rows = [
    {"question": "One and one?", "answer": "1 + 1 = <<1+1=2>>2.\n#### 2"},
    {"question": "Two and two?", "answer": "2 + 2 = $<<2+2=4>>4.\n#### 4"},
    {"question": "Three and three?", "answer": "3 + 3 = <<3+3=6>>6.\n#### 6"},
]
GSM8K_TEST: Rows = [
    {"question": "How many grams are 2 kg {about}?", "answer": "2 * 1000.\n#### 2,000"},
    {"question": "How cold is it?", "answer": "Below zero.\n#### -3"},
]


def mmlu_row(question: str, subject: str, answer: int = 1) -> dict[str, Any]:
    choices = ["north", "south", "None", "west"]
    return {"question": question, "subject": subject, "choices": choices, "answer": answer}


MMLU_DEV: Rows = [
    mmlu_row(f"dev {subject} {number}", subject, number)
    for subject in ("virology", "astronomy")
    for number in range(3)
]
MMLU_TEST: Rows = [
    mmlu_row("q0 with {braces}", "virology", 0),
    mmlu_row("q1", "astronomy", 1),
    mmlu_row("q2", "virology", 2),
    mmlu_row("q2", "virology", 2),
]


def write_jsonl(path: Path, rows: Rows) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def write_parquet(path: Path, rows: Rows) -> Path:
    pq.write_table(pa.Table.from_pylist(rows), path)
    return path


def gsm8k_folder(folder: Path) -> Path:
    write_jsonl(folder / "train.jsonl", GSM8K_TRAIN)
    write_jsonl(folder / "test.jsonl", GSM8K_TEST)
    return folder


def mmlu_folder(folder: Path) -> Path:
    write_parquet(folder / "dev.parquet", MMLU_DEV)
    write_parquet(folder / "test.parquet", MMLU_TEST)
    return folder


def shared(name: str) -> Path:
    """Folder of real questions; skips the test if the folder is missing."""
    folder = SHARED / name
    if not folder.is_dir():
        pytest.skip(f"the folder with the real questions is missing: {folder}")
    return folder

"""Table of the numbers that are compared with lm-evaluation-harness: `python -m tests.lm_eval.equality > table.md`.

A stand-in for a model answers; `--data FOLDER` adds GSM8K and MMLU with all their real questions.
"""

import argparse
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import datasets
import pyarrow.parquet as pq

from regrade.lm_eval.index import TaskEntry
from regrade.lm_eval.package import quiet
from regrade.lm_eval.plan import plan_tasks
from tests.lm_eval import rows
from tests.lm_eval.comparing import differences, ours, theirs
from tests.scorers.instructions.nltk_folder import write_nltk_data

Splits = Mapping[tuple[str, str | None], Mapping[str, datasets.Dataset]]


def table(index: Mapping[str, TaskEntry], data: Path | None) -> Iterator[str]:
    """Yield the lines of the table."""
    os.environ["DISABLE_MULTIPROC"] = "1"
    yield "| task | kind | values | differ |"
    yield "|---|---|---|---|"
    for spec in (*rows.STORED, *rows.QUICK, *rows.SLOW):
        datasets.load_dataset = rows.load_dataset
        yield _line(spec, spec, index, rows.datasets)
    for spec in ("gsm8k", "mmlu") if data is not None else ():
        splits = real_splits(data / spec)
        datasets.load_dataset = lambda path, name=None, s=splits, **_: s[path, name]
        whole = f"{spec}, all real questions"
        yield _line(spec, whole, index, lambda path, name, _, s=splits: s[path, name])


def _line(spec: str, shown: str, index: Mapping[str, TaskEntry], data: Any) -> str:
    with quiet():  # the harness prints while it bootstraps
        compared, different = differences(ours(spec, index, data), theirs(spec, index))
    configs = plan_tasks(spec.partition("@")[0], index).configs.values()
    kinds = sorted({str(config.get("output_type", "generate_until")) for config in configs})
    chat = ", in a chat" if "@chat" in spec else ""
    name = shown.replace("@chat", "")
    return f"| `{name}`{chat} | {', '.join(kinds)} | {compared:,} | {len(different)} |"


def real_splits(folder: Path) -> Splits:
    """Return the real questions of GSM8K or MMLU, as the datasets of the Hub hold them."""
    if folder.name == "gsm8k":
        lines = {s: (folder / f"{s}.jsonl").read_text().splitlines() for s in ("train", "test")}
        return {
            ("openai/gsm8k", "main"): {
                split: datasets.Dataset.from_list([json.loads(line) for line in text])
                for split, text in lines.items()
            }
        }
    tables = {s: pq.read_table(folder / f"{s}.parquet").to_pylist() for s in ("dev", "test")}
    return {
        ("cais/mmlu", subject): {
            split: datasets.Dataset.from_list([r for r in table if r["subject"] == subject])
            for split, table in tables.items()
        }
        for subject in sorted({row["subject"] for row in tables["test"]})
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path)
    arguments = parser.parse_args()
    with TemporaryDirectory() as nltk_data:  # for IFEval
        os.environ["NLTK_DATA"] = str(write_nltk_data(Path(nltk_data)))
        for line in table(rows.tasks_of_folders(), arguments.data):
            print(line, flush=True)  # noqa: T201

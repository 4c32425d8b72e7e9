"""MMLU requests that lm-evaluation-harness makes from local rows: `python -m tests.benchmarks.harness_mmlu FOLDER SUBJECT ...`.

Writes a JSON list in the order of subjects and rows: the context, the continuations to score, and the index of the right
one. In a process of its own, because the harness changes logging and its classes are patched here.
"""

import json
import sys
from itertools import groupby
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from datasets import Dataset
from lm_eval import tasks
from lm_eval.api.task import ConfigurableTask


def harness_requests(folder: Path, subjects: list[str]) -> list[dict[str, Any]]:
    rows = {
        split: pq.read_table(folder / f"{split}.parquet").to_pylist() for split in ("dev", "test")
    }

    def read_rows(task: ConfigurableTask, *_: object, **__: object) -> None:
        task.dataset = {
            split: Dataset.from_list(
                [row for row in rows[split] if row["subject"] == task.config.dataset_name]
            )
            for split in rows
        }

    ConfigurableTask.download = read_rows
    definitions = Path(tasks.__file__).parent / "mmlu" / "default"
    names = [f"mmlu_{subject}" for subject in subjects]
    manager = tasks.TaskManager(include_defaults=False, include_path=str(definitions))
    loaded = manager.load(names)["tasks"]
    made = []
    for name in names:
        task = loaded[name]
        task.set_config("num_fewshot", 5)
        task.set_fewshot_seed(1234)
        task.build_all_requests(rank=0, world_size=1)
        for _, group in groupby(task.instances, lambda instance: instance.doc_id):
            instances = list(group)
            (context,) = {instance.arguments[0] for instance in instances}
            made.append(
                {
                    "context": context,
                    "continuations": [instance.arguments[1] for instance in instances],
                    "right": task.doc_to_target(instances[0].doc),
                }
            )
    return made


if __name__ == "__main__":
    sys.stdout.write(json.dumps(harness_requests(Path(sys.argv[1]), sys.argv[2:])))

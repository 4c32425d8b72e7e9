"""Compare tasks of lm-evaluation-harness run by regrade with the harness and its vLLM backend.

    python -m perf.lm_eval_tasks --data FOLDER                 # letters and endings, 0-shot and 5-shot
    python -m perf.lm_eval_tasks --questions-per-task 8 --repetitions 1
    python -m perf.lm_eval_tasks --task hellaswag --shots 0 --extra block_size=128

vLLM's prefix cache on a CPU has blocks of 128 tokens, more than a context of `hellaswag` without examples has, so that nothing is shared; on a GPU they have
16. Regrade sets 32 on a CPU; the last line measures what that is worth.

Letters: `mmlu_virology` and `mmlu_professional_law`, real questions. Endings: `hellaswag`, whose rows are made of real texts of GSM8K in
HellaSwag's columns: contexts of 50 words and more, four endings of 8 to 30 words. Contexts and continuations are equal on both sides; see
`perf.multiple_choice` for what is measured.
"""

# ruff: noqa: PLC0415 - import time of the library is part of no measurement

import json
import shutil
from pathlib import Path
from typing import Any

from perf.measuring import RESULTS, arguments_of, data_folder, report
from perf.multiple_choice import compare

LETTERS = ("mmlu_virology", "mmlu_professional_law")
ENDINGS = "hellaswag"
GOALS = {"letters": 5.0, "endings": 2.0}
"""Lowest accepted speed-up."""


def letters(data: Path, task: str, count: int, folder: Path) -> Path:
    """Write questions of a subject of MMLU as the task reads them."""
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    folder.mkdir(parents=True, exist_ok=True)
    for split in ("test", "dev"):
        table = pq.read_table(data / "mmlu" / f"{split}.parquet")
        chosen = table.filter(pc.equal(table["subject"], pa.scalar(task.removeprefix("mmlu_"))))
        pq.write_table(chosen.slice(0, count), folder / f"{split}.parquet")
    return folder


def endings(data: Path, count: int, folder: Path) -> Path:
    """Write texts in the columns of HellaSwag."""
    folder.mkdir(parents=True, exist_ok=True)
    for split, name in (("validation", "test"), ("train", "train")):
        lines = (data / "gsm8k" / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()
        texts = [json.loads(line)["question"].split() for line in lines]
        texts = [words for words in texts if len(words) > 60][: count + 3]
        rows = [
            {
                "ind": number,
                "activity_label": "Counting",
                "ctx_a": " ".join(words[:50]),
                "ctx_b": "then",
                "endings": [
                    " ".join(other[50:80]) for other in (words, *texts[number + 1 : number + 4])
                ],
                "label": "0",
            }
            for number, words in enumerate(texts[:count])
        ]
        lines = [json.dumps(row) + "\n" for row in rows]
        (folder / f"{split}.jsonl").write_text("".join(lines), encoding="utf-8")
    return folder


def main() -> None:
    """Measure and report."""
    parser = arguments_of(__doc__, "--model", "--gpu", "--extra", "--data", "--repetitions")
    parser.add_argument("--questions-per-task", type=int, default=100)
    parser.add_argument("--task", action="append", choices=(*LETTERS, ENDINGS), default=[])
    parser.add_argument("--shots", type=int, nargs="+", default=[0, 5])
    parser.add_argument("--max-model-len", type=int, default=4096)
    options = parser.parse_args()
    options.data = data_folder(options.data)
    options.suffix = ""
    scratch = RESULTS / "lm_eval_tasks"
    rows: list[dict[str, Any]] = []
    for task in options.task or (*LETTERS, ENDINGS):
        count, folder = options.questions_per_task, scratch / task
        kind = "endings" if task == ENDINGS else "letters"
        questions = (
            endings(options.data, count, folder)
            if kind == "endings"
            else letters(options.data, task, count, folder)
        )
        found = compare(options, questions, scratch, f"lm_eval:{task}")
        rows += [{"task": task, "kind": kind, **row, "goal": GOALS[kind]} for row in found]
    shutil.rmtree(scratch)
    report("lm_eval_tasks", rows)


if __name__ == "__main__":
    main()

"""Measure the tools that `perf/scoring.py` compares with.

Runs in the environment .peers. The measurement starts after all imports, with the answers in memory (lm_eval) or in a log
file (inspect_ai), and ends with the metrics in memory (lm_eval) or in the log file (inspect_ai).
"""

# ruff: noqa: PLC0415 - each side imports only packages of its environment, and import time is not measured

import asyncio
import importlib.metadata
import json
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

Row = dict[str, str]


def lm_eval(rows: list[Row]) -> tuple[float, float]:
    """Run filters and metric of lm_eval's task `gsm8k`; return seconds and the accuracy of `flexible-extract`.

    The loop is that of `lm_eval.evaluator.evaluate`, without logging samples.
    """
    import datasets
    import yaml
    from lm_eval import tasks
    from lm_eval.api.instance import Instance
    from lm_eval.api.task import ConfigurableTask

    path = Path(tasks.__file__).parent / "gsm8k" / "gsm8k.yaml"
    config = yaml.safe_load(path.read_text())
    for key in ("tag", "dataset_path", "dataset_name", "training_split", "fewshot_split"):
        del config[key]
    docs = datasets.Dataset.from_list(
        [{"question": "", "answer": f"#### {row['target']}"} for row in rows]
    )
    config |= {"num_fewshot": 0, "custom_dataset": lambda **_: {"test": docs}}
    task = ConfigurableTask(config=config)
    documents = list(docs)
    task._instances = [
        Instance("generate_until", document, ("", {}), 0, resps=[row["text"]], doc_id=number)
        for number, (document, row) in enumerate(zip(documents, rows, strict=True))
    ]

    started = time.monotonic()
    task.apply_filters()
    values: dict[tuple[str, str], list[float]] = {}
    for name in task._instances[0].filtered_resps:
        for document, instance in zip(documents, task._instances, strict=True):
            scores = task.process_results(document, [instance.filtered_resps[name]])
            for metric, value in scores.items():
                values.setdefault((metric, name), []).append(value)
    means = {key: statistics.fmean(numbers) for key, numbers in values.items()}
    return time.monotonic() - started, means["exact_match", "flexible-extract"]


def inspect_ai(rows: list[Row]) -> tuple[float, float]:
    """Run `inspect score FILE --scorer match -S numeric=true --overwrite`; return seconds and accuracy."""
    from inspect_ai._cli.score import score
    from inspect_ai.dataset import Sample
    from inspect_ai.log import EvalSample, read_eval_log, write_eval_log
    from inspect_ai.model import ChatMessageUser, ModelOutput

    from inspect_ai import Task, eval as evaluate  # isort: skip

    with tempfile.TemporaryDirectory() as folder:
        task = Task(dataset=[Sample(input="?", target="0", id="one")], name="gsm8k")
        (log,) = evaluate(task, model="mockllm/model", log_dir=folder, display="none")
        log.samples = [
            EvalSample(
                id=number,
                epoch=1,
                input="?",
                target=row["target"],
                messages=[ChatMessageUser(content="?")],
                output=ModelOutput.from_content("mockllm/model", row["text"]),
            )
            for number, row in enumerate(rows, 1)
        ]
        log.eval.dataset.samples = len(rows)
        path = str(Path(folder) / "answers.eval")
        write_eval_log(log, path)

        arguments: dict[str, Any] = {
            "log_dir": folder,
            "log_file": path,
            "scorer": "match",
            "s": ("numeric=true",),
            "metric": None,
            "overwrite": True,
            "action": "overwrite",
            "log_level": "warning",
        }
        started = time.monotonic()
        asyncio.run(score(**arguments))
        seconds = time.monotonic() - started
        results = read_eval_log(path, header_only=True).results
    assert results is not None and results.total_samples == len(rows)  # noqa: PT018, S101
    return seconds, float(results.scores[0].metrics["accuracy"].value)


def measured(tool: str, path: str) -> dict[str, Any]:
    """Measure one tool with the answers in a file."""
    rows = [json.loads(line) for line in Path(path).read_text().splitlines()]
    seconds, accuracy = {"lm_eval": lm_eval, "inspect_ai": inspect_ai}[tool](rows)
    version = importlib.metadata.version(tool)
    return {"seconds": seconds, "accuracy": accuracy, "version": version}

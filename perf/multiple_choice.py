"""Compare ranking of choices in one pass with lm-evaluation-harness and its vLLM backend.

    python -m perf.multiple_choice --data FOLDER            # 570 questions, 0-shot and 5-shot
    python -m perf.multiple_choice --per-subject 1 --shots 0 --repetitions 1

Both sides get the same vLLM with the same arguments, and the same prompts and labels: those of the benchmark `mmlu`, the
first questions of each subject. Loading is excluded. Regrade is measured from `Plan.requests` to rows fsynced in the
spool, the harness in `VLLM.loglikelihood`, from requests to log-probabilities in memory. The sides take turns, and each
repetition starts a new engine, so that no prefix cache is warm.
"""

# ruff: noqa: PLC0415 - each side imports only packages of its environment, and import time is not measured

import argparse
import json
import os
import shutil
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from perf.measuring import RESULTS, arguments_of, call, data_folder, log_file, ratio, report, spread
from perf.workloads import CACHE, CACHE_BYTES

GOALS = {0: 5.0, 5: 12.0}
"""Lowest accepted speed-up, by number of shots."""
TIE = 1e-4
"""Difference of log-probabilities below which the order of two labels may change with the batch."""


def select(data: Path, per_subject: int, folder: Path) -> Path:
    """Write the first questions of each subject and the worked examples to a folder, as a source of `mmlu`."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pq.read_table(data / "test.parquet")
    seen: dict[str, int] = {}
    keep = []
    for subject in map(str, table["subject"].to_pylist()):
        seen[subject] = seen.get(subject, 0) + 1
        keep.append(seen[subject] <= per_subject)
    folder.mkdir(parents=True, exist_ok=True)
    pq.write_table(table.filter(pa.array(keep)), folder / "test.parquet")
    shutil.copyfile(data / "dev.parquet", folder / "dev.parquet")
    return folder


def ours(options: argparse.Namespace) -> list[dict[str, Any]]:
    """Rank the choices of all questions with regrade's engine; one result per number of shots."""
    from regrade.answers.spool import Spool
    from regrade.benchmarks import open_benchmark
    from regrade.engines.base import PromptRendering
    from regrade.engines.vllm import VllmEngine
    from regrade.jobs.generate import generate
    from regrade.jobs.plan import make_plan
    from regrade.settings import PromptSettings

    extra = (CACHE,) if options.cpu else ()
    settings = VllmEngine(max_model_len=options.max_model_len, extra=(*extra, *options.extra))
    model = settings.resolve(options.model)
    plans = []
    for shots in options.shots:
        prompt = PromptSettings(n_shots=shots)
        benchmark = open_benchmark(options.benchmark, prompt=prompt, source=str(options.questions))
        if options.suffix:
            _lengthen(benchmark, options.suffix)
        plans.append(make_plan(benchmark, model, settings, sampling=None, prompt=prompt, repeats=1))
    work = [plan.requests(plan.missing(set())) for plan in plans]
    found = []
    log = log_file("multiple_choice")
    engine = settings.open(model, requests=work, rendering=PromptRendering(), log=log)
    with tempfile.TemporaryDirectory() as folder, engine:
        for shots, requests in zip(options.shots, work, strict=True):
            with Spool(Path(folder) / str(shots)) as spool:
                progress = generate(requests, engine, spool, lambda _: None)
                (sealed,) = spool.seal()
                rows = _rows(sealed.path)
            found.append(
                {
                    "shots": shots,
                    "seconds": progress.seconds,
                    "prompt_tokens": progress.prompt_tokens,
                    "methods": sorted({method or "failed" for method, _ in rows.values()}),
                    "logprobs": [rows[sample.id][1] for sample, _ in requests.rows],
                }
            )
            if options.prompts:
                asked = [[request.prompt, request.labels] for request in requests]
                Path(options.prompts).with_suffix(f".{shots}.json").write_text(json.dumps(asked))
    return found


def measured(side: str, asked: Mapping[str, Any]) -> dict[str, Any]:
    """Measure a side in this process, with options of this script, and the `questions`, `prompts` and `benchmark` of `compare`."""
    os.environ.setdefault("VLLM_NO_USAGE_STATS", "1")
    return {"found": {"ours": ours, "theirs": theirs}[side](argparse.Namespace(**asked))}


def _rows(path: Path) -> dict[str, tuple[str, list[float]]]:
    """Read the label method and the log-probabilities of each sample."""
    import pyarrow.parquet as pq

    rows = pq.read_table(path, columns=["sample_id", "label_method", "label_logprobs"]).to_pylist()
    return {row["sample_id"]: (row["label_method"], row["label_logprobs"]) for row in rows}


def _lengthen(benchmark: Any, suffix: str) -> None:  # noqa: ANN401 - any benchmark
    """Append a text to all labels of a benchmark."""
    labels = benchmark.labels
    benchmark.labels = lambda sample: tuple(label + suffix for label in labels(sample))


def theirs(options: argparse.Namespace) -> list[dict[str, Any]]:
    """Rank the choices of the same prompts with lm-evaluation-harness; runs in the environment .peers."""
    from lm_eval.api.instance import Instance
    from lm_eval.models.vllm_causallms import VLLM

    cpu = {"dtype": "float32", "kv_cache_memory_bytes": CACHE_BYTES} if options.cpu else {}
    lm = VLLM(
        options.model,
        max_model_len=options.max_model_len,
        batch_size="auto",
        **{"dtype": "auto", **cpu, **dict(_pair(argument) for argument in options.extra)},
    )
    warm_up = [Instance("loglikelihood", {}, ("warm", " up"), 0) for _ in range(8)]
    lm.loglikelihood(warm_up)
    found = []
    for shots in options.shots:
        requests = json.loads(Path(options.prompts).with_suffix(f".{shots}.json").read_text())
        instances = [
            Instance("loglikelihood", {}, (prompt, label), number)
            for prompt, labels in requests
            for number, label in enumerate(labels)
        ]
        started = time.monotonic()
        results = lm.loglikelihood(instances)
        seconds = time.monotonic() - started
        values = (value for value, _ in results)
        logprobs = [[next(values) for _ in labels] for _, labels in requests]
        found.append({"shots": shots, "seconds": seconds, "logprobs": logprobs})
    return found


def _pair(text: str) -> tuple[str, Any]:
    import yaml

    name, _, value = text.partition("=")
    return name, yaml.safe_load(value)


def differing(ours: list[list[float]], theirs: list[list[float]]) -> dict[str, Any]:
    """Count questions with different labels, and those of them that are no ties."""
    pairs = list(zip(ours, theirs, strict=True))
    gaps = [
        max(our_values) - our_values[their_values.index(max(their_values))]
        for our_values, their_values in pairs
        if our_values.index(max(our_values)) != their_values.index(max(their_values))
    ]
    largest = max(
        abs(a - b)
        for our_values, their_values in pairs
        for a, b in zip(our_values, their_values, strict=True)
    )
    return {
        "differ": len(gaps),
        "differ, no tie": sum(gap > TIE for gap in gaps),
        "largest difference": float(f"{largest:.1e}"),
    }


def main() -> None:
    """Measure and report."""
    parser = arguments_of(__doc__, "--model", "--gpu", "--extra", "--data", "--repetitions")
    parser.add_argument("--per-subject", type=int, default=10)
    parser.add_argument("--shots", type=int, nargs="+", default=[0, 5])
    parser.add_argument("--max-model-len", type=int, default=8192)
    parser.add_argument(
        "--suffix",
        default="",
        help="append to each label; a label of several tokens is ranked with a pass of its own",
    )
    options = parser.parse_args()
    scratch = RESULTS / "multiple_choice"
    data = data_folder(options.data, "mmlu")
    questions = select(data, options.per_subject, scratch / "mmlu")
    rows = compare(options, questions, scratch)
    shutil.rmtree(scratch)
    report("multiple_choice", rows)


def compare(
    options: argparse.Namespace, questions: Path, scratch: Path, benchmark: str = "mmlu"
) -> list[dict[str, Any]]:
    """Measure both sides in turns; return a row per number of shots."""
    asked = {"questions": questions, "prompts": scratch / "prompts.json", "benchmark": benchmark}
    asked = vars(options) | asked
    seen: dict[str, list[list[dict[str, Any]]]] = {"ours": [], "theirs": []}
    for _ in range(options.repetitions):
        for side in seen:
            ran = call("perf.multiple_choice:measured", side, asked, peers=side == "theirs")
            seen[side].append(ran.document["found"])
            print(side, [round(result["seconds"], 2) for result in seen[side][-1]], flush=True)
    rows = []
    for number, shots in enumerate(options.shots):
        our_seconds = [run[number]["seconds"] for run in seen["ours"]]
        their_seconds = [run[number]["seconds"] for run in seen["theirs"]]
        last = {side: seen[side][-1][number] for side in seen}
        rows.append(
            {
                "shots": shots,
                "questions": len(last["ours"]["logprobs"]),
                "regrade, s": spread(our_seconds),
                "lm_eval, s": spread(their_seconds),
                "faster": ratio(their_seconds, our_seconds, 1),
                "goal": GOALS.get(shots, ""),
                "ranked by": json.dumps(last["ours"]["methods"]),
                **differing(last["ours"]["logprobs"], last["theirs"]["logprobs"]),
            }
        )
    return rows


if __name__ == "__main__":
    main()

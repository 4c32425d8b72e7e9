"""Compare the engine `openai` with `vllm bench serve`; measure the effect of requests in flight (`--table`).

    python -m perf.server                                 # request rates at 1, 16, 64 and 256 in flight
    python -m perf.server --table                         # accuracy, time per question, wall-clock, speed-up
    python -m perf.server --table --base-url http://127.0.0.1:8000 --served NAME --questions test.jsonl

Rates: both sides have the same prompts, output lengths and server, and take turns; a first round warms the server's
prefix cache. Regrade's rate is measured from the first request to the last completion; the rate of `vllm bench serve` is
its request throughput. It runs in the environment .peers, in which the CPU build is installed as `vllm`.

Table: `regrade evaluate --engine openai` with 1, 4 and 16 requests in flight, each into a new repository. Accuracy is
compared with that of the first row by the exact McNemar test over the questions on which the two differ.
"""

# ruff: noqa: PLC0415 - each side imports only packages of its environment, and import time is not measured

import argparse
import json
import shutil
import time
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from perf.measuring import RESULTS, arguments_of, call, folders_in, python, ratio, report, spread
from perf.serving import NAME, vllm_server
from perf.workloads import CACHE_BYTES, PROMPT, prompts, write_questions

GOAL = 0.95
"""Lowest accepted ratio of the two rates."""
SERVER_OPTIONS = (
    *("--dtype", "float32", "--max-model-len", "1024"),
    *("--kv-cache-memory-bytes", str(CACHE_BYTES)),
)


def ours(address: str, served: str, n: int, max_tokens: int, in_flight: int) -> dict[str, Any]:
    """Measure the engine `openai` in this process, and return the rate."""
    from regrade.engines.base import PromptRendering
    from regrade.engines.openai import OpenAIEngine
    from regrade.records import Request
    from regrade.settings import SamplingParams

    settings = OpenAIEngine(base_url=f"{address}/v1", max_concurrency=in_flight)
    model = settings.resolve(served)
    sampling = SamplingParams(max_tokens=max_tokens)
    texts = prompts(n)
    engine = settings.open(
        model, requests=(), rendering=PromptRendering(), log=RESULTS / "none.log"
    )
    with engine:
        requests = (Request(key, text, sampling) for key, text in enumerate(texts))
        started = time.monotonic()
        done = [completion for batch in engine.generate(requests) for completion in batch]
        seconds = time.monotonic() - started
    failed = sum(completion.error is not None for completion in done)
    tokens = sum(completion.completion_tokens or 0 for completion in done)
    return {"rate": n / seconds, "failed": failed, "tokens": tokens}


def theirs(options: argparse.Namespace, address: str, n: int, in_flight: int) -> dict[str, Any]:
    """Run `vllm bench serve`."""
    questions = write_questions(RESULTS / "server" / "prompts.jsonl", n)
    result = questions.with_name("bench.json")
    result.unlink(missing_ok=True)
    command = ["-m", "vllm.entrypoints.cli.main", "bench", "serve", "--backend", "openai"]
    command += ["--base-url", address, "--model", options.served, "--tokenizer", options.model]
    command += ["--dataset-name", "custom", "--dataset-path", str(questions)]
    command += ["--disable-shuffle", "--skip-chat-template", "--num-prompts", str(n)]
    command += ["--custom-output-len", str(options.max_tokens), "--temperature", "0"]
    command += ["--max-concurrency", str(in_flight), "--disable-tqdm", "--save-result"]
    command += ["--result-dir", str(result.parent), "--result-filename", result.name]
    python(*command, peers=True)
    measured = json.loads(result.read_text())
    return {
        "rate": measured["request_throughput"],
        "failed": n - measured["completed"],
        "tokens": measured["total_output_tokens"],
    }


def rates(options: argparse.Namespace, address: str) -> None:
    """Measure the request rates of both sides, and report."""
    rows = []
    for in_flight in options.in_flight:
        n = min(options.requests, max(64, 64 * in_flight))
        asked = ("perf.server:ours", address, options.served, n, options.max_tokens, in_flight)
        call(*asked)  # warms the prefix cache
        our_runs, their_runs = [], []
        for _ in range(options.repetitions):
            our_runs.append(call(*asked).document)
            their_runs.append(theirs(options, address, n, in_flight))
        our_rates, their_rates = ([run["rate"] for run in runs] for runs in (our_runs, their_runs))
        rows.append(
            {
                "in flight": in_flight,
                "requests": n,
                "regrade, 1/s": spread(our_rates, 1),
                "bench, 1/s": spread(their_rates, 1),
                "ratio": ratio(our_rates, their_rates, 3),
                "goal": GOAL,
                "failed": sum(run["failed"] for run in (*our_runs, *their_runs)),
                "tokens": f"{our_runs[-1]['tokens']:,} / {their_runs[-1]['tokens']:,}",
            }
        )
    report("server", rows)


def table(options: argparse.Namespace, address: str) -> None:
    """Evaluate with each number of requests in flight, and report."""
    from scipy.stats import binomtest

    scratch = RESULTS / "parallelism"
    shutil.rmtree(scratch, ignore_errors=True)
    rows: list[dict[str, Any]] = []
    first: dict[str, float] = {}
    for in_flight in options.table_in_flight:
        values, latency, seconds = evaluated(options, address, in_flight, scratch / str(in_flight))
        first = first or values
        changed = [(first[key], values[key]) for key in values if first[key] != values[key]]
        better = sum(now > before for before, now in changed)
        rows.append(
            {
                "in flight": in_flight,
                "questions": len(values),
                "accuracy": round(sum(values.values()) / len(values), 4),
                "s per question": round(latency, 4),
                "wall-clock, s": round(seconds, 2),
                "speed-up": round(rows[0]["wall-clock, s"] / seconds, 2) if rows else 1.0,
                "only then right / only now": f"{len(changed) - better} / {better}",
                "McNemar, p": float(binomtest(better, len(changed)).pvalue) if changed else 1.0,
            }
        )
    shutil.rmtree(scratch)
    report("parallelism", rows)


def evaluated(
    options: argparse.Namespace, address: str, in_flight: int, scratch: Path
) -> tuple[dict[str, float], float, float]:
    """Score of each question, mean latency and generation time in seconds of an evaluation."""
    import pyarrow.parquet as pq

    answers = scratch / "answers"
    command = ["-m", "regrade.cli.main", "evaluate", "--json", "--model", options.served]
    command += ["--answers", str(answers), "--engine", "openai", "--base-url", f"{address}/v1"]
    command += ["--max-concurrency", str(in_flight), "--max-tokens", str(options.max_tokens)]
    command += ["--dataset.name", "questions", "--dataset.path", str(options.questions)]
    command += ["--dataset.prompt", options.prompt, "--dataset.scorer", "number"]
    python(*command, environment=folders_in(scratch))
    (manifest,) = answers.glob("answers/*/*/*/manifest.json")
    (scores,) = answers.glob("scores/*/*/*/*.parquet")
    (session,) = json.loads(manifest.read_text())["sessions"]
    latencies: list[Any] = []
    for shard in manifest.parent.glob("*.parquet"):
        latencies += pq.read_table(shard, columns=["latency"])["latency"].to_pylist()
    scored = pq.read_table(scores, columns=["sample_id", "value"]).to_pydict()
    values = dict(zip(scored["sample_id"], scored["value"], strict=True))
    return values, sum(latencies) / len(latencies), session["generate_seconds"]


def main() -> None:
    """Measure and report."""
    parser = arguments_of(__doc__, "--model", "--repetitions")
    parser.add_argument("--base-url", help="URL of a running server, without `/v1`")
    parser.add_argument("--served", default=NAME, help="name of the model on the server")
    parser.add_argument("--in-flight", type=int, nargs="+", default=[1, 16, 64, 256])
    parser.add_argument(
        "--requests", type=int, default=2_000, help="largest number of requests per measurement"
    )
    parser.add_argument("--max-tokens", type=int, default=64)
    parser.add_argument("--table", action="store_true")
    parser.add_argument("--table-in-flight", type=int, nargs="+", default=[1, 4, 16])
    parser.add_argument("--questions", type=Path, default=Path("infra/demo/data/arithmetic.jsonl"))
    parser.add_argument("--prompt", default=PROMPT)
    options = parser.parse_args()
    given = nullcontext(options.base_url) if options.base_url else None
    with given or vllm_server(options.model, SERVER_OPTIONS) as address:
        (table if options.table else rates)(options, address)


if __name__ == "__main__":
    main()

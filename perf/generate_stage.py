"""Compare the generate stage of `regrade evaluate` (first request to last published answer) with `LLM.generate`.

    python -m perf.generate_stage                                  # 5,000 x 64 tokens and 20,000 x 1 token
    python -m perf.generate_stage --only "20,000 x 1" --repetitions 5 --profile

The demo model would end most answers after about 12 tokens. This script uses a copy of it that never ends an answer, so
that every answer has as many tokens as the workload's name says. Both sides have the same prompts, settings and vLLM,
and take turns. Loading is excluded, and every repetition starts a new engine, so that no prefix cache is warm. The stage
lasts from `started_at` of the manifest's session (before the first request) to the manifest's `updated_at` (all rows are
committed). `engine` is the time until the last row is in the spool. perf/engine_overhead.py measures the engine alone.
"""

# ruff: noqa: PLC0415 - each side imports only packages of its environment, and import time is not measured

import json
import os
import shutil
import statistics
import sys
import time
from datetime import datetime
from pathlib import Path

from perf.measuring import RESULTS, arguments_of, call, folders_in, python, ratio, report, spread
from perf.workloads import (
    CACHE_BYTES,
    ENGINE_OPTIONS,
    MAX_MODEL_LEN,
    evaluate_options,
    prompts,
    write_questions,
)

WORKLOADS = {"5,000 x 64": (5_000, 64, 1.02), "20,000 x 1": (20_000, 1, 1.02)}
"""Number of requests, tokens of each answer, and highest accepted ratio."""


def bare(model: str, n: int, max_tokens: int) -> dict[str, float]:
    """Run bare vLLM in this process and return the measurements."""
    from vllm import LLM, SamplingParams

    llm = LLM(
        model, dtype="float32", max_model_len=MAX_MODEL_LEN, kv_cache_memory_bytes=CACHE_BYTES
    )
    llm.generate(["warm up"] * 64, SamplingParams(temperature=0, max_tokens=2), use_tqdm=False)
    params = SamplingParams(temperature=0, max_tokens=max_tokens)
    texts = list(prompts(n))
    started = time.monotonic()
    outputs = llm.generate(texts, params, use_tqdm=False)
    seconds = time.monotonic() - started
    tokens = sum(len(output.outputs[0].token_ids) for output in outputs)
    return {"seconds": seconds, "tokens": tokens}


def ours(model: str, questions: Path, max_tokens: int, *, profile: bool) -> dict[str, float]:
    """Run `regrade evaluate` and return the times in its manifest."""
    scratch = questions.with_suffix("")
    shutil.rmtree(scratch, ignore_errors=True)
    answers = scratch / "answers"
    command = ["-m", "regrade.cli.main", "evaluate", "--json", "--model", model]
    command += ["--answers", str(answers)]
    command += [*evaluate_options(questions, max_tokens), *ENGINE_OPTIONS]
    if profile:
        flame = RESULTS / f"profile-{questions.stem}.txt"
        spy = ["record", "--subprocesses", "--format", "raw", "--rate", "50", "-o", str(flame)]
        command = ["-c", _SPY, *spy, "--", sys.executable, *command]
    ran = python(*command, environment=folders_in(scratch))
    (path,) = answers.glob("answers/*/*/*/manifest.json")
    manifest = json.loads(path.read_text())
    (session,) = manifest["sessions"]
    began, ended = (
        datetime.fromisoformat(text) for text in (session["started_at"], manifest["updated_at"])
    )
    shutil.rmtree(scratch)
    return {
        "seconds": (ended - began).total_seconds(),
        "engine": session["generate_seconds"],
        "tokens": session["completion_tokens"],
        "whole": ran.seconds,
        "load": session["load_seconds"],
    }


def endless(model: str) -> str:
    """Copy a checkpoint whose answers never end: its end token is the padding token, which it never generates."""
    folder = RESULTS / "generate" / "endless"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(model, folder)
    for name, changes in (
        ("config.json", {"eos_token_id": "pad_token_id"}),
        ("generation_config.json", {"eos_token_id": "pad_token_id"}),
        ("tokenizer_config.json", {"eos_token": "pad_token"}),
    ):
        content = json.loads((folder / name).read_text())
        content |= {key: content[other] for key, other in changes.items()}
        (folder / name).write_text(json.dumps(content))
    return str(folder)


_SPY = "import os, sys; os.execvp('py-spy', ['py-spy', *sys.argv[1:]])"


def main() -> None:
    """Measure and report."""
    parser = arguments_of(__doc__, "--repetitions")
    parser.add_argument("--model", help="instead of the copy of the demo model")
    parser.add_argument("--only", choices=[*WORKLOADS])
    parser.add_argument("--requests", type=int, help="instead of the workload's number")
    parser.add_argument("--profile", action="store_true", help="record our side with py-spy")
    options = parser.parse_args()
    model = options.model or endless("infra/demo/regrade-demo")
    rows = []
    for name, (requests, max_tokens, goal) in WORKLOADS.items():
        if options.only not in (None, name):
            continue
        n = options.requests or requests
        questions = write_questions(RESULTS / "generate" / f"{n}x{max_tokens}.jsonl", n)
        seen: dict[str, list[float]] = {"bare": [], "ours": [], "engine": [], "load": []}
        tokens = 0
        for _ in range(options.repetitions):
            reference = call("perf.generate_stage:bare", model, n, max_tokens).document
            stage = ours(model, questions, max_tokens, profile=options.profile)
            if reference["tokens"] != stage["tokens"]:
                print(
                    f"tokens differ: {reference['tokens']} and {stage['tokens']}", file=sys.stderr
                )
            tokens = int(reference["tokens"])
            times = (reference["seconds"], stage["seconds"], stage["engine"], os.getloadavg()[0])
            for name_of, value in zip(seen, times, strict=True):
                seen[name_of].append(value)
            print(f"{name}: {reference['seconds']:.2f} s, {stage}", file=sys.stderr)
        rows.append(
            {
                "workload": name,
                "n": n,
                "tokens": tokens,
                "bare, s": spread(seen["bare"]),
                "regrade, s": spread(seen["ours"]),
                "its engine, s": spread(seen["engine"]),
                "ratio": ratio(seen["ours"], seen["bare"], 3),
                "ratio of least": round(min(seen["ours"]) / min(seen["bare"]), 3),
                "goal": goal,
                "load average": round(statistics.median(seen["load"]), 1),
            }
        )
    report("generate_stage", rows)


if __name__ == "__main__":
    main()

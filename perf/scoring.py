"""Measure scoring: stored answers to published scores and metrics, compared with lm-evaluation-harness and Inspect.

    python -m perf.scoring                    # 600,000 answers; fewer for the peers, compared per row
    python -m perf.scoring --rows 20000 --peer-rows 500 --no-peers

Each repetition is a new process, on a copy of the repository without scores. The peers get the same texts and targets:
lm-evaluation-harness scores them like its task `gsm8k` (two filters, metric `exact_match`, the loop of `simple_evaluate`
without a model); Inspect scores a log file with `inspect score` and the scorer `match(numeric=True)`.
"""

import json
import shutil
import sys
import time
from pathlib import Path

from perf.measuring import RESULTS, arguments_of, call, ratio, report, spread
from perf.synthetic import answer_texts, write_answers
from regrade.answers.local import LocalRepository
from regrade.answers.publishing import publish_scores
from regrade.answers.sets import list_sets
from regrade.scoring.score import score_answers


def score(folder: str) -> dict[str, float | None]:
    """Score and publish all answers of a repository in this process, and return the measurements."""
    began = time.monotonic()
    repository = LocalRepository(Path(folder))
    (answers,) = list_sets(repository, str(repository.head()))
    scored = score_answers(answers, "number")
    if scored.table is None:
        sys.exit("the answers in this folder are already scored")
    publish_scores(repository, [(scored.answers, scored.file, scored.table)])
    seconds = time.monotonic() - began
    return {"seconds": seconds, "accuracy": scored.file.summary.overall.accuracy}


def measure(folder: Path, repetitions: int) -> dict[str, list[float]]:
    """Score copies of a repository, each in a new process."""
    seen: dict[str, list[float]] = {"seconds": [], "peak": [], "accuracy": [], "cpu": []}
    for _ in range(repetitions):
        copy = folder.with_name("copy")
        shutil.copytree(folder, copy, copy_function=shutil.copyfile)
        ran = call("perf.scoring:score", copy)
        shutil.rmtree(copy)
        seen["seconds"].append(ran.document["seconds"])
        seen["accuracy"].append(ran.document["accuracy"])
        seen["peak"].append(ran.peak_mib)
        seen["cpu"].append(ran.cpu_seconds)
    return seen


def main() -> None:
    """Measure and report."""
    parser = arguments_of(__doc__, "--repetitions")
    parser.add_argument("--rows", type=int, default=600_000)
    parser.add_argument("--peer-rows", type=int, default=3_000)
    parser.add_argument("--no-peers", action="store_true")
    options = parser.parse_args()
    scratch = RESULTS / "scoring"
    shutil.rmtree(scratch, ignore_errors=True)
    write_answers(scratch / "answers", options.rows)
    seen = measure(scratch / "answers", options.repetitions)
    rates = [options.rows / seconds for seconds in seen["seconds"]]
    rows = [
        {
            "tool": "regrade",
            "rows": options.rows,
            "seconds": spread(seen["seconds"]),
            "rows per second": spread(rates, 0),
            "peak MiB": spread(seen["peak"], 0),
            "CPU of the process, s": spread(seen["cpu"]),
            "accuracy": round(seen["accuracy"][0], 4),
        }
    ]
    if not options.no_peers:
        path = scratch / "answers.jsonl"
        with path.open("w") as file:
            for text, target in answer_texts(options.peer_rows, seed=0):
                file.write(json.dumps({"text": text, "target": target}) + "\n")
        rows += [
            peer(tool, path, options.peer_rows, options.repetitions, rates)
            for tool in ("lm_eval", "inspect_ai")
        ]
    shutil.rmtree(scratch)
    report("scoring", rows)


def peer(tool: str, path: Path, n: int, repetitions: int, ours: list[float]) -> dict[str, object]:
    """Row of a peer, with the ratio of regrade's rates to its rates."""
    runs = [call("perf.peer_scoring:measured", tool, path, peers=True) for _ in range(repetitions)]
    seconds = [ran.document["seconds"] for ran in runs]
    rates = [n / value for value in seconds]
    return {
        "tool": f"{tool} {runs[0].document['version']}",
        "rows": n,
        "seconds": spread(seconds),
        "rows per second": spread(rates, 0),
        "peak MiB": spread([ran.peak_mib for ran in runs], 0),
        "CPU of the process, s": spread([ran.cpu_seconds for ran in runs]),
        "accuracy": round(runs[0].document["accuracy"], 4),
        "regrade is faster": ratio(ours, rates, 1),
    }


if __name__ == "__main__":
    main()

"""Compare `regrade tune` with a full grid on this machine.

    python -m perf.tune                                # the demo model: 5 numbers in flight x 3 sizes of a step
    python -m perf.tune --model MODEL --questions FILE --in-flight 8,16,32,64,128,256 --tokens 4096,8192,16384,32768

The grid is `regrade sweep`, with one engine start for each size of a step and all questions at each point; what `tune` chose is
looked up in it. The ratio is the throughput of that point divided by the best of the grid, so that it says nothing about noise
between the two commands. Other work on the machine changes the throughput from start to start: run it on an idle one.
"""

import argparse
import json
import shutil
from pathlib import Path
from typing import Any

from perf.measuring import RESULTS, arguments_of, folders_in, python, report
from perf.workloads import CACHE, PROMPT

GOAL = 0.95
"""Lowest accepted ratio."""
MOST_STARTS = 4


def command(name: str, options: argparse.Namespace, answers: Path) -> list[str]:
    """Return the command line that `sweep` and `tune` share."""
    shared = ["-m", "regrade.cli.main", name, "--json", "--model", options.model]
    shared += ["--answers", str(answers), "--dataset.name", "questions"]
    shared += ["--dataset.path", str(options.questions), "--dataset.prompt", PROMPT]
    shared += ["--dataset.scorer", "number", "--max-tokens", str(options.max_tokens)]
    for extra in options.extra:
        shared += ["--engine.extra", extra]
    return [*shared, "--engine.enforce-eager"] if options.eager else shared


def run(arguments: list[str], scratch: Path) -> dict[str, Any]:
    """Run a command of regrade, and return its JSON document, which has several lines."""
    output = python(*arguments, environment=folders_in(scratch)).output
    document: dict[str, Any] = json.loads(output[output.index("{") :])
    return document


def rates(sweep: dict[str, Any]) -> dict[tuple[int, int], float]:
    """Return the throughput of each point of the grid, by requests in flight and tokens of a step."""
    found = {}
    for point in sweep["points"]:
        tokens = int(point["settings"]["engine.max_num_batched_tokens"])
        for measured in point["benchmarks"]:
            found[point["in_flight"], tokens] = measured["tokens_per_second"]
    return found


def main() -> None:
    """Measure and report."""
    parser = arguments_of(__doc__, "--model")
    parser.add_argument("--questions", type=Path, default=Path("infra/demo/data/arithmetic.jsonl"))
    parser.add_argument("--max-tokens", type=int, default=64)
    parser.add_argument("--in-flight", default="8,16,32,64,128")
    parser.add_argument(
        "--tokens", default="2048,4096,8192", help="the default of this machine in the middle"
    )
    parser.add_argument("--eager", action="store_true", help="start without compilation")
    parser.add_argument("--extra", nargs="*", default=[CACHE])
    options = parser.parse_args()
    scratch = RESULTS / "tune"
    shutil.rmtree(scratch, ignore_errors=True)
    most = options.in_flight.rpartition(",")[2]
    grid = command("sweep", options, scratch / "grid")
    grid += ["--in-flight", options.in_flight, "--engine.max-num-seqs", most]
    grid += ["--engine.max-num-batched-tokens", options.tokens]
    sweep = run(grid, scratch)
    tune = command("tune", options, scratch / "tuned")
    tuned = run([*tune, "--starts", str(MOST_STARTS), "--engine.max-num-seqs", most], scratch)

    by_point = rates(sweep)
    best = max(by_point, key=lambda point: by_point[point])
    tuning = tuned["tuning"]
    default = tuning["trials"][0]["settings"]["max_num_batched_tokens"]
    chosen = (tuning["in_flight"], tuning["settings"].get("max_num_batched_tokens", default))
    rate = by_point.get(chosen)
    report(
        "tune",
        [
            {
                "grid": f"{len(by_point)} points, {sweep['engine_starts']} starts",
                "best of the grid": f"{best[0]} in flight, {best[1]} tokens: {by_point[best]:.0f} tokens/s",
                "tune": f"{chosen[0]} in flight, {chosen[1]} tokens, {tuning['starts']} starts",
                "that point of the grid": "not in the grid"
                if rate is None
                else f"{rate:.0f} tokens/s",
                "ratio": None if rate is None else round(rate / by_point[best], 3),
                "goal": GOAL,
                "seconds of measuring": round(tuned["measure_seconds"], 1),
                "noise": f"{100 * tuning['spread']:.1f} %",
            }
        ],
    )
    shutil.rmtree(scratch)


if __name__ == "__main__":
    main()

"""This tree and an older commit, in turns: scoring of answers to GSM8K, programs and mathematical answers; generating with real vLLM.

    python -m perf.against COMMIT [--repetitions 3] [--only number code math] [--at-once]
    python -m perf.against COMMIT --only generate choice server --data FOLDER

Each repetition is a new process of `perf.scoring`, `perf.code_scoring` or `perf.math_scoring` of either tree, with the same Python and
packages; which tree is first changes each time. With `--at-once`, both run at the same time: what else the machine does then slows both.
`generate`, `choice` and `server` are regrade's sides of `perf.generate_stage`, `perf.multiple_choice` (0 and 5 examples) and `perf.server`
(64 requests in flight to one server).
Ends with 1 if the median ratio is above 1.05: that of CPU time, which other work on the machine changes little, and of elapsed time for
programs, whose processes end in namespaces that do not count them. Killed processes of mathematical answers are counted.
"""

import io
import json
import re
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from perf.measuring import ROOT, Ran, arguments_of, data_folder, python, ratio, report, spread
from perf.multiple_choice import select
from perf.server import SERVER_OPTIONS
from perf.serving import NAME, vllm_server

GOAL = 1.05
TREES = ("before", "now")
SCORING = ("number", "code", "math")
ENGINE = ("generate", "choice", "server")
MODEL = str(ROOT / "infra/demo/regrade-demo")
IN_FLIGHT = 64
PROGRAMS = {
    "number": """
from perf.scoring import score
found = score(Path(given["answers"]))
""",
    "generate": """
from perf.generate_stage import RESULTS, endless, ours, write_questions
n, tokens = given["requests"], 64
questions = write_questions(RESULTS / "generate" / f"{n}x{tokens}.jsonl", n)
found = ours(endless(given["model"]), questions, tokens, profile=False)
""",
    "choice": """
from argparse import Namespace
from perf.multiple_choice import ours
found = {"found": ours(Namespace(**given))}
""",
    "server": """
from perf.server import ours
found = ours(given["address"], given["served"], given["requests"], 64, given["in_flight"])
""",
}
"""Programs of either tree. A function of an older one may print what it found, and return nothing."""
_REAPING = """
import ctypes, os, sys
ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER
pid, code = os.spawnv(os.P_NOWAIT, sys.argv[1], sys.argv[1:]), 0
while True:
    try:
        ended, status = os.wait()
    except ChildProcessError:
        break
    if ended == pid:
        code = os.waitstatus_to_exitcode(status)
if code < 0:
    os.kill(os.getpid(), -code)
sys.exit(code)
"""
"""Runs a command, and counts the CPU time of processes whose parents were killed, too."""
Measured = Callable[[Path], Ran]


def unpack(commit: str, folder: Path) -> None:
    """Write the files of a commit into a folder."""
    packed = subprocess.run(
        ["git", "archive", commit], cwd=ROOT, stdout=subprocess.PIPE, check=True
    ).stdout
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        archive.extractall(folder, filter="data")


def in_tree(tree: Path, *arguments: str) -> Ran:
    """Run a module of a tree."""
    # The environment holds this tree as an installed package; what stands first is imported.
    reaped = ("-c", _REAPING, sys.executable, *arguments)
    return python(*reaped, folder=tree, environment={"PYTHONPATH": str(tree)})


def program(tree: Path, name: str, **given: object) -> Ran:
    """Run one of `PROGRAMS` in a tree."""
    begin = "import json, sys\nfrom pathlib import Path\ngiven = json.loads(sys.argv[1])"
    end = 'if found is not None: print("\\n" + json.dumps(found))'
    return in_tree(tree, "-c", f"{begin}{PROGRAMS[name]}{end}", json.dumps(given))


def measures(
    scratch: Path, *, rows: int, programs: tuple[int, int], answers: int
) -> dict[str, Measured]:
    """Return what is measured, by the name of the scorer."""

    def number(tree: Path) -> Ran:
        copy, written = scratch / f"copy-{tree.name}", scratch / f"answers-{tree.name}"
        if not written.exists():  # a folder has another form now and then
            make = "import sys; from pathlib import Path; from perf.synthetic import write_answers"
            write = f"{make}; write_answers(Path(sys.argv[1]), {rows})"
            in_tree(tree, "-c", write, str(written))
        shutil.copytree(written, copy, copy_function=shutil.copyfile)
        ran = program(tree, "number", answers=str(copy))
        shutil.rmtree(copy)
        return ran

    def code(tree: Path) -> Ran:
        questions, each = (str(count) for count in programs)
        options = ("--questions", questions, "--answers", each)
        return in_tree(tree, "-m", "perf.code_scoring", *options)

    def math(tree: Path) -> Ran:
        return in_tree(tree, "-m", "perf.math_scoring", "--answers", str(answers), "--naive", "0")

    return {"number": number, "code": code, "math": math}


def engine_measures(
    stack: ExitStack, scratch: Path, chosen: list[str], *, requests: int, data: Path | None
) -> dict[str, Measured]:
    """Return what is measured with real vLLM, by its name; a server runs until the stack ends."""
    found: dict[str, Measured] = {}
    if "generate" in chosen:
        found["generate"] = partial(program, name="generate", model=MODEL, requests=requests)
    if "choice" in chosen:
        asked: dict[str, Any] = {"model": MODEL, "cpu": True, "extra": (), "suffix": ""}
        asked |= {"questions": str(select(data_folder(data, "mmlu"), 10, scratch / "mmlu"))}
        asked |= {"prompts": None, "benchmark": "mmlu", "shots": (0, 5), "max_model_len": 8192}
        found["choice"] = partial(program, name="choice", **asked)
    if "server" in chosen:
        asked = {"served": NAME, "requests": requests, "in_flight": IN_FLIGHT}
        addresses: list[str] = []

        def server(tree: Path) -> Ran:
            if not addresses:  # no other engine runs beside it
                addresses.append(stack.enter_context(vllm_server(MODEL, SERVER_OPTIONS)))
                program(tree, "server", address=addresses[0], **asked)  # warms it
            return program(tree, "server", address=addresses[0], **asked)

        found["server"] = server
    return found


def seconds_of(name: str, ran: Ran) -> float:
    """Return the seconds that a script says that its work took, without imports, loading and making the answers."""
    if name in ("number", "generate"):
        return float(ran.document["seconds"])
    if name == "choice":
        return float(sum(result["seconds"] for result in ran.document["found"]))
    if name == "server":
        return 1 / float(ran.document["rate"])
    found = re.search(r" in ([\d.]+) s", ran.output)
    if found is None:
        sys.exit(f"{name}: no time in the output: {ran.output[-500:]}")
    return float(found[1])


def compare(
    name: str, measured: Measured, trees: dict[str, Path], repetitions: int, *, at_once: bool
) -> dict[str, Any]:
    """Return the row of a scorer, or of a way of generating."""
    seconds: dict[str, list[float]] = {tree: [] for tree in TREES}
    cpu: dict[str, list[float]] = {tree: [] for tree in TREES}
    for repetition in range(repetitions):
        order = TREES if repetition % 2 == 0 else TREES[::-1]
        with ThreadPoolExecutor(len(TREES) if at_once else 1) as pool:
            for tree, ran in zip(
                order, pool.map(measured, [trees[tree] for tree in order]), strict=True
            ):
                seconds[tree].append(seconds_of(name, ran))
                cpu[tree].append(ran.cpu_seconds)
                print(
                    f"{name} {tree}: {seconds[tree][-1]:.4g} s, CPU {cpu[tree][-1]:.2f} s",
                    flush=True,
                )
    return {
        "scorer": name,
        **{f"{tree}, s": spread(seconds[tree], 4) for tree in TREES},
        "ratio": ratio(seconds["now"], seconds["before"]),
        **{f"{tree}, CPU s": spread(cpu[tree]) for tree in TREES},
        "ratio of CPU": ratio(cpu["now"], cpu["before"]),
    }


def main() -> None:
    """Measure and report."""
    parser = arguments_of(__doc__, "--data", "--repetitions")
    parser.add_argument("commit")
    parser.add_argument("--at-once", action="store_true")
    parser.add_argument("--only", nargs="+", choices=(*SCORING, *ENGINE), default=SCORING)
    parser.add_argument("--rows", type=int, default=600_000)
    parser.add_argument("--programs", type=int, nargs=2, default=(164, 10), metavar="N")
    parser.add_argument("--answers", type=int, default=10_000)
    parser.add_argument("--requests", type=int, default=2_000)
    options = parser.parse_args()
    # Not in this checkout, whose tests read all programs in it.
    with TemporaryDirectory(prefix="regrade-against-") as folder, ExitStack() as stack:
        scratch = Path(folder)
        trees = {"before": scratch / "before", "now": ROOT}
        unpack(options.commit, trees["before"])
        known = measures(
            scratch, rows=options.rows, programs=tuple(options.programs), answers=options.answers
        ) | engine_measures(
            stack, scratch, options.only, requests=options.requests, data=options.data
        )
        found = [
            compare(name, known[name], trees, options.repetitions, at_once=options.at_once)
            for name in options.only
        ]
    report("against", found, commit=options.commit)
    if any(
        row["ratio" if row["scorer"] == "code" else "ratio of CPU"]["median"] > GOAL
        for row in found
    ):
        sys.exit(1)


if __name__ == "__main__":
    main()

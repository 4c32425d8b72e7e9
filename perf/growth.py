"""Measure the growth of time and peak memory: scoring of 10^4 to 10^6 answers, and 10^2 to 10^4 commits.

    python -m perf.growth                          # perf/results/growth.json
    python -m perf.growth --only score --score 10000 100000
    python -m perf.growth --only commits

Scoring: see perf/scoring.py. `slope` is the exponent of a power law between two sizes; 1 is linear.

Commits: each adds a shard of 20 rows and the manifest to a folder, without waiting for the disk. `seconds` is the CPU time of all, `ms`
that of one of the last hundred, `KiB` what one adds to `.regrade`; then the CPU time of commands in new processes: of the folder, of
its copy without `.regrade` (`bare`), and of a bare folder with as many answer sets (`sets`, up to 1,000).
"""

import hashlib
import math
import os
import shutil
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa

from perf.measuring import RESULTS, arguments_of, call, python, report
from perf.synthetic import description, table, write_answers
from regrade.answers.documents import json_bytes
from regrade.answers.local import LocalRepository
from regrade.answers.manifest import Shard
from regrade.answers.parquet import parquet_bytes

KINDS = ("score", "commits")
SHARD_ROWS = 20
LAST = 100


def commit(n: int, folder: str) -> dict[str, float]:
    """Make `n` commits to a folder in this process, and return the measurements."""
    os.fsync = lambda fd: None  # noqa: ARG005 - the signature of fsync
    repository = LocalRepository(Path(folder) / "answers")
    described = description(n * SHARD_ROWS + 1, 0)  # not complete: shards are not joined
    own = f"answers/{described.specification.folder}"
    empty = json_bytes(described.manifest((), (), datetime.now(UTC))).decode()
    rows = table(n * SHARD_ROWS, 0)
    listed: list[str] = []
    seconds: list[float] = []
    size, window = 0, min(LAST, n)
    for number in range(n):
        shard, content = shard_of(number, rows.slice(number * SHARD_ROWS, SHARD_ROWS))
        listed.append(shard.model_dump_json(indent=2))
        manifest = empty.replace('"shards": []', f'"shards": [{", ".join(listed)}]')
        manifest = manifest.replace('"rows": 0', f'"rows": {len(listed) * SHARD_ROWS}', 1)
        if number == n - window:
            size = _history_bytes(repository.folder)
        started = time.process_time()
        repository.commit(
            {f"{own}/{shard.name}": content, f"{own}/manifest.json": manifest.encode()},
            "answers",
            parent=repository.head(),
        )
        seconds.append(time.process_time() - started)
    each = (_history_bytes(repository.folder) - size) / window / 1024
    return {"seconds": sum(seconds), "ms": 1000 * sum(seconds[-window:]) / window, "KiB": each}


def shard_of(number: int, rows: pa.Table) -> tuple[Shard, bytes]:
    """Return a shard of rows, as a manifest lists it, and its content."""
    content = parquet_bytes(rows)
    sha256 = hashlib.sha256(content).hexdigest()
    name = f"part-{number:05d}-{sha256[:8]}.parquet"
    return Shard(name=name, rows=len(rows), bytes=len(content), sha256=sha256), content


def _history_bytes(folder: Path) -> int:
    """Return the size of commits and former contents; of checkpoints, only the newest two are kept."""
    files = (folder / ".regrade").rglob("*")
    return sum(f.stat().st_size for f in files if f.is_file() and f.parent.name != "checkpoints")


def read(n: int, folder: Path) -> dict[str, float]:
    """Return the CPU seconds of commands that read what `commit` made, and copies without history."""

    def seconds(command: str, *arguments: str) -> float:
        ran = python("-m", "regrade.cli.main", command, *arguments, "--quiet")
        return round(ran.cpu_seconds, 2)

    answers = folder / "answers"
    (answer_set,) = (path.parent.name for path in answers.glob("answers/*/*/*/manifest.json"))
    found = {
        "list": seconds("list", "--answers", str(answers)),
        "show": seconds("show", answer_set, "--answers", str(answers)),
        "verify": seconds("verify", "--answers", str(answers)),
    }
    shutil.rmtree(answers / ".regrade")
    found["list bare"] = seconds("list", "--answers", str(answers))
    shard, content = shard_of(0, table(1, 0))
    for seed in range(min(n, 1000)):
        described = description(1, seed)
        own = folder / "sets" / "answers" / described.specification.folder
        own.mkdir(parents=True)
        (own / shard.name).write_bytes(content)
        (own / "manifest.json").write_bytes(
            json_bytes(described.manifest((shard,), (), datetime.now(UTC)))
        )
    found["list sets"] = seconds("list", "--answers", str(folder / "sets"))
    return found


def measure(kind: str, n: int) -> dict[str, Any]:
    """Measure one size and return its row."""
    scratch = RESULTS / "growth"
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir(parents=True)
    more: dict[str, float] = {}
    if kind == "commits":
        ran = call("perf.growth:commit", n, scratch)
        more = {name: round(ran.document[name], 2) for name in ("ms", "KiB")} | read(n, scratch)
    else:
        write_answers(scratch / "answers", n)
        ran = call("perf.scoring:score", scratch / "answers")
    shutil.rmtree(scratch)
    seconds = round(ran.document["seconds"], 2)
    return {"kind": kind, "n": n, "seconds": seconds, "peak MiB": round(ran.peak_mib)} | more


def main() -> None:
    """Measure and report."""
    parser = arguments_of(__doc__)
    parser.add_argument("--score", type=int, nargs="+", default=[10_000, 100_000, 1_000_000])
    parser.add_argument("--commits", type=int, nargs="+", default=[100, 1_000, 10_000])
    parser.add_argument("--only", choices=KINDS)
    options = parser.parse_args()
    rows: list[dict[str, Any]] = []
    for kind in KINDS:
        if options.only not in (None, kind):
            continue
        for n in getattr(options, kind):
            row = measure(kind, n)
            if rows and rows[-1]["kind"] == kind:
                last = rows[-1]
                row["slope"] = round(
                    math.log(row["seconds"] / last["seconds"]) / math.log(n / last["n"]), 2
                )
            rows.append(row)
    report("growth", rows)


if __name__ == "__main__":
    main()

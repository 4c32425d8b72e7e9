"""Time and memory of the viewer's pages, over ASGI in one process: `python -m perf.viewing [ROWS ...]`.

CPU time is nearly independent of other work on the machine. The exit code is 1 if a goal is missed.
"""

import asyncio
import resource
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

from perf.measuring import call, report
from perf.synthetic import write_answers
from regrade.answers.local import LocalRepository
from regrade.answers.publishing import publish_scores
from regrade.answers.sets import list_sets
from regrade.pages.viewer.app import Viewer
from regrade.scoring.score import score_answers

ROWS = (14_000, 600_000)
PROCESSES, TIMES = 3, 5
"""Processes that measure, each of which asks for most pages several times; the medians count."""
FEW = 14_000
"""Most answers for which the goals of a small set hold."""
FIRST, SEARCH = "first page of answers", "text, first search"
PAGES = (
    (FIRST, "/sets/{id}", 1),
    ("sorted by length, first time", "/sets/{id}?sort=length&descending=yes", 1),
    ("sorted by seconds, filtered, first time", "/sets/{id}?verdict=wrong&sort=seconds", 1),
    ("sorted by what was read, first time", "/sets/{id}?sort=extracted", 1),
    ("sorted by length, another page", "/sets/{id}?sort=length&descending=yes&page=20", TIMES),
    ("filter and page", "/sets/{id}?verdict=wrong", TIMES),
    ("another page", "/sets/{id}?verdict=wrong&page=20", TIMES),
    ("two filters", "/sets/{id}?verdict=wrong&verdict=unparsed&min_length=300", TIMES),
    ("against a set of the same size", "/sets/{id}?against={id}&change=same", TIMES),
    (SEARCH, "/sets/{id}?q=pages+Weng+needs&within=answer", 1),
    ("text, next page", "/sets/{id}?q=pages+Weng+needs&within=answer&page=2", TIMES),
    ("one answer", "/sets/{id}/answer?sample={sample}&number=0&verdict=wrong", TIMES),
)
"""Names, addresses, and how often each is asked for."""


def goal(page: str, rows: int) -> dict[str, int]:
    """Return the highest accepted values of a page by their column; empty if it has none."""
    if page == SEARCH or (page == FIRST and rows > FEW):
        return {}  # all texts, or all columns, are decoded
    if page == FIRST:
        return {"wall ms": 1000}
    return {"CPU ms": 50 if rows <= FEW else 300}


MOST_MIB = 600


def main(arguments: list[str]) -> int:
    """Make answers in one process, measure the pages in another, and report milliseconds per page."""
    rows: list[dict[str, Any]] = []
    missed = []
    for size in map(int, arguments or ROWS):
        with tempfile.TemporaryDirectory() as folder:
            call("perf.viewing:make", folder, size)
            found = [call("perf.viewing:measured", folder).document for _ in range(PROCESSES)]
        peak = median(measured["peak_mib"] for measured in found)
        pages = [
            _middle(same) for same in zip(*(measured["pages"] for measured in found), strict=True)
        ]
        for page in [*pages, {"page": "peak of the process", "MiB": peak}]:
            most = {"MiB": MOST_MIB} if "MiB" in page else goal(page["page"], size)
            shown = ", ".join(f"{value} {column}" for column, value in most.items())
            rows.append({"answers": size, **page, "goal": shown})
            if any(page[column] > value for column, value in most.items()):
                missed.append(f"{page['page']} of {size:,} answers")
    report("viewing", rows)
    if missed:
        print("missed:", "; ".join(missed), file=sys.stderr)
    return bool(missed)


def _middle(pages: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the medians of a page in several processes."""
    times = {name: median(page[name] for page in pages) for name in ("wall ms", "CPU ms")}
    return {"page": pages[0]["page"], **times}


def make(folder: str, rows: int) -> None:
    """Write answers with their scores."""
    answers = write_answers(Path(folder) / "answers", rows)
    scored = score_answers(answers, "number", force=True)
    if scored.table is not None:
        publish_scores(answers.repository, [(answers, scored.file, scored.table)])


def measured(folder: str) -> dict[str, Any]:
    """Return the milliseconds of each page, and the peak of this process."""
    repository = LocalRepository(Path(folder) / "answers")
    head = repository.head()
    [answers] = list_sets(repository, str(head))
    sample = answers.shard(answers.manifest.shards[0], ["sample_id"]).take([0])
    given = {"id": answers.manifest.answer_set_id, "sample": sample["sample_id"][0].as_py()}
    app = Viewer(repository).application()
    asyncio.run(_get(app, "/"))  # imports, templates, manifests
    pages = []
    for name, path, times in PAGES:
        wall, cpu = _times(app, path.format(**given), times)
        pages.append({"page": name, "wall ms": round(wall), "CPU ms": round(cpu)})
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"pages": pages, "peak_mib": round(peak)}


def _times(app: Any, path: str, times: int) -> tuple[float, float]:  # noqa: ANN401 - an ASGI application
    """Return the median milliseconds of wall and CPU time."""
    walls, cpus = [], []
    for _ in range(times):
        wall, cpu = time.monotonic(), time.process_time()
        asyncio.run(_get(app, path))
        walls.append(1000 * (time.monotonic() - wall))
        cpus.append(1000 * (time.process_time() - cpu))
    return median(walls), median(cpus)


async def _get(app: Any, path: str) -> None:  # noqa: ANN401
    """Send a request to an ASGI application.

    Raises:
        RuntimeError: If its status is not 200.
    """
    name, _, query = path.partition("?")
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "GET",
        "scheme": "http",
        "path": name,
        "raw_path": name.encode(),
        "query_string": query.encode(),
        "root_path": "",
        "headers": [(b"host", b"127.0.0.1")],
        "server": ("127.0.0.1", 80),
        "client": ("127.0.0.1", 1),
    }
    status = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: dict[str, Any]) -> None:
        if message["type"] == "http.response.start":
            status.append((message["status"], message["headers"]))

    await app(scope, receive, send)
    if status[0][0] != 200:
        raise RuntimeError(f"{path}: {status[0]}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

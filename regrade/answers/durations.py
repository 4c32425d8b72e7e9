"""Time that each benchmark took last on this machine, for `regrade benchmarks`.

Kept in the cache folder, one small file per benchmark, so that listing needs no answer repository. The values are those of
the stored sessions.
"""

import logging
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import ValidationError

from regrade.settings import Seconds, StrictModel, Timestamp
from regrade.settings.files import cache_folder, write_atomically

if TYPE_CHECKING:  # `regrade benchmarks` does not need pyarrow
    from regrade.answers.manifest import Manifest

logger = logging.getLogger("regrade.generate")


class Duration(StrictModel):
    """Time of the last complete run of a benchmark with all of its questions."""

    benchmark: str
    model: str
    engine: str
    device: str | None
    rows: int
    """Answers: questions times repeats."""
    seconds: Seconds
    """Time to generate them, over all sessions of the run, without loading the model."""
    finished_at: Timestamp


def remember(manifest: "Manifest", finished_at: datetime) -> None:
    """Keep the time that a complete answer set took; sets with a limit, and imported ones, are not kept.

    A cache folder that cannot be written is logged.
    """
    benchmark = manifest.specification.benchmark
    sessions = [session for session in manifest.sessions if session.rows]
    if manifest.state != "complete" or benchmark.limit is not None or not sessions:
        return
    duration = Duration(
        benchmark=benchmark.name,
        model=manifest.specification.model.name,
        engine=sessions[-1].engine,
        device=sessions[-1].device,
        rows=manifest.rows,
        seconds=manifest.totals.seconds,
        finished_at=finished_at,
    )
    file = _folder() / f"{benchmark.name}.json"
    try:
        write_atomically(file, duration.model_dump_json().encode())
    except OSError as error:
        logger.warning(
            "the time of %s is not kept for `regrade benchmarks`: %s", benchmark.name, error
        )


def durations() -> dict[str, Duration]:
    """Return the kept times by benchmark."""
    kept = {}
    for file in sorted(_folder().glob("*.json")):
        try:
            duration = Duration.model_validate_json(file.read_bytes())
            kept[duration.benchmark] = duration
        except (OSError, ValidationError) as error:
            logger.warning("'%s' is left out: %s", file, error)
    return kept


def _folder() -> Path:
    return cache_folder() / "durations"

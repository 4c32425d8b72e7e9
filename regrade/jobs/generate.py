"""Generate the rows of a planned answer set into its spool."""

import logging
import secrets
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime
from itertools import chain
from time import monotonic

from regrade.answers.manifest import Session
from regrade.answers.spool import Spool
from regrade.engines.base import BaseEngineSettings, Engine, LimitedEngine
from regrade.jobs.plan import PlannedRequests
from regrade.records import Completion
from regrade.records.columns import generation_row
from regrade.settings.errors import EngineError
from regrade.settings.project_folder import VERSION
from regrade.stats.speed import GoodputCount

logger = logging.getLogger("regrade.generate")


@dataclass
class Progress:
    """Progress of generating an answer set; all counts are rows or tokens."""

    total: int
    done: int = 0
    resumed: int = 0
    """Rows from earlier sessions."""
    elsewhere: int = 0
    """Rows that other machines published meanwhile."""
    prompt_tokens: int = 0
    completion_tokens: int = 0
    failed: int = 0
    """Rows of this session whose request failed and may succeed if it is sent again."""
    refused: int = 0
    """Rows of this session whose request cannot succeed."""
    started: float = field(default_factory=monotonic)
    finished: float | None = None

    @property
    def seconds(self) -> float:
        """Seconds from the first request until the last row is on disk, or until now."""
        return (self.finished or monotonic()) - self.started

    @property
    def new(self) -> int:
        """Rows generated in this session."""
        return self.done - self.resumed - self.elsewhere

    @property
    def seconds_left(self) -> float | None:
        """Estimated seconds until the end, from the rate of all machines since the start; None before the first row."""
        since = self.done - self.resumed
        return (self.total - self.done) * self.seconds / since if since else None

    @property
    def tokens_per_second(self) -> float:
        """Completion tokens per second of this session."""
        return self.completion_tokens / self.seconds if self.seconds else 0.0


def generate(
    requests: PlannedRequests,
    engine: Engine,
    spool: Spool,
    on_progress: Callable[[Progress], None],
    goodput: GoodputCount | None = None,
    before_rows: Callable[[], None] | None = None,
) -> Progress:
    """Generate rows of an answer set into the spool. `on_progress` is called after rows are on disk.

    Requests that are withdrawn meanwhile may stay unanswered; a late answer to one is dropped.

    Args:
        requests: Requests of the missing rows.
        engine: The loaded engine.
        spool: Spool of the answer set, open.
        on_progress: Called with the counts so far.
        goodput: Counts the answers within limits.
        before_rows: Called with each batch of answers, before it is on disk.

    Raises:
        EngineError: If the engine ends early or answers an unknown request. Finished rows stay in the spool.
        SpoolError: If the spool cannot be written.
    """
    withheld = requests.plan.withheld
    stored = requests.plan.rows - len(requests)
    progress = Progress(requests.plan.rows, done=stored, resumed=stored)
    unanswered = set(range(len(requests)))
    varying = {sample.id for sample in requests.plan.samples if sample.by_repeat}
    impossible = [
        Completion(key, "", error=sample.error, error_permanent=True)
        for key, (sample, _) in enumerate(requests.rows)
        if sample.error is not None
    ]
    withdrawn: frozenset[int] = frozenset()

    def leave_out_withdrawn() -> None:
        nonlocal withdrawn
        if requests.withdrawn is not withdrawn:
            withdrawn = requests.withdrawn
            elsewhere = unanswered & withdrawn
            unanswered.difference_update(elsewhere)
            progress.done += len(elsewhere)
            progress.elsewhere += len(elsewhere)

    for batch in chain([impossible] if impossible else [], engine.generate(requests)):
        rows = []
        leave_out_withdrawn()
        finished_at = monotonic() - progress.started
        for completion in batch:
            if completion.key in withdrawn and completion.key not in unanswered:
                continue
            if completion.key not in unanswered:
                raise EngineError(
                    f"The engine answered request {completion.key}, which is unknown or already answered."
                )
            unanswered.remove(completion.key)
            sample, repeat = requests.rows[completion.key]
            if withheld is not None and sample.id in varying:
                completion = replace(completion, prompt="")  # noqa: PLW2901 - kept once for all repeats
            rows.append(generation_row(sample, repeat, completion, finished_at))
            progress.prompt_tokens += completion.prompt_tokens or 0
            progress.completion_tokens += completion.completion_tokens or 0
            if completion.error is not None and not (progress.failed or progress.refused):
                logger.warning("the first request that failed: %s", completion.error)
            if goodput is not None and completion.error is None:
                goodput.add(
                    completion.time_to_first_token, completion.latency, completion.completion_tokens
                )
            elif goodput is not None:
                goodput.add_failed()
            progress.failed += completion.error is not None and not completion.error_permanent
            progress.refused += completion.error is not None and completion.error_permanent
        if before_rows is not None:
            before_rows()
        if rows:
            spool.append(rows if withheld is None else withheld.take(rows))
        progress.done += len(rows)
        on_progress(progress)
    leave_out_withdrawn()
    if unanswered:
        raise EngineError(
            f"The engine ended with {len(unanswered)} of {len(requests)} requests unanswered."
        )
    progress.finished = monotonic()
    return progress


def session_of(
    engine: Engine,
    settings: BaseEngineSettings,
    *,
    day: date | None = None,
    mixed: tuple[str, ...] = (),
) -> Session:
    """Return the manifest's record of a generation session that begins now, without counts.

    Args:
        engine: The loaded engine.
        settings: Its settings.
        day: `PlannedRequests.day`.
        mixed: Accepted differences to what earlier sessions computed.
    """
    info = engine.info
    return Session(
        id=secrets.token_hex(6),
        started_at=datetime.now(UTC),
        regrade_version=VERSION,
        engine=info.engine,
        engine_version=info.version,
        device=info.device,
        dtype=info.dtype,
        max_model_len=info.max_model_len,
        chat_template_sha256=info.chat_template_sha256,
        prompt_day=day,
        reasoning_parser=info.reasoning_parser,
        structured_outputs=info.structured_outputs,
        computed=info.computed,
        mixed=mixed,
        in_flight=engine.in_flight if isinstance(engine, LimitedEngine) else None,
        memory=info.memory,
        # The adapter is part of the model's identity; a path of this machine would be published.
        engine_settings=settings.model_dump(mode="json", exclude={"lora"}),
        load_seconds=info.load_seconds,
    )

"""Generate the rows of planned answer sets into their spools."""

import logging
import secrets
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from time import monotonic
from typing import Any

from regrade.answers.manifest import Session
from regrade.answers.spool import Spool
from regrade.engines.base import BaseEngineSettings, CheckedEngine, Engine, LimitedEngine
from regrade.jobs.plan import PlannedRequests, PooledRequests
from regrade.records import Completion, Request
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
    stopped: bool = False
    """Rows that are missing are left out, because the verdict is sure."""
    prompt_tokens: int = 0
    completion_tokens: int = 0
    """Tokens of answers: generated, or of stored answers that were read."""
    lost_tokens: int = 0
    """Those of answers that failed, or were cut off where no more tokens were left."""
    failed: int = 0
    """Rows of this session whose request failed and may succeed if it is sent again."""
    refused: int = 0
    """Rows of this session whose request cannot succeed."""
    seconds: float = 0.0
    """The set's seconds of the session until its last answer: all of them, or its share if several sets share the engine."""
    shared: bool = False
    """The engine was given other sets, too, or answered more than these rows: see `Session.shared`."""

    @property
    def left_out(self) -> int:
        """Rows without an answer that nobody waits for; answers that were on their way make them fewer."""
        return self.total - self.done if self.stopped else 0

    @property
    def new(self) -> int:
        """Rows generated in this session."""
        return self.done - self.resumed - self.elsewhere

    @property
    def answered(self) -> int:
        """Rows of this session with an answer."""
        return self.new - self.failed - self.refused

    @property
    def finished(self) -> bool:
        """True if nothing is left to do: there is a row for every request, here or from another machine, or it is left out."""
        return self.done + self.left_out == self.total

    @property
    def seconds_left(self) -> float | None:
        """Estimated seconds of the engine until the end, from the rate of all machines since the start; None before the first row."""
        since = self.done - self.resumed
        return (self.total - self.done - self.left_out) * self.seconds / since if since else None

    @property
    def tokens_per_second(self) -> float | None:
        """Completion tokens per second of this session; None if others shared it, because a share of seconds has no speed."""
        return self.completion_tokens / self.seconds if self.seconds and not self.shared else None

    @property
    def speed_text(self) -> str:
        """`, 387 tokens/s`; empty if it is not known."""
        rate = self.tokens_per_second
        return "" if rate is None else f", {rate:,.0f} tokens/s"


class SharedClock:
    """Divides the seconds of a session among the answer sets that share its engine, by tokens; docs/speed.md defines it.

    The seconds of all sets always add up to those of the session.
    """

    def __init__(self, sets: int) -> None:
        self.seconds = [0.0] * sets
        """Seconds of each set so far. They only grow."""
        self._started = monotonic()
        self._tokens = [0] * sets

    def settle(self, tokens: Mapping[int, int], waiting: Collection[int]) -> None:
        """Divide the seconds since the last call.

        Args:
            tokens: Tokens of the answers that arrived, by set.
            waiting: Sets that wait for answers, or waited for these. The seconds of the others stay as they are.
        """
        for number, count in tokens.items():
            self._tokens[number] += count
        total = sum(self._tokens[number] for number in waiting)
        if not total:
            return
        now = monotonic() - self._started
        others = sum(s for number, s in enumerate(self.seconds) if number not in waiting)
        lacking = {
            n: max(0.0, (now - others) * self._tokens[n] / total - self.seconds[n]) for n in waiting
        }
        passed, lack = now - sum(self.seconds), sum(lacking.values())
        for number, seconds in lacking.items():
            if lack:
                self.seconds[number] += passed * seconds / lack


class Filling:
    """An answer set that an engine is generating: turns answers into rows of its spool, and counts them."""

    def __init__(
        self,
        requests: PlannedRequests,
        spool: Spool,
        on_progress: Callable[[Progress], None],
        goodput: GoodputCount | None = None,
        before_rows: Callable[[], None] = lambda: None,
        on_rows: Callable[[Sequence[dict[str, Any]]], None] = lambda _: None,
    ) -> None:
        """Begin.

        Args:
            requests: Requests of the missing rows.
            spool: Spool of the answer set, open.
            on_progress: Called with the counts so far, after rows are on disk.
            goodput: Counts the answers within limits.
            before_rows: Called with each batch of answers, before it is on disk.
            on_rows: Called with the rows of each batch, once they are on disk.
        """
        self.requests = requests
        self._spool, self._on_progress = spool, on_progress
        self._goodput, self._before_rows, self._on_rows = goodput, before_rows, on_rows
        asked = requests.plan.rows - requests.later
        stored = asked - len(requests)
        self.progress = Progress(asked, done=stored, resumed=stored)
        self.unanswered = set(range(len(requests)))
        """Keys of requests without a row, here or from another machine."""
        self._withdrawn: frozenset[int] = frozenset()
        self._varying = {s.id for s in requests.plan.samples if s.by_repeat or s.previous}

    def leave_out_withdrawn(self) -> None:
        """Count the rows that other machines published since the last call. Of a set that is stopped, late answers still count."""
        self.progress.stopped = self.requests.stopped
        if not self.progress.stopped and self.requests.withdrawn is not self._withdrawn:
            self._withdrawn = self.requests.withdrawn
            gone = self.unanswered & self._withdrawn
            self.unanswered.difference_update(gone)
            self.progress.done += len(gone)
            self.progress.elsewhere += len(gone)

    def take(self, batch: Sequence[tuple[int, Completion]], seconds: float) -> None:
        """Write rows for answers.

        Args:
            batch: Keys and answers.
            seconds: Seconds of this set so far.

        Raises:
            EngineError: If the engine answers a request twice.
            SpoolError: If the spool cannot be written.
        """
        progress, plan = self.progress, self.requests.plan
        progress.seconds = seconds
        rows = []
        left = deque(batch)
        while left:
            key, completion = left.popleft()
            if key in self._withdrawn and key not in self.unanswered:
                continue
            if key not in self.unanswered:
                raise _unknown(completion)
            self.unanswered.remove(key)
            sample, repeat = self.requests.rows[key]
            if plan.withheld is not None and sample.id in self._varying:
                completion = replace(completion, prompt="")  # kept once for all repeats
            rows.append(generation_row(sample, repeat, completion, seconds))
            self._count(completion)
            following = self.requests.answered(key, rows[-1])
            if following is not None:
                left.append((following.key, following))
        self._before_rows()
        if rows:
            self._spool.append(rows if plan.withheld is None else plan.withheld.take(rows))
            self._on_rows(rows)
        progress.done += len(rows)
        self._on_progress(progress)

    def _count(self, completion: Completion) -> None:
        progress, goodput = self.progress, self._goodput
        progress.prompt_tokens += completion.prompt_tokens or 0
        read = completion.token_logprobs
        progress.completion_tokens += (
            completion.completion_tokens or 0 if read is None else len(read)
        )
        cut = completion.finish_reason == "length" and completion.label_logprobs is None
        if cut or completion.error is not None:
            progress.lost_tokens += completion.completion_tokens or 0
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


def _unknown(completion: Completion) -> EngineError:
    return EngineError(
        f"The engine answered request {completion.key}, which is unknown or already answered."
    )


def fill(
    fillings: Sequence[Filling], engine: Engine, on_complete: Callable[[int], None] = lambda _: None
) -> None:
    """Generate several answer sets with one stream of requests, so that the engine is full until the last of them.

    Requests that are withdrawn meanwhile may stay unanswered. A late answer to one is dropped if another machine has published
    its row, and kept if its set is stopped: such a set waits for late answers until the engine has ended the stream.

    Args:
        fillings: The answer sets, in the order of their requests.
        engine: The loaded engine.
        on_complete: Called with the number of a set when its last row is on disk, while the others go on.

    Raises:
        EngineError: If the engine ends early or answers an unknown request. Finished rows stay in the spools.
        SpoolError: If a spool cannot be written.
    """
    pool = PooledRequests(tuple(filling.requests for filling in fillings))
    clock, incomplete = SharedClock(len(fillings)), {*range(len(fillings))}
    for filling in fillings:
        filling.progress.shared = len(fillings) > 1

    def advance(
        batches: Mapping[int, Sequence[tuple[int, Completion]]], *, ended: bool = False
    ) -> None:
        for number in incomplete:
            fillings[number].leave_out_withdrawn()
        stopped = {n for n in incomplete if fillings[n].progress.stopped}
        clock.settle(
            {n: sum(_tokens(c) for _, c in batches[n]) for n in incomplete & batches.keys()},
            incomplete - (stopped - batches.keys()),
        )
        for number, batch in batches.items():
            fillings[number].take(batch, clock.seconds[number])
        done = {n for n in incomplete if not fillings[n].unanswered}
        for number in sorted(done | stopped if ended else done):
            incomplete.remove(number)
            on_complete(number)

    impossible = {n: [*filling.requests.unasked()] for n, filling in enumerate(fillings)}
    advance({n: known for n, known in impossible.items() if known})
    stream: Iterable[Request] = pool
    try:
        while stream:
            for batch in engine.generate(stream):
                batches: dict[int, list[tuple[int, Completion]]] = {}
                for completion in batch:
                    place = pool.place(completion.key)
                    if place is None:
                        raise _unknown(completion)
                    batches.setdefault(place[0], []).append((place[1], completion))
                advance(batches)
            advance({})
            stream = pool.ready(len(pool))  # of an engine that did not ask for them
    except EngineError:
        advance({}, ended=True)  # another engine need not ask what a sure verdict left out
        raise
    advance({}, ended=True)
    if incomplete:
        left = sum(len(fillings[number].unanswered) for number in incomplete)
        raise EngineError(f"The engine ended with {left} of {len(pool)} requests unanswered.")


def _tokens(completion: Completion) -> int:
    """Return the tokens of prompt and answer, and one more: an engine may not know them."""
    return 1 + (completion.prompt_tokens or 0) + (completion.completion_tokens or 0)


def generate(
    requests: PlannedRequests, engine: Engine, spool: Spool, on_progress: Callable[[Progress], None]
) -> Progress:
    """Generate rows of a single answer set; see `Filling` and `fill`."""
    filling = Filling(requests, spool, on_progress)
    fill([filling], engine)
    return filling.progress


def session_of(
    engine: Engine,
    settings: BaseEngineSettings,
    *,
    day: date | None = None,
    mixed: tuple[str, ...] = (),
    sets: int = 1,
) -> Session:
    """Return the manifest's record of a generation session that begins now, without counts.

    Args:
        engine: The loaded engine.
        settings: Its settings.
        day: `PlannedRequests.day`.
        mixed: Accepted differences to what earlier sessions computed.
        sets: Answer sets that the engine answers in one stream.
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
        weights=info.weights,
        batches=engine.batches if isinstance(engine, CheckedEngine) else None,
        mixed=mixed,
        sets=sets,
        in_flight=engine.in_flight if isinstance(engine, LimitedEngine) else None,
        memory=info.memory,
        # The adapter is part of the model's identity; a path of this machine would be published.
        engine_settings=settings.model_dump(mode="json", exclude={"lora"}),
        load_seconds=info.load_seconds,
    )

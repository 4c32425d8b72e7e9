"""Measure an engine with real questions; new answers go into the spool, as those of any generation."""

import logging
from time import monotonic

from regrade.answers.origin import note_speed
from regrade.engines.base import BaseEngineSettings, Engine, LimitedEngine, MeasuredEngine
from regrade.jobs.generate import Progress, generate, session_of
from regrade.jobs.plan import PlannedRequests
from regrade.settings.errors import EngineError, SettingsError
from regrade.tuning.search.trials import Rung
from tasks.work import Work

logger = logging.getLogger("regrade.tune")
WAVES = 4
"""Questions per request in flight: at the end of a measurement, when less and less are left, the engine is not full."""
FEWEST = 32
"""Fewest questions of a measurement."""


class Questions:
    """The questions of an answer set: first those without an answer, then all of them again and again."""

    def __init__(self, work: Work) -> None:
        self._missing = list(work.requests.rows)
        self._all = work.plan.missing(set())
        self._next = 0
        self.made = 0
        """Answers generated that the answer set did not have."""

    @property
    def total(self) -> int:
        """All questions, answered or not."""
        return len(self._all)

    def take(self, n: int, work: Work) -> tuple[PlannedRequests, bool]:
        """Return the next requests, and True if their answers are missing in the answer set.

        Args:
            n: Questions.
            work: The answer set.
        """
        n = min(n, self.total)
        if len(self._missing) >= n:
            rows, self._missing = self._missing[:n], self._missing[n:]
            return PlannedRequests(work.plan, rows, work.requests.day), True
        doubled = [*self._all, *self._all]
        rows = doubled[self._next : self._next + n]
        self._next = (self._next + n) % self.total
        return PlannedRequests(work.plan, rows, work.requests.day), False


class MeasuringEngine:
    """A loaded engine that answers the questions of an answer set; implements `StartedEngine`."""

    def __init__(
        self, engine: Engine, settings: BaseEngineSettings, work: Work, questions: Questions
    ) -> None:
        self._engine, self._settings = engine, settings
        self._work, self._questions = work, questions
        self.prompt_tokens = self.completion_tokens = 0

    @property
    def batched_tokens(self) -> int | None:
        """`max_num_batched_tokens` in effect."""
        return self._engine.info.max_num_batched_tokens

    @property
    def most_in_flight(self) -> int | None:
        """Most requests that it computes at a time, and for which there are questions enough."""
        enough = max(1, self._questions.total // 2)
        known = self._engine.info.max_num_seqs
        return enough if known is None else min(known, enough)

    def measure(self, in_flight: int) -> Rung:
        """Answer some questions, at most `in_flight` at a time.

        Raises:
            EngineError: If the engine ends.
            SettingsError: If every request failed, or the engine cannot limit its requests.
        """
        engine = self._engine
        if not isinstance(engine, LimitedEngine):
            raise SettingsError(
                f"Engine '{engine.info.engine}' cannot limit its requests in flight."
            )
        engine.limit(in_flight)
        requests, is_new = self._questions.take(max(FEWEST, WAVES * in_flight), self._work)
        progress = self._answer(requests) if is_new else _ask_again(requests, engine)
        answered = len(requests) - progress.failed - progress.refused
        if not answered:
            raise SettingsError(
                f"None of {len(requests):,} requests was answered, so that nothing can be measured. `regrade generate` "
                "shows the errors."
            )
        self.prompt_tokens += progress.prompt_tokens
        self.completion_tokens += progress.completion_tokens
        ranks = self._work.plan.specification.method == "rank"
        rate = (answered if ranks else progress.completion_tokens) / progress.seconds
        speed = engine.speed if isinstance(engine, MeasuredEngine) else None
        rung = Rung(in_flight, rate, len(requests), progress.seconds, speed)
        unit = "answers/s" if ranks else "tokens/s"
        logger.info(
            "%4d in flight: %10.1f %s (%d questions%s)",
            in_flight,
            rate,
            unit,
            len(requests),
            "" if is_new else ", asked again",
        )
        return rung

    def _answer(self, requests: PlannedRequests) -> Progress:
        """Generate answers of the answer set, as a session of its own: its seconds and speed are those of this measurement."""
        work = self._work
        session = session_of(self._engine, self._settings, day=requests.day)
        work.begin(session)
        progress = generate(requests, self._engine, work.spool, lambda _: None)
        self._questions.made += len(requests)
        if isinstance(self._engine, MeasuredEngine) and self._engine.speed is not None:
            note_speed(work.spool, str(session.id), self._engine.speed)
        return progress


def _ask_again(requests: PlannedRequests, engine: Engine) -> Progress:
    """Ask questions that have answers; the new ones are only measured."""
    progress = Progress(len(requests))
    for batch in engine.generate(requests):
        for completion in batch:
            progress.done += 1
            progress.prompt_tokens += completion.prompt_tokens or 0
            progress.completion_tokens += completion.completion_tokens or 0
            progress.failed += completion.error is not None
    progress.finished = monotonic()
    if progress.done < len(requests):
        raise EngineError(
            f"The engine ended with {len(requests) - progress.done} requests unanswered."
        )
    return progress

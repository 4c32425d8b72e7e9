"""The engine of a run: loaded when it is needed, and kept for the models that may take each other's place in it."""

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from pathlib import Path
from tempfile import TemporaryDirectory

from regrade.answers.spool import Spool
from regrade.checkpoints.following import Following
from regrade.checkpoints.found import Found
from regrade.engines.base import (
    BaseEngineSettings,
    Engine,
    LimitedEngine,
    MeasuredEngine,
    PromptRendering,
    SleepingEngine,
    SwitchingEngine,
)
from regrade.jobs.generate import Progress, generate
from regrade.jobs.job import EngineJob, GenerationJob
from regrade.jobs.plan import PlannedRequests, PooledRequests, prompt_rendering
from regrade.orchestration.waiting import Stages
from regrade.processes.repeating import RepeatingThread
from regrade.results.display import current_clock, current_display
from regrade.settings import Between, GoodputLimits
from regrade.settings.errors import EngineError, RegradeError, SettingsError
from regrade.settings.files import log_file
from regrade.stats.speed import Speed
from regrade.tuning.search.records import with_tuned
from tasks.generate import generate_missing
from tasks.work import Work, check_computed

logger = logging.getLogger("regrade")


class EngineSession(ExitStack):
    """Loads an engine for the works of a job, goes on with the next model in it, and stops it when the block ends.

    Use it on the main thread, as the engine. Of models that come, the weights are read ahead.
    """

    def __init__(self, coming: Following | None = None) -> None:
        super().__init__()
        self.starts = 0
        """Engines that were started."""
        self._coming = coming
        self._told: Found | None = None
        """The last one whose weights were: to resolve one reads its files."""
        self._engine: Engine | None = None
        self._given: tuple[BaseEngineSettings, PromptRendering] | None = None
        """Settings by which it was asked for."""
        self._settings: BaseEngineSettings | None = None
        self._planned: Sequence[PooledRequests] = ()
        """Requests by which its context length was chosen."""
        self._model = ""

    @property
    def loaded(self) -> tuple[Engine, BaseEngineSettings]:
        """The loaded engine and its settings."""
        if self._engine is None or self._settings is None:
            raise RuntimeError("no engine is loaded")
        return self._engine, self._settings

    @property
    def speed(self) -> Speed | None:
        """Measurements inside the engine since its last answers began; None if it makes none."""
        engine, _ = self.loaded
        return engine.measure() if isinstance(engine, MeasuredEngine) else None

    def end(self) -> None:
        """Stop the engine; the next one starts anew."""
        self._engine = None
        self.close()

    def may_retry(self, error: RegradeError, *, retried: bool) -> bool:
        """Stop the engine at which something failed; return True if a new one may help, which is tried once.

        The cause of an engine's end after its first answer may have been temporary (out of memory, GPU fault).
        """
        self.end()
        return not retried and isinstance(error, EngineError) and error.fresh_helps

    def rest(self, between: Between) -> None:
        """Leave the GPU to others, as set, until a model is loaded."""
        if between == "end":
            self.end()
        elif between != "stay" and isinstance(self._engine, SleepingEngine):
            try:
                self._engine.sleep(deep=between == "deep-sleep")
            except EngineError as error:
                logger.warning("the engine cannot sleep and ends: %s", error)
                self.end()

    def answer(
        self,
        works: Sequence[Work],
        goodput: GoodputLimits | None = None,
        on_complete: Callable[[Work], None] = lambda _: None,
    ) -> None:
        """Generate the missing answers of a model's works with the loaded engine; see `generate_missing`."""
        with self._answering() as (engine, settings):
            generate_missing(works, engine, settings, goodput, on_complete)

    def measure(self, requests: PlannedRequests) -> Progress:
        """Answer requests only to measure: the answers are not kept."""
        with (
            self._answering() as (engine, _),
            TemporaryDirectory() as folder,
            Spool(Path(folder) / "spool") as spool,
        ):
            return generate(requests, engine, spool, lambda _: None)

    def limit(self, in_flight: int | None) -> None:
        """Send the engine at most so many requests at a time; None: as many as it takes by itself.

        Raises:
            SettingsError: If it cannot limit its requests.
        """
        engine, _ = self.loaded
        if isinstance(engine, LimitedEngine):
            engine.limit(in_flight)
        elif in_flight is not None:
            raise SettingsError(
                f"Engine '{engine.info.engine}' cannot limit its requests in flight. Leave out `--in-flight`."
            )

    @contextmanager
    def _answering(self) -> Iterator[tuple[Engine, BaseEngineSettings]]:
        """While the block runs, in which the engine answers requests, read ahead the weights of models that come; count its seconds."""
        (engine, settings), coming = self.loaded, self._coming
        reading: AbstractContextManager[object] = nullcontext()
        if coming is not None and isinstance(engine, SwitchingEngine):

            def look() -> None:
                found = coming.peek()
                if found is not None and found != self._told:
                    self._told = found
                    engine.read_ahead(settings.resolve(found.model))

            what = "look for the next model"
            reading = RepeatingThread(coming.poll, look, what, first=0.0, patience=5.0)
        started = time.monotonic()
        try:
            with reading:
                yield engine, settings
        finally:
            occupancy = engine.occupancy if isinstance(engine, MeasuredEngine) else None
            current_clock().generated(started, occupancy)

    def load(
        self, job: EngineJob, *rounds: Sequence[Work], later: Sequence[PooledRequests] = ()
    ) -> Engine:
        """Return an engine with the model of the first round: the running one, with other weights if need be, or a new one.

        Args:
            job: The job with the engine's settings.
            rounds: The works of each call of `generate_missing` that is planned.
            later: Requests that may be planned once these are answered.

        Raises:
            SettingsError: If earlier answers of a work were computed otherwise.
            EngineError: If the engine does not start.
        """
        works, *_ = by_model([work for together in rounds for work in together])
        model, identity = works[0].plan.model, _model_of(works[0])
        name = model.identity.name
        given = (job.engine, prompt_rendering(job.prompt))
        engine = self._engine if given == self._given else None
        if engine is not None and identity == self._model:
            return engine
        display = current_display()
        pools = [PooledRequests(tuple(work.requests for work in together)) for together in rounds]
        planned = _alike([*pools, *later])
        if isinstance(engine, SwitchingEngine) and _covered(planned[0], self._planned):
            display.loading(name)
            engine.switch(model, planned)
            if not _is_shared(engine):
                self.starts += 1
                self._planned = planned
        else:
            self.end()
            if not (isinstance(job, GenerationJob) and job.several_models):
                name = job.model
            largest = max(rounds[0], key=lambda work: len(work.requests))
            settings = with_tuned(job.engine, largest.plan, largest.repository)
            engine = settings.open(
                model,
                requests=planned,
                rendering=given[1],
                log=log_file("engine"),
                on_progress=Stages(display.step).show,
            )
            display.loading(name)
            self.starts += 1
            self.enter_context(engine)
            self._given, self._settings, self._planned = given, settings, planned
        self._engine, self._model = engine, identity
        info = engine.info
        current_clock().loaded(
            info.load_seconds, info.compile_seconds, weights_only=_is_shared(engine)
        )
        display.loaded()
        check_computed(info, works)
        logger.info(
            "%s %s after %.1f s (%s %s on %s)",
            name,
            "shares the engine" if _is_shared(engine) else "is ready",
            info.load_seconds,
            info.engine,
            info.version or "",
            info.device or "the server's device",
        )
        return engine


def _is_shared(engine: Engine) -> bool:
    """Return True if the weights in an engine took the place of another model's."""
    weights = engine.info.weights
    return weights is not None and weights.replaced


def _alike(planned: Sequence[PooledRequests]) -> list[PooledRequests]:
    """Return the requests of the first model, and of those that are asked alike, each once: others may need a longer context."""
    parts = [part for pool in planned for part in pool.parts]
    model = parts[0].plan.specification.model
    firsts = [part for part in parts if part.plan.specification.model == model]

    def is_alike(part: PlannedRequests) -> bool:
        benchmark = part.plan.specification.benchmark
        same = [f for f in firsts if f.plan.specification.benchmark == benchmark]
        return part in firsts or not same or any(part.asks_as(first) for first in same)

    found: list[PooledRequests] = []
    for pool in planned:
        if pool not in found and all(map(is_alike, pool.parts)):
            found.append(pool)
    return found


def _covered(pool: PooledRequests, planned: Sequence[PooledRequests]) -> bool:
    """Return True if all requests are among the planned ones."""
    parts = [part for known in planned for part in known.parts]
    return all(any(part.is_part_of(known) for known in parts) for part in pool.parts)


def by_model(works: Sequence[Work]) -> list[list[Work]]:
    """Return the works of each model, in the order of the models."""
    groups: dict[str, list[Work]] = {}
    for work in works:
        groups.setdefault(_model_of(work), []).append(work)
    return [*groups.values()]


def _model_of(work: Work) -> str:
    return work.plan.specification.model.model_dump_json()

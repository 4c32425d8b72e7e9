"""Flow `tune-settings`: find the fastest engine settings for a model, this machine and a kind of workload."""

import logging
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from itertools import cycle, islice
from time import monotonic

from prefect import flow

from flows import generating
from flows.engine_session import EngineSession
from flows.generating import plan, publish
from regrade.answers.origin import note_speed
from regrade.engines.base import PARALLEL, MeasuredEngine
from regrade.jobs.generate import Progress, generate, session_of
from regrade.jobs.job import make_job
from regrade.jobs.plan import PlannedRequests
from regrade.jobs.time_spent import TimeSpent
from regrade.orchestration.artifacts import TUNING_KEY, show
from regrade.orchestration.form import form, takes
from regrade.orchestration.worker import engine_no_longer_needed
from regrade.results.display import current_clock, timed
from regrade.settings.errors import SettingsError
from regrade.settings.files import log_file
from regrade.settings.project_folder import VERSION
from regrade.text.markdown import markdown
from regrade.tuning.plan.plan import MemoryPlan
from regrade.tuning.plan.planner import make_memory_plan
from regrade.tuning.plan.request import PlanRequest
from regrade.tuning.search.job import TuneJob, TuneResult
from regrade.tuning.search.lookup import key_to_tune
from regrade.tuning.search.records import TrialRecord, Tuning, TuningKey, keep
from regrade.tuning.search.rule import MOST, TOKENS, Search, StartedEngine, splits_to_try
from regrade.tuning.search.text import blocks
from tasks.work import Work

logger = logging.getLogger("regrade.tune")
WAVES = 4
"""Questions per request in flight: at the end of a measurement, when less and less are left, the engine is not full."""
FEWEST = 32
"""Fewest questions of a measurement."""


def run_name() -> str:
    """Name of the flow run: `tune <model>: <benchmark>`."""
    return f"tune {generating.run_name()}"


@form
@flow(name="tune-settings", flow_run_name=run_name)
@takes(TuneJob)
@timed()
def tune_settings(job: TuneJob) -> TuneResult:
    """Find the fastest engine settings for a model, this machine and a kind of workload; the answers made are kept."""
    with plan(job) as (work,):
        job = job.model_copy(update={"engine": job.engine.model_copy(update={"tuned": False})})
        key = key_to_tune(job, work.plan)
        tuner = _Tuner(job, work)
        search = Search(tuner.start, job.limits, job.starts)
        search.run(splits_to_try(job.engine, _plan_memory(job, key)), tuner.prompts_matter)
        engine_no_longer_needed()
        publish([work])
    tuning = _tuning(job, work, key, search)
    keep(work.repository, tuning)
    stored = work.published
    result = TuneResult(
        tuning=tuning,
        path=key.path,
        repository=work.repository.uri,
        answer_set_id=work.plan.specification.answer_set_id,
        answers_made=tuner.answers_made,
        rows=stored.manifest.rows if stored else 0,
        expected_rows=work.plan.rows,
        load_seconds=tuner.load_seconds,
        measure_seconds=sum(trial.seconds for trial in search.trials),
        time_spent=tuner.time_spent(),
    )
    show(TUNING_KEY, markdown(blocks(result)), f"Tuned {key.model.name}")
    return result


class _Tuner:
    """Starts engines, and measures them with the questions of an answer set: first those without an answer, then all, again and again."""

    def __init__(self, job: TuneJob, work: Work) -> None:
        self._job, self._work = job, work
        self._missing = list(work.requests.rows)
        self._all = work.plan.missing(set())
        self._again = cycle(self._all)
        if not work.requests:  # an engine learns the length of prompts from the requests
            work.requests = work.plan.requests(self._all, work.sessions)
        self.answers_made = 0
        """Answers generated that the answer set did not have."""
        self.load_seconds = 0.0
        self._prompt_tokens = self._completion_tokens = self._lost_tokens = 0

    def prompts_matter(self) -> bool:
        """True if prompts had at least as many tokens as answers."""
        return self._prompt_tokens >= self._completion_tokens

    def time_spent(self) -> TimeSpent | None:
        """Return where the time of this run went until now."""
        return current_clock().spent(self._completion_tokens, self._lost_tokens)

    @contextmanager
    def start(self, number: int, settings: Mapping[str, int]) -> Iterator[StartedEngine]:
        """Start engine number n of the search with these settings."""
        most = self._job.most_in_flight
        sizes = {"max_num_seqs": _per_copy(most, settings)} if most else {}
        engine = type(self._job.engine).model_validate(
            {
                **sizes,
                **self._job.engine.model_dump(exclude_unset=True, exclude={"tuned"}),
                **settings,
            }
        )
        begun = monotonic()
        job = self._job.model_copy(update={"engine": engine})
        with EngineSession() as engines:
            loaded = engines.load(job, [self._work])
            self.load_seconds += monotonic() - begun
            tokens = loaded.info.max_num_batched_tokens
            in_effect = dict(settings) if tokens is None else {**settings, TOKENS: tokens}
            limits = (MOST, max(1, len(self._all) // 2), loaded.info.max_num_seqs, most)
            yield StartedEngine(
                min(limit for limit in limits if limit is not None),
                partial(self._measure, engines, number, in_effect),
            )

    def _measure(
        self, engines: EngineSession, start: int, in_effect: dict[str, int], in_flight: int
    ) -> TrialRecord:
        """Answer some questions, at most `in_flight` at a time.

        Raises:
            EngineError: If the engine ends.
            SettingsError: If every request failed, or the engine cannot limit its requests.
        """
        engines.limit(in_flight)
        n = min(max(FEWEST, WAVES * in_flight), len(self._all))
        is_new = len(self._missing) >= n
        if is_new:
            rows, self._missing = self._missing[:n], self._missing[n:]
        else:
            rows = list(islice(self._again, n))
        requests = PlannedRequests(self._work.plan, rows, self._work.requests.day)
        progress = self._answer(requests, engines) if is_new else engines.measure(requests)
        answered = progress.new - progress.failed - progress.refused
        if not answered:
            raise SettingsError(
                f"None of {n:,} requests was answered, so that nothing can be measured. `regrade generate` shows the errors."
            )
        self._prompt_tokens += progress.prompt_tokens
        self._completion_tokens += progress.completion_tokens
        self._lost_tokens += progress.lost_tokens
        ranks = self._work.plan.specification.method == "rank"
        rate = (answered if ranks else progress.completion_tokens) / progress.seconds
        logger.info(
            "%4d in flight: %10.1f %s (%d questions%s)",
            in_flight,
            rate,
            "answers/s" if ranks else "tokens/s",
            n,
            "" if is_new else ", asked again",
        )
        engine, _ = engines.loaded
        return TrialRecord(
            start=start,
            settings=in_effect,
            in_flight=in_flight,
            rate=rate,
            requests=n,
            seconds=progress.seconds,
            speed=engine.measure() if isinstance(engine, MeasuredEngine) else None,
        )

    def _answer(self, requests: PlannedRequests, engines: EngineSession) -> Progress:
        """Generate answers of the answer set, as a session of its own: its seconds and speed are those of this measurement."""
        engine, settings = engines.loaded
        spool = self._work.spool
        session = session_of(engine, settings, day=requests.day, mixed=self._work.mixed)
        self._work.begin(session)
        with engines.answering(engine):
            progress = generate(requests, engine, spool, lambda _: None)
        self.answers_made += len(requests)
        speed = engine.measure() if isinstance(engine, MeasuredEngine) else None
        if speed is not None:
            note_speed(spool, str(session.id), speed)
        return progress


def _per_copy(in_flight: int, settings: Mapping[str, int]) -> int:
    """Return `max_num_seqs` for requests in flight, which vLLM divides between the copies of a model."""
    return math.ceil(in_flight / settings.get("data_parallel_size", 1))


def _plan_memory(job: TuneJob, key: TuningKey) -> MemoryPlan | None:
    """Return the plan of the splits of several GPUs; None if there is nothing to split, or a plan cannot be made."""
    by_hand = set(PARALLEL) <= job.engine.model_fields_set
    if key.hardware.device == "cpu" or key.hardware.count == 1 or by_hand:
        return None
    try:
        planned = make_memory_plan(
            make_job(PlanRequest, {**job.shared_with(PlanRequest), "gpus": key.hardware.count}),
            log=log_file("plan"),
        )
    except SettingsError as error:
        logger.warning("no plan, so that no other split over the GPUs is tried: %s", error)
        return None
    logger.info("%s: %s", planned.target.title, planned.advice)
    return planned


def _tuning(job: TuneJob, work: Work, key: TuningKey, search: Search) -> Tuning:
    """Return the settings that the search found.

    Raises:
        SettingsError, EngineError: If it found none.
    """
    chosen = search.best()
    if chosen is None:
        raise search.errors[-1] if search.errors else _no_settings(search.trials)
    by_hand = getattr(job.engine, TOKENS, None) is not None
    default = None if by_hand else search.trials[0].settings.get(TOKENS)
    settings = {k: v for k, v in chosen.settings.items() if k != TOKENS or v != default}
    return Tuning(
        key=key,
        benchmark=work.plan.specification.benchmark.name,
        measured_at=datetime.now(UTC),
        regrade_version=VERSION,
        settings={"max_num_seqs": _per_copy(chosen.in_flight, settings), **settings},
        in_flight=chosen.in_flight,
        rate=chosen.rate,
        spread=search.spread,
        starts=search.starts,
        trials=tuple(search.trials),
        remarks=tuple(search.remarks),
    )


def _no_settings(trials: Sequence[TrialRecord]) -> SettingsError:
    broken = (trial for trial in trials if trial.broken is not None)
    closest = min(broken, key=lambda trial: trial.in_flight)
    return SettingsError(
        f"No settings keep the limits on latency: with {closest.in_flight} in flight, {closest.broken}. Raise the limits, or "
        "leave them out."
    )

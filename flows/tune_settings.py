"""Flow `tune-settings`: find the fastest engine settings for a model, this machine and a kind of workload."""

import logging
import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from time import monotonic

from prefect import flow

from flows import generating
from flows.generating import loaded_engine, plan, publish
from regrade.engines.base import PARALLEL
from regrade.jobs.job import make_job
from regrade.orchestration.artifacts import TUNING_KEY, show
from regrade.orchestration.form import form, takes
from regrade.orchestration.worker import engine_no_longer_needed
from regrade.results.display import log_file
from regrade.settings.errors import SettingsError
from regrade.settings.project_folder import VERSION
from regrade.text.markdown import markdown
from regrade.tuning.plan.plan import MemoryPlan
from regrade.tuning.plan.planner import make_memory_plan
from regrade.tuning.plan.request import PlanRequest
from regrade.tuning.search.job import TuneJob, TuneResult
from regrade.tuning.search.lookup import key_of
from regrade.tuning.search.records import TrialRecord, Tuning, TuningKey, keep
from regrade.tuning.search.search import TOKENS, search
from regrade.tuning.search.splits import splits_to_try
from regrade.tuning.search.text import blocks
from regrade.tuning.search.trials import Found, Search
from tasks.tune import MeasuringEngine, Questions
from tasks.work import Work

logger = logging.getLogger("regrade.tune")


def run_name() -> str:
    """Name of the flow run: `tune <model>: <benchmark>`."""
    return f"tune {generating.run_name()}"


@form
@flow(name="tune-settings", flow_run_name=run_name)
@takes(TuneJob)
def tune_settings(job: TuneJob) -> TuneResult:
    """Find the fastest engine settings for a model, this machine and a kind of workload; the answers made are kept."""
    job = job.model_copy(update={"engine": job.engine.model_copy(update={"tuned": False})})
    with plan(job) as (work,):
        key = key_of(work.plan, job.limits.model_dump(exclude_none=True))
        tuner = _Tuner(job, work)
        found = search(
            tuner.start,
            splits_to_try(job.engine, _plan_memory(job, key)),
            limits=job.limits.of_search,
            most_starts=job.starts,
            most_in_flight=job.most_in_flight,
            prompts_matter=tuner.prompts_matter,
        )
        engine_no_longer_needed()
        publish([work])
    chosen = found.best()
    if chosen is None:
        raise found.errors[-1] if found.errors else _no_settings(found)
    tuning = _tuning(job, work, key, found, chosen)
    keep(work.repository, tuning)
    stored = work.published
    result = TuneResult(
        tuning=tuning,
        path=key.path,
        repository=work.repository.uri,
        answer_set_id=work.plan.specification.answer_set_id,
        answers_made=tuner.questions.made,
        rows=stored.manifest.rows if stored else 0,
        expected_rows=work.plan.rows,
        load_seconds=tuner.load_seconds,
        measure_seconds=sum(trial.rung.seconds for trial in found.trials),
    )
    show(TUNING_KEY, markdown(blocks(result)), f"Tuned {key.model.name}")
    return result


class _Tuner:
    """Starts engines for a search, all with the questions of one answer set."""

    def __init__(self, job: TuneJob, work: Work) -> None:
        self._job, self._work = job, work
        self.questions = Questions(work)
        self.load_seconds = 0.0
        self._prompt_tokens = self._completion_tokens = 0

    @contextmanager
    def start(self, settings: Mapping[str, int]) -> Iterator[MeasuringEngine]:
        """Start an engine with these settings."""
        most = self._job.most_in_flight
        sizes = {"max_num_seqs": _per_copy(most, settings)} if most else {}
        engine = type(self._job.engine).model_validate(
            {**sizes, **self._job.engine.model_dump(exclude_unset=True), **settings}
        )
        job = self._job.model_copy(update={"engine": engine})
        begun = monotonic()
        if (
            not self._work.requests
        ):  # all are answered: the engine learns the length of prompts from those
            rows = self._work.plan.missing(set())
            self._work.requests = self._work.plan.requests(rows, self._work.sessions)
        with loaded_engine(job, [self._work]) as loaded:
            self.load_seconds += monotonic() - begun
            measuring = MeasuringEngine(loaded, engine, self._work, self.questions)
            try:
                yield measuring
            finally:
                self._prompt_tokens += measuring.prompt_tokens
                self._completion_tokens += measuring.completion_tokens

    def prompts_matter(self) -> bool:
        """True if prompts had at least as many tokens as answers."""
        return self._prompt_tokens >= self._completion_tokens


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


def _no_settings(found: Search) -> SettingsError:
    broken = (trial for trial in found.trials if trial.broken is not None)
    closest = min(broken, key=lambda trial: trial.rung.in_flight)
    return SettingsError(
        f"No settings keep the limits on latency: with {closest.rung.in_flight} in flight, {closest.broken}. Raise the "
        "limits, or leave them out."
    )


def _tuning(job: TuneJob, work: Work, key: TuningKey, found: Search, chosen: Found) -> Tuning:
    by_hand = getattr(job.engine, TOKENS, None) is not None
    default_tokens = None if by_hand else found.trials[0].settings.get(TOKENS)
    settings = {
        name: value
        for name, value in chosen.settings.items()
        if name != TOKENS or value != default_tokens
    }
    return Tuning(
        key=key,
        benchmark=work.plan.specification.benchmark.name,
        measured_at=datetime.now(UTC),
        regrade_version=VERSION,
        settings={"max_num_seqs": _per_copy(chosen.in_flight, settings), **settings},
        in_flight=chosen.in_flight,
        rate=chosen.rate,
        spread=found.spread,
        starts=found.starts,
        trials=tuple(
            TrialRecord(
                start=trial.start,
                settings=dict(trial.settings),
                in_flight=trial.rung.in_flight,
                rate=trial.rung.rate,
                requests=trial.rung.requests,
                seconds=trial.rung.seconds,
                broken=trial.broken,
                speed=trial.rung.speed,
            )
            for trial in found.trials
        ),
        remarks=tuple(found.remarks),
    )

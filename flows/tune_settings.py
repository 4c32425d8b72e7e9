"""Flow `tune-settings`: find the fastest engine settings for a model, this machine and a kind of workload."""

import logging
from collections.abc import Mapping
from dataclasses import replace
from itertools import cycle, islice

from prefect import flow

from flows import generating
from flows.engine_session import EngineSession
from flows.scoring import time_spent
from regrade.answers.publishing import keep_document
from regrade.jobs.generate import Progress
from regrade.orchestration.artifacts import TUNING_KEY, show
from regrade.orchestration.form import form, takes
from regrade.orchestration.worker import engine_no_longer_needed
from regrade.results.display import timed
from regrade.settings.errors import SettingsError
from regrade.stats.speed import Speed
from regrade.text.markdown import markdown
from regrade.text.text import counted
from regrade.tuning.plan.planner import splits_to_try
from regrade.tuning.search.job import TuneJob
from regrade.tuning.search.records import TrialRecord
from regrade.tuning.search.result import TuneResult, blocks
from regrade.tuning.search.rule import TOKENS, Search
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
@timed(advised=False)
def tune_settings(job: TuneJob) -> TuneResult:
    """Find the fastest engine settings for a model, this machine and a kind of workload; the answers made are kept."""
    with generating.plan(job) as (work,):
        key, missing = job.key(work.plan), len(work.requests)
        with EngineSession() as engines:
            search = _Search(job, work, engines)
            search.run(splits_to_try(job, key.hardware.gpus))
        engine_no_longer_needed()
        generating.publish([work])
    benchmark = work.plan.specification.benchmark.name
    tuning = search.tuning(key, benchmark)
    keep_document(work.repository, key.path, tuning, f"Tuned {key.model.name} for {benchmark}")
    result = TuneResult(
        tuning=tuning,
        path=key.path,
        repository=work.repository.uri,
        answer_set_id=work.plan.specification.answer_set_id,
        answers_made=missing - (work.plan.rows - work.answers.manifest.rows),
        rows=work.answers.manifest.rows,
        expected_rows=work.plan.rows,
        load_seconds=search.load_seconds,
        measure_seconds=sum(trial.seconds for trial in search.trials),
        time_spent=time_spent((), search.measured),
    )
    show(TUNING_KEY, markdown(blocks(result)), f"Tuned {key.model.name}")
    return result


class _Search(Search):
    """A search with the questions of an answer set: first those without an answer, then all, again and again."""

    def __init__(self, job: TuneJob, work: Work, engines: EngineSession) -> None:
        super().__init__(job)
        self._work, self._engines = work, engines
        self._missing = work.requests.rows
        self._all = work.plan.requests(work.plan.missing(set()), work.sessions)
        self._again = cycle(self._all.rows)
        self._settings: dict[str, int] = {}
        self.load_seconds = 0.0

    def start(self, settings: Mapping[str, int]) -> int:
        """Start an engine with these settings; see `Search`."""
        engine = self.job.engine.model_copy(update={**settings, "tuned": False})
        job = self.job.model_copy(update={"engine": engine})
        self._work.requests = self._all  # whose lengths decide the engine's context
        self._engines.end()
        info = self._engines.load(job, [self._work]).info
        self.load_seconds += info.load_seconds
        tokens = info.max_num_batched_tokens
        self._settings = {**settings} if tokens is None else {**settings, TOKENS: tokens}
        half = max(1, len(self._all) // 2)
        return min(half, info.max_num_seqs or half)

    def measure(self, in_flight: int) -> TrialRecord:
        """Answer some questions, at most `in_flight` at a time; see `Search`."""
        engines, work = self._engines, self._work
        engines.limit(in_flight)
        n = min(max(FEWEST, WAVES * in_flight), len(self._all))
        if len(self._missing) >= n:
            rows, self._missing = self._missing[:n], self._missing[n:]
            work.requests = replace(self._all, rows=rows, later=len(self._missing))
            engines.answer([work])
            progress = work.progress or Progress(n)
        else:
            progress = engines.measure(replace(self._all, rows=[*islice(self._again, n)]))
        if not progress.answered:
            raise SettingsError(
                f"None of {n:,} requests was answered, so that nothing can be measured. `regrade generate` shows the errors."
            )
        self.measured.append(progress)
        ranks = work.plan.specification.method == "rank"
        rate = (progress.answered if ranks else progress.completion_tokens) / progress.seconds
        logger.info("%d in flight: %.1f per second, of %s", in_flight, rate, counted(n, "question"))
        return TrialRecord(
            start=self.starts - 1,
            settings=self._settings,
            in_flight=in_flight,
            rate=rate,
            requests=n,
            seconds=progress.seconds,
            broken=(engines.speed or Speed()).above(self.job.limits.given),
            speed=engines.speed,
        )

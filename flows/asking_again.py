"""Ask the questions of answer sets again, and measure what changed (`measure-noise`)."""

import logging
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace

from flows.engine_session import EngineSession
from flows.generating import (
    Round,
    answered,
    check_failures,
    generate_rounds,
    opened,
    plan,
    publish,
    publish_complete,
)
from flows.scoring import own_scorers, score, time_spent
from flows.scoring import publish as publish_scorings
from regrade.comparing.comparison import flip_examples
from regrade.comparing.job import NoiseJob
from regrade.comparing.noise import MeasuredFloor, NoiseReport, floors_of
from regrade.engines.base import CheckedEngine, LimitedEngine
from regrade.engines.vllm import VllmEngine
from regrade.engines.vllm_process.build import runs_on_cpu, versions
from regrade.engines.vllm_process.hardware import hardware
from regrade.processes.metrics_endpoint import show
from regrade.records.specification import AskedAgain
from regrade.scorers import stored_name
from regrade.settings.errors import OperationError, SettingsError
from tasks.plan import as_work
from tasks.work import Work

logger = logging.getLogger("regrade.noise")
_NOT_TRIED = "Whether vLLM's batch-invariant mode (VLLM_BATCH_INVARIANT=1) holds was not tried: {}."


def ask_again(job: NoiseJob) -> NoiseReport:
    """Generate what is missing of both askings with one engine start, publish and score it, and compare all askings.

    Answers that are stored are the first asking; they are neither replaced nor doubled. Where vLLM's batch-invariant mode is on,
    both askings are in it: the stored answers are left alone.

    Raises:
        SettingsError: If a benchmark's answers are graded by a judge, or the engine cannot limit its requests.
        EngineError: If the engine ends; the same command continues.
    """
    with ExitStack() as stack:
        firsts = stack.enter_context(plan(job))
        rounds = [stack.enter_context(opened(works)) for works in _again(job, firsts)]
        asked = [*([] if job.batch_invariant else [firsts]), *rounds]
        works = [work for together in asked for work in together]
        show(lambda: [work.state for work in works])
        generate_rounds([_round(job, together) for together in asked])
        publish(answered(works))
        check_failures(works)
    if lacking := [work for work in works if work.answers.manifest.state != "complete"]:
        raise OperationError(
            f"{', '.join(work.title for work in lacking)}: answers are missing. The same command sends their requests again."
        )
    names = None if job.scorer is None else (stored_name(job.scorer),)
    chosen = [(work.answers, names or own_scorers(work.answers)) for work in works]
    scorings = score(chosen, works=works, options=job.scoring_options)
    publish_scorings(scorings)
    floors = []
    for first in firsts:
        answers = replace(first.answers, revision=scorings.revision)
        scorer = (names or own_scorers(answers))[0]
        floors += [
            MeasuredFloor(
                floor=found.floor, examples=flip_examples(found.sides, found.pairs, job.examples)
            )
            for found in floors_of(answers, scorer, job.scoring_options)
        ]
    return NoiseReport(
        model=firsts[0].plan.specification.model.name,
        repository=scorings.uri,
        revision=scorings.revision,
        floors=tuple(floors),
        notes=tuple(_notes(job)),
        time_spent=time_spent(works),
    )


def _again(job: NoiseJob, firsts: Sequence[Work]) -> list[list[Work]]:
    """Return the works of each further asking."""
    fewer = AskedAgain(
        seed=job.order,
        in_flight=job.in_flight,
        place=_place(job),
        batch_invariant=job.batch_invariant,
    )
    askings = [fewer]
    if job.batch_invariant:
        askings.insert(0, fewer.model_copy(update={"seed": None, "in_flight": None}))
    return [[_asked(work, asking, job) for work in firsts] for asking in askings]


def _asked(first: Work, asking: AskedAgain, job: NoiseJob) -> Work:
    specification = first.plan.specification.model_copy(update={"asked_again": asking})
    plan = replace(first.plan, specification=specification, earlier=(), version_1="")
    return as_work(plan, first.repository, job)


def _place(job: NoiseJob) -> str:
    """Return engine and hardware of this machine, as far as they are known before the engine starts."""
    if not isinstance(job.engine, VllmEngine):
        return job.engine.kind
    version = ", ".join(versions()) or "of unknown version"
    return f"vllm {version} on {hardware() or 'unknown hardware'}"


def _round(job: NoiseJob, works: Sequence[Work]) -> Round:
    """Return an asking of all benchmarks."""

    def ask(engines: EngineSession, asked: Sequence[Work]) -> None:
        engine, _ = engines.loaded
        if not isinstance(engine, LimitedEngine):
            raise SettingsError(
                f"Engine '{engine.info.engine}' cannot limit its requests in flight, so that nothing can be asked otherwise."
            )
        asking = asked[0].plan.specification.asked_again
        if asking is not None and isinstance(engine, CheckedEngine) and engine.batches is None:
            engine.check_batches()
        engines.limit(None if asking is None else asking.in_flight)
        engines.answer(asked, on_complete=publish_complete)

    return Round(job, works, ask)


def _notes(job: NoiseJob) -> Iterator[str]:
    """Yield what was not tried, and why."""
    if job.batch_invariant:
        return
    if not isinstance(job.engine, VllmEngine):
        yield _NOT_TRIED.format("it is a mode of a vLLM on this machine, and here a server answers")
    elif runs_on_cpu():
        yield _NOT_TRIED.format("vLLM has it on GPUs only, and this machine computes on its CPU")
    else:
        yield _NOT_TRIED.format("run the same command with the variable set")

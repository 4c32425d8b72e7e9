"""Use tuned settings: find the measurement that belongs to a model, this machine and a kind of workload."""

import logging
from collections.abc import Mapping

from regrade.answers.base import Repository
from regrade.engines.base import PARALLEL, BaseEngineSettings, parallel_by_hand
from regrade.jobs.plan import Plan
from regrade.jobs.plans_of_job import begin, plans_of_all
from regrade.settings.errors import SettingsError
from regrade.tuning.search.hardware import hardware, vllm_version
from regrade.tuning.search.job import TuneJob
from regrade.tuning.search.records import Tuning, TuningKey, find, kept
from regrade.tuning.search.workload import workload_of

logger = logging.getLogger("regrade.tune")


def begin_tuning(job: TuneJob) -> list[Plan] | None:
    """Check and plan what is tuned, whose flow is about to run in this process; see `begin`.

    Raises:
        RegradeError: As `plans_of_all` and `key_to_tune`.
    """
    plans = begin(plans_of_all, job)
    for plan in plans or ():
        key_to_tune(job, plan)
    return plans


def key_to_tune(job: TuneJob, plan: Plan) -> TuningKey:
    """Return the key of the measurements of a job.

    Raises:
        SettingsError: If the answers are to conversations, parts of which cannot be asked in any order; or as `key_of`.
    """
    if plan.converses:
        raise SettingsError(
            f"{plan.specification.title}: the turns of conversations wait for answers, so that they cannot be asked again and again. "
            "Tune with another benchmark."
        )
    return key_of(plan, job.limits.given)


def key_of(plan: Plan, limits: Mapping[str, float] | None = None) -> TuningKey:
    """Return the key of an answer set's measurements on this machine.

    Args:
        plan: The answer set.
        limits: Limits on latency, as 99th percentiles in seconds. None: only throughput counts.

    Raises:
        SettingsError: If the hardware or the version of vLLM is not known.
    """
    here, version = hardware(), vllm_version()
    if version is None:
        raise SettingsError(
            "Tuned settings belong to a version of vLLM, and none is installed here. Install it, or leave out "
            "`engine.tuned`."
        )
    if here is None:
        raise SettingsError(
            "Tuned settings belong to one kind of hardware, and `nvidia-smi` names no GPU here, or several kinds. Set "
            "CUDA_VISIBLE_DEVICES to GPUs of one kind, or leave out `engine.tuned`."
        )
    specification = plan.specification
    return TuningKey(
        model=specification.model,
        engine=dict(specification.engine),
        hardware=here,
        vllm=version,
        workload=workload_of(plan),
        limits=dict(limits or {}),
    )


def with_tuned(
    engine: BaseEngineSettings, plan: Plan, repository: Repository
) -> BaseEngineSettings:
    """Return engine settings with those that `regrade tune` found; the log says which measurement was used, or none.

    Settings that were set by hand stay. A measurement of another split over GPUs than the one set by hand is not used.
    One without limits on latency goes before those with limits, and of those the newest.

    Args:
        engine: Settings with `tuned`; others are returned as they are.
        plan: Answer set with the most work for this engine.
        repository: Repository that keeps the measurements.

    Raises:
        SettingsError: If the hardware or the version of vLLM is not known.
        DamagedAnswersError: If the measurement cannot be read.
    """
    if not getattr(engine, "tuned", False):
        return engine
    key = key_of(plan)
    tuning = find(repository, key) or _within_limits(repository, key)
    if tuning is None:
        _say_missing(key, repository)
        return engine
    measured = {name: tuning.settings.get(name, 1) for name in PARALLEL}
    given = parallel_by_hand(engine)
    if not given.items() <= measured.items():
        logger.warning(
            "not tuned: the settings in %s were measured with %s, and %s is set by hand. vLLM's own settings are used; "
            "`regrade tune` with the same options measures.",
            repository.uri,
            _text(measured),
            _text(given),
        )
        return engine
    by_hand = {name for name in tuning.settings if name in engine.model_fields_set}
    used = {name: value for name, value in tuning.settings.items() if name not in by_hand}
    logger.info(
        "tuned: %s%s, measured on %s with %s (%s, vLLM %s): %.1f per second, noise %.1f %%%s",
        _text(used),
        f" ({', '.join(sorted(by_hand))} as set by hand)" if by_hand else "",
        tuning.measured_at.date(),
        tuning.benchmark,
        key.hardware,
        key.vllm,
        tuning.rate,
        100 * tuning.spread,
        f", within the limits {tuning.key.limits_text}" if tuning.key.limits else "",
    )
    return type(engine).model_validate({**engine.model_dump(exclude_unset=True), **used})


def _within_limits(repository: Repository, key: TuningKey) -> Tuning | None:
    """Return the newest measurement with limits on latency of an otherwise equal key, or None."""
    found = [t for t in kept(repository) if t.key.model_copy(update={"limits": {}}) == key]
    return max(found, key=lambda tuning: tuning.measured_at, default=None)


def _say_missing(key: TuningKey, repository: Repository) -> None:
    others = [tuning for tuning in kept(repository) if tuning.key.model.name == key.model.name]
    logger.warning(
        "not tuned: %s has no measurement of %s on %s with vLLM %s for %s. vLLM's own settings are used; `regrade tune` "
        "with the same options measures.%s",
        repository.uri,
        key.model.name,
        key.hardware,
        key.vllm,
        key.workload,
        _others(others),
    )


def _others(others: list[Tuning]) -> str:
    if not others:
        return ""
    told = "; ".join(f"{t.key.hardware}, vLLM {t.key.vllm}, {t.key.workload}" for t in others[:3])
    more = f" and {len(others) - 3} more" if len(others) > 3 else ""
    return f" There are measurements for: {told}{more}."


def _text(settings: Mapping[str, int]) -> str:
    return ", ".join(f"{name}={value:,}" for name, value in settings.items()) or "nothing to set"

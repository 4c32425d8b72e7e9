"""The job of tuning, and its check."""

from typing import Annotated, Self

from pydantic import BeforeValidator, Field, model_validator

from regrade.comparing.checking import plans_to_score
from regrade.engines.vllm import VllmEngine
from regrade.jobs.job import GenerationJob, of_kind
from regrade.jobs.plan import Plan
from regrade.jobs.plans_of_job import begin
from regrade.settings import LatencyLimits
from regrade.settings.errors import SettingsError
from regrade.settings.marks import FIRST, NOT_MEASURED, Absent, Option
from regrade.tuning.search.records import TuningKey, key_of


class TuneJob(GenerationJob):
    """Answers to generate while the fastest engine settings are searched for."""

    lacks = (NOT_MEASURED,)

    limits: Annotated[LatencyLimits, FIRST] = Field(
        LatencyLimits(), title="Limits on latency", examples=["{ttft_p99: 2}"]
    )
    """Largest accepted latencies. Default: only throughput counts."""
    starts: Annotated[int, FIRST, Option(group="Search")] = Field(
        4, ge=1, le=32, title="Engine starts"
    )
    """Most engine starts."""
    engine: Annotated[VllmEngine, BeforeValidator(of_kind)] = VllmEngine()
    """Settings of vLLM that stay; `max_num_seqs` is the most requests in flight that are tried, for each copy of the model. A server is measured by
    `regrade sweep --in-flight 1,4,16`."""
    goodput: Absent = None

    @model_validator(mode="after")
    def _can_be_tuned(self) -> Self:
        if len(self.names) > 1:
            raise ValueError(
                f"settings are tuned for one kind of workload, but {len(self.names)} benchmarks are given ({', '.join(self.names)}). Give the one whose questions are like those of the runs to come"
            )
        return self

    def key(self, plan: Plan) -> TuningKey:
        """Return the key of the measurements.

        Raises:
            SettingsError: If the answers are to conversations, parts of which cannot be asked in any order; or as `key_of`.
        """
        if plan.converses:
            raise SettingsError(
                f"{plan.specification.title}: the turns of conversations wait for answers, so that they cannot be asked again and again. Tune with another benchmark."
            )
        return key_of(plan, self.limits.given)


def begin_tuning(job: TuneJob) -> list[Plan] | None:
    """Check and plan what is tuned, whose flow is about to run in this process; see `begin`.

    Raises:
        RegradeError: As `plans_to_score` and `TuneJob.key`.
    """
    plans = begin(plans_to_score, job)
    for plan in plans or ():
        job.key(plan)
    return plans

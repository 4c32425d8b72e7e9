"""Jobs of comparing: `regrade compare` and the flow `compare-models`, `regrade gate`, and `regrade noise`."""

import os
from functools import partial
from typing import Annotated

from pydantic import Field

from regrade.comparing.beforehand import check_pairs
from regrade.comparing.comparison import CompareOptions
from regrade.comparing.gate import gate, sides_to_judge
from regrade.comparing.gate_report import GateReport
from regrade.comparing.models import Cluster
from regrade.comparing.sides import Side
from regrade.comparing.together import ComparedBenchmarks, compare_sides
from regrade.engines.vllm import VllmEngine
from regrade.engines.vllm_process.build import runs_on_cpu
from regrade.jobs.job import Answers, EvaluationJob, Scoring, TrackingUri, default_answers
from regrade.settings import (
    ComparedScorer,
    Difference,
    GateSettings,
    Reuse,
    ScoringOptions,
    Settings,
)
from regrade.settings.errors import SettingsError
from regrade.settings.marks import (
    ABSENT,
    FIRST,
    INDECISIVE,
    NAME,
    NO_OPTION,
    NOT_MEASURED,
    PATH,
    Option,
)
from regrade.settings.settings import BASELINE_ANSWERS


class CandidateSettings(Settings):
    """Stored answers to compare with those of a baseline."""

    option_group = "What to compare"

    candidate: Annotated[str, PATH, NAME, NO_OPTION] = Field(min_length=1)
    """Answer set id, model or alias."""
    benchmarks: Annotated[tuple[str, ...], Option(("--benchmark",))] = ()
    """Benchmarks to compare. Empty: all of the baseline."""
    answers: Answers = Field(default_factory=default_answers)
    scorer: ComparedScorer | None = None
    """Scorer for both sides; original: the scores that came with imported answers. Default: the baseline's first scorer that the
    candidate also has, original if no right answers came with them."""
    examples: int = Field(3, ge=0)
    """Number of changed answers to show of each kind (right to wrong, wrong to right)."""
    tracking_uri: TrackingUri = None


class CompareJob(CandidateSettings):
    """Stored answers of two sides to compare."""

    base: Annotated[str, PATH, NAME, FIRST, NO_OPTION] = Field(min_length=1, title="Baseline")
    """Answer set id, model, or an alias such as `baseline`."""
    base_answers: Annotated[str | None, PATH, BASELINE_ANSWERS] = Field(
        None, title="Answer repository of the baseline"
    )
    """Answer repository of the baseline, if it differs. Default: the same repository."""
    min_coverage: float | None = Field(None, ge=0, le=100)
    """Smallest accepted share of the questions compared, in percent. Default: 90, unless `overlap` is allowed."""
    allow: tuple[Difference, ...] = Field((), title="Differences that are meant")
    """Intended differences between the two sides; others are refused."""
    clusters: Cluster = Field("question", title="Independent of each other")
    """Unit that is independent: `question`, or `subset` if a subset is a passage with several questions."""
    gate: GateSettings | None = None
    """Limits of the verdict; its baseline is the one above. Default: no verdict."""
    scoring: Scoring = ScoringOptions()

    def compared(self) -> ComparedBenchmarks:
        """Compare the two sides; raises the errors of `compare_sides`; with a gate of `sides_to_judge` and `check_pairs`, too."""
        limits = self.gate or GateSettings()
        coverage = limits.min_coverage if self.min_coverage is None else self.min_coverage
        base_answers = self.base_answers or limits.base_answers or self.answers
        base: str | Side = self.base
        candidate: str | Side = self.candidate
        if self.gate is not None:
            base, candidate = sides_to_judge(
                self.base, self.candidate, self.answers, base_answers, self.benchmarks
            )
        return compare_sides(
            base,
            candidate,
            answers=self.answers,
            base_answers=base_answers,
            benchmarks=self.benchmarks,
            options=CompareOptions(
                allow=(*self.allow, *limits.allow),
                min_coverage=None if coverage is None else coverage / 100,
                scorer=self.scorer,
                cluster=self.clusters,
                examples=self.examples,
                scoring=self.scoring,
            ),
            check=None if self.gate is None else partial(check_pairs, self.gate),
        )


class GateJob(CandidateSettings, GateSettings):
    """Stored answers to judge against a baseline."""

    option_group = "What to compare, and limits of the verdict"
    promote: Annotated[bool, ABSENT] = False
    stop_when_sure: Annotated[bool, ABSENT] = False
    scoring: Scoring = ScoringOptions()

    def verdict(self) -> GateReport:
        """Return the verdict; raises the errors of `gate`."""
        return gate(
            self.candidate,
            GateSettings(**self.shared_with(GateSettings)),
            answers=self.answers,
            benchmarks=self.benchmarks,
            scorer=self.scorer,
            examples=self.examples,
            scoring=self.scoring,
        )


BATCH_INVARIANT = "VLLM_BATCH_INVARIANT"
"""Variable that tells vLLM to compute each answer independently of those computed with it."""


class NoiseJob(EvaluationJob):
    """Questions to ask a model a second time, to measure what an unchanged model changes."""

    lacks = (NOT_MEASURED, INDECISIVE)

    in_flight: Annotated[int, FIRST, Option(("--in-flight",))] = Field(
        16, ge=1, title="Requests in flight"
    )
    """Most requests at a time when the questions are asked again, in a random order. The first time it is as many as the engine
    takes, in the order of the benchmark."""
    order: Annotated[int, FIRST, Option(("--order",))] = Field(1, ge=0, title="Random order")
    """Number of the random order; another one asks once more."""
    examples: int = Field(3, ge=0)
    """Number of changed answers to show of each kind (right to wrong, wrong to right)."""
    reuse: Annotated[Reuse, ABSENT] = Reuse()

    def needs_judge(self, benchmark: str) -> str:
        """Return the reason why the noise of a benchmark's answers cannot be measured."""
        return (
            f"A judge model grades the answers to '{benchmark}', which has noise of its own. Name another scorer (`--scorer`), or "
            "leave the benchmark out."
        )

    @property
    def batch_invariant(self) -> bool:
        """The engine is told to compute each answer independently of the others, so that this is what is measured."""
        return isinstance(self.engine, VllmEngine) and os.environ.get(BATCH_INVARIANT, "0") != "0"

    def check_invariance(self) -> None:
        """Refuse to measure the batch-invariant mode where vLLM does not have it.

        Raises:
            SettingsError: On a CPU.
        """
        if self.batch_invariant and runs_on_cpu():
            raise SettingsError(
                f"{BATCH_INVARIANT}={os.environ[BATCH_INVARIANT]} is set, but vLLM has its batch-invariant mode for GPUs only, and the "
                "vLLM here computes on the CPU: whether the mode holds cannot be tried here. Unset the variable to measure the noise "
                "floor of this machine, or run the same command on a machine with a GPU."
            )

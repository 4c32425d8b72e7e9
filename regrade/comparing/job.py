"""Jobs of comparing: `regrade compare` and the flow `compare-models`, and `regrade gate`."""

from typing import Annotated

from pydantic import Field

from regrade.comparing.comparison import CompareOptions
from regrade.comparing.gate import gate
from regrade.comparing.gate_report import GateReport
from regrade.comparing.models import Cluster
from regrade.comparing.together import ComparedBenchmarks, compare_sides
from regrade.jobs.job import Answers, Scoring, TrackingUri, default_answers
from regrade.settings import Difference, GateSettings, ScorerName, ScoringOptions, Settings
from regrade.settings.marks import ABSENT, FIRST, NAME, NO_OPTION, PATH, Option
from regrade.settings.settings import BASELINE_ANSWERS


class Candidate(Settings):
    """Stored answers to compare with those of a baseline."""

    option_group = "What to compare"

    candidate: Annotated[str, PATH, NAME, NO_OPTION] = Field(min_length=1)
    """Answer set id, model or alias."""
    benchmarks: Annotated[tuple[str, ...], Option(("--benchmark",))] = ()
    """Benchmarks to compare. Empty: all of the baseline."""
    answers: Answers = Field(default_factory=default_answers)
    scorer: ScorerName | None = None
    """Scorer for both sides. Default: the baseline's first scorer that the candidate also has."""
    examples: int = Field(3, ge=0)
    """Number of changed answers to show of each kind (right to wrong, wrong to right)."""
    tracking_uri: TrackingUri = None


class CompareJob(Candidate):
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
        """Compare the two sides; raises the errors of `compare_sides`."""
        limits = self.gate or GateSettings()
        coverage = limits.min_coverage if self.min_coverage is None else self.min_coverage
        return compare_sides(
            self.base,
            self.candidate,
            answers=self.answers,
            base_answers=self.base_answers or limits.base_answers,
            benchmarks=self.benchmarks,
            options=CompareOptions(
                allow=(*self.allow, *limits.allow),
                min_coverage=None if coverage is None else coverage / 100,
                scorer=self.scorer,
                cluster=self.clusters,
                examples=self.examples,
                scoring=self.scoring,
            ),
        )


class GateJob(Candidate, GateSettings):
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

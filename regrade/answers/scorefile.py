"""The JSON file of a scoring, beside its table of scores. Scorings never overwrite each other."""

import hashlib
from collections.abc import Mapping, Sequence

from pydantic import Field

from regrade.records.columns import SCHEMA_VERSION, json_text
from regrade.settings import AnswerSetId, Seconds, StoredName, StrictModel, Timestamp, registry
from regrade.stats.metrics import Summary
from regrade.stats.named import Aggregate
from regrade.stats.scale import SHARES, Scale, percent

ORIGINAL = registry.ORIGINAL


class OriginalScoring(StrictModel):
    """Scores that came with imported answers, on the original tool's scale."""

    tool: str
    """Imported format, such as `lm-eval`."""
    name: str
    """Scorer or metric of the tool, such as `exact_match,strict-match`."""
    low: float = 0.0
    """Worst value of the scale; the table has values scaled so that `low` is 0 and `high` is 1."""
    high: float = 1.0
    """Best value of the scale."""
    reported: float | None = None
    """Result that the tool reported for its whole run, which may include answers that were not imported."""
    reported_stderr: float | None = None
    reported_n: int | None = None
    """Number of answers behind `reported`; None: unknown."""
    reported_out_of: float = 1.0
    """Value of a perfect score in `reported`: 1, or 100 for percentages."""

    @property
    def title(self) -> str:
        """Tool and metric, with the reported result and its number of answers."""
        title = f"{self.tool} {self.name}"
        if self.reported is None:
            return title
        n = "n not known" if self.reported_n is None else f"n = {self.reported_n:,}"
        return f"{title}, reported {percent(self.reported / self.reported_out_of)}, {n}"


class SetDocument(StrictModel):
    """A JSON file about an answer set, beside a table of the same name."""

    schema_version: int = SCHEMA_VERSION
    answer_set_id: AnswerSetId

    @property
    def label(self) -> str:
        """File name without extension."""
        raise NotImplementedError


class ScoreFile(SetDocument):
    """The JSON file of a scoring: `scores/<folder>/<scorer>-<version>-<hash>.json`."""

    scorer: StoredName
    version: int
    source_hash: str = Field(pattern=r"^[0-9a-f]{8}$")
    """First 8 digits of the sha256 of the scorer's source."""
    environment: dict[str, str] = Field(default_factory=dict)
    """Versions and settings outside the scorer's source that decide its scores, such as the sandbox and its limits."""
    answers_revision: str
    """Commit of the scored answers."""
    answers: tuple[str, ...]
    """sha256 of the scored shards; the scores are stale if the manifest has others."""
    left_out: tuple[str, ...] = ()
    """Names of damaged shards that were left out on request (`--intact`). Such a scoring is always stale, and its
    label names the number of shards."""
    better_scorers: tuple[StoredName, ...] = ()
    """Scorers that find right answers in a sample of these, of which this scorer finds none right. Such a scoring never
    gives the headline number."""
    low_coverage: float | None = None
    """Share of the rows with a value, if it is below the floor of such a scorer, so that this is no headline number."""
    scale: Scale = SHARES
    """Scale of the values of the table and of the accuracies of `summary`."""
    summary: Summary
    aggregates: tuple[Aggregate, ...] = ()
    """Results that the scorer computed by itself and that do not follow from the table of scores."""
    scored_at: Timestamp
    score_seconds: Seconds
    original: OriginalScoring | None = None
    """Set if `scorer` is `original`: imported scores, with the `source_hash` of their file."""

    @property
    def label(self) -> str:
        """File name without extension: `code_label`, `environment_suffix` and `suffix`."""
        return f"{self.code_label}{environment_suffix(self.environment)}{self.suffix}"

    @property
    def code_label(self) -> str:
        """`<scorer>-<version>-<hash>`."""
        return f"{self.scorer}-{self.version}-{self.source_hash}"

    @property
    def other_results(self) -> tuple[Aggregate, ...]:
        """Results beside the accuracy: means of the scorer's named values, and those that it computed by itself."""
        means = (
            Aggregate(subset="", name=name, **metric.model_dump())
            for name, metric in self.summary.metrics.items()
        )
        return (*means, *self.aggregates)

    @property
    def suffix(self) -> str:
        """`-intact-<k>-of-<n>` if shards were left out, else empty."""
        return f"-intact-{self._parts}".replace(" ", "-") if self.left_out else ""

    @property
    def intact_only(self) -> str | None:
        """Note to show with the numbers, such as `intact only: 3 of 4 shards`; None if no shard was left out."""
        return f"intact only: {self._parts} shards" if self.left_out else None

    def is_headline(self, scorers: Sequence[str]) -> bool:
        """Return True if this scoring may give a benchmark's headline number: by its first scorer, whole, and fitting."""
        doubtful = self.left_out or self.better_scorers or self.low_coverage is not None
        return self.scorer == scorers[0] and not doubtful

    @property
    def title(self) -> str:
        """Scorer and version for display, with the notes `intact_only` and `does not fit`."""
        if self.original is not None:
            return f"{self.scorer} ({self.original.title})"
        name = f"{self.scorer} v{self.version}"
        marks = [
            self.intact_only,
            "does not fit" if self.better_scorers else None,
            None if self.low_coverage is None else f"verdicts on {percent(self.low_coverage)} only",
        ]
        return ", ".join([name, *filter(None, marks)])

    @property
    def _parts(self) -> str:
        return f"{len(self.answers)} of {len(self.answers) + len(self.left_out)}"


def environment_suffix(environment: Mapping[str, str]) -> str:
    """Return `-` and the first 8 digits of the sha256 of an environment; "" for an empty one."""
    if not environment:
        return ""
    return f"-{hashlib.sha256(json_text(environment).encode()).hexdigest()[:8]}"

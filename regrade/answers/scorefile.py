"""What is kept of one scoring, beside its table of scores. Scores never overwrite those of other scorers."""

from pydantic import AwareDatetime, Field

from regrade.records import SCHEMA_VERSION
from regrade.settings import Settings, StoredName
from regrade.stats.metrics import Summary

ORIGINAL = "original"
"""Takes the place of the scorer's name where the scores are those that came with imported answers."""


class OriginalScoring(Settings):
    """What another tool said of answers that were imported, in its own words and numbers."""

    tool: str
    """Format that was imported, such as `lm-eval`."""
    name: str
    """Its scorer or metric, such as `exact_match,strict-match`."""
    low: float = 0.0
    """Worst value of its scale; the values in the table are shares of the way from `low` to `high`."""
    high: float = 1.0
    reported: float | None = None
    """What it reported for its whole run, which may have had more answers than were imported. None: nothing."""
    reported_stderr: float | None = None
    reported_n: int | None = None
    """Answers that `reported` is over; None: not known."""
    reported_out_of: float = 1.0
    """What a perfect score is: 1, or 100 where it reports percentages."""

    @property
    def title(self) -> str:
        """Tool and metric, with what was reported and of how many answers: it may be of more than are here."""
        title = f"{self.tool} {self.name}"
        if self.reported is None:
            return title
        n = "n not known" if self.reported_n is None else f"n = {self.reported_n:,}"
        return f"{title}, reported {100 * self.reported / self.reported_out_of:.1f} %, {n}"


class ScoreFile(Settings):
    """The JSON file of one scoring: `scores/<folder>/<scorer>-<version>-<hash>.json`."""

    schema_version: int = SCHEMA_VERSION
    answer_set_id: str = Field(pattern=r"^[0-9a-f]{16}$")
    scorer: StoredName
    version: int
    source_hash: str = Field(pattern=r"^[0-9a-f]{8}$")
    """First digits of the sha256 of the scorer's source."""
    answers_revision: str
    """Commit of the answers that were scored."""
    answers: tuple[str, ...]
    """sha256 of the shards that were scored; other shards in the manifest make the scores stale."""
    left_out: tuple[str, ...] = ()
    """Names of the shards that are damaged and were left out, because that was asked for. Such a scoring is never
    the scoring of its answer set: its label says so, and it is stale from the beginning."""
    summary: Summary
    scored_at: AwareDatetime
    score_seconds: float
    original: OriginalScoring | None = None
    """Set where `scorer` is `original`: these scores came with the answers, `source_hash` is of their file."""

    @property
    def label(self) -> str:
        """`<scorer>-<version>-<hash>`, the name of its files; with `-intact-<k>-of-<n>` where shards were left out."""
        return f"{self.scorer}-{self.version}-{self.source_hash}{self.suffix}"

    @property
    def suffix(self) -> str:
        """`-intact-<k>-of-<n>` where shards were left out, else nothing."""
        return f"-intact-{self._parts}".replace(" ", "-") if self.left_out else ""

    @property
    def intact_only(self) -> str | None:
        """`intact only: 3 of 4 shards`, for every place that shows its numbers; None for a normal scoring."""
        return f"intact only: {self._parts} shards" if self.left_out else None

    @property
    def title(self) -> str:
        """Scorer and version as people read it, with `intact_only` where shards were left out."""
        if self.original is not None:
            return f"{self.scorer} ({self.original.title})"
        name = f"{self.scorer} v{self.version}"
        return f"{name}, {self.intact_only}" if self.left_out else name

    @property
    def _parts(self) -> str:
        return f"{len(self.answers)} of {len(self.answers) + len(self.left_out)}"

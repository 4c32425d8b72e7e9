"""State of an answer set that is being generated, for Prometheus."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerSetState:
    """Counts of an answer set; totals are those of this run."""

    benchmark: str
    model: str
    answer_set: str
    planned: int
    """Answers of the complete set."""
    stored: int
    """Answers from earlier runs, and those that other machines have published meanwhile."""
    answers: int = 0
    """Answers of this run on disk, failed ones included."""
    failed: int = 0
    """Answers whose request failed and may succeed if it is sent again."""
    refused: int = 0
    """Answers whose request cannot succeed."""
    prompt_tokens: int = 0
    completion_tokens: int = 0
    in_engine: int = 0
    """Requests that the engine is working on."""
    spool_rows: int = 0
    """Answers on disk that are not published."""
    spool_bytes: int = 0
    commits: int = 0
    failed_commits: int = 0
    last_commit: float | None = None
    """Time of the last commit, as seconds since 1970; None before the first."""
    load_seconds: float | None = None
    """Time that the engine took to load; None before it is loaded."""

    @property
    def left(self) -> int:
        """Answers that are not on disk yet."""
        return max(self.planned - self.stored - self.answers, 0)

"""An answer set with a fresh scoring, row by row, as exports need it."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Protocol

from regrade.answers.rows import row_keys
from regrade.answers.scorefile import ScoreFile
from regrade.answers.sets import AnswerSet
from regrade.judging.labels.calibrate import calibrate
from regrade.records.rubrics.facts import JudgeRun, judge_run
from regrade.scoring.score import is_stale
from regrade.settings.errors import SettingsError

COLUMNS = (
    "sample_id",
    "index",
    "repeat",
    "subset",
    "question",
    "prompt",
    "prompt_kind",
    "target",
    "choices",
    "text",
    "reasoning",
    "label_logprobs",
    "finish_reason",
    "prompt_tokens",
    "completion_tokens",
    "time_to_first_token",
    "latency",
    "error",
)


@dataclass(frozen=True, slots=True)
class ScoredSet:
    """An answer set and one of its scorings."""

    answers: AnswerSet
    scoring: ScoreFile

    @property
    def run(self) -> JudgeRun | None:
        """Facts of the judge run if the answers are a judge's verdicts on stored answers."""
        run = judge_run(self.answers.manifest.specification)
        return None if run is None or run.judged is None else run

    @property
    def by_labels(self) -> str | None:
        """Figure that people's labels correct, or `uncalibrated`; None without a judge and labels."""
        found = calibrate(self.answers, self.scoring)
        return None if found is None else found.text

    @property
    def url(self) -> str | None:
        """Page of the answers at their commit; None for a folder."""
        return self.answers.repository.url(self.answers.revision, self.answers.folder)

    def rows(self) -> Iterator[dict[str, Any]]:
        """Yield `COLUMNS` with `value`, `extracted` and `outcome`, in stored order.

        Only what the repository holds: questions that must not be published are None, even on a machine that has them.

        Raises:
            DamagedAnswersError: If answers or scores are damaged.
        """
        table = self.answers.score_table(self.scoring.label)
        scores = dict(zip(row_keys(table), table.to_pylist(), strict=True))
        for shard in self.answers.manifest.shards:
            for batch in self.answers.shard(shard, COLUMNS).batches():
                for key, row in zip(row_keys(batch), batch.to_pylist(), strict=True):
                    score = {name: scores[key][name] for name in ("value", "extracted", "outcome")}
                    yield self.answers.public(row) | score


class Exporter(Protocol):
    """Writes an answer set in a format."""

    def __call__(self, scored: ScoredSet, folder: Path, made_at: datetime) -> list[Path]:
        """Write files into a folder, and return them."""


def scored_set(answers: AnswerSet, scorer: str | None = None) -> ScoredSet:
    """Return an answer set with a scoring that is not stale.

    Args:
        answers: Answer set.
        scorer: Scorer. None: the one that gives the headline number.

    Raises:
        SettingsError: If there is no such scoring.
    """
    names = answers.manifest.scorers
    files = [file for file in answers.scores() if not is_stale(file, answers)]
    fitting = [
        file
        for file in files
        if (file.is_headline(names) if scorer is None else file.scorer == scorer)
    ]
    if fitting:
        return ScoredSet(answers, max(fitting, key=lambda file: file.scored_at))
    by = "its first scorer" if scorer is None else f"'{scorer}'"
    option = "" if scorer is None else f" --scorer {scorer}"
    raise SettingsError(
        f"Answer set '{answers.manifest.answer_set_id}' has no up-to-date scoring by {by}. Make it first: "
        f"`regrade score --answer-set {answers.manifest.answer_set_id}{option}`."
    )

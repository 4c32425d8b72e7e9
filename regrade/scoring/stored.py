"""Scores of an answer set by the current version of a scorer, stored or not."""

import pyarrow as pa

from regrade.answers.scorefile import ScoreFile
from regrade.answers.sets import AnswerSet
from regrade.errors import DamagedAnswersError
from regrade.scoring.score import score_answers
from regrade.settings import ScoringOptions


def current_scores(
    answers: AnswerSet, scorer: str, options: ScoringOptions | None = None
) -> tuple[ScoreFile, pa.Table]:
    """Return the scores of the current version of a scorer: the stored ones, else computed and not stored.

    Args:
        answers: Answer set at a pinned revision.
        scorer: Name of an installed scorer, or `path/to/file.py:name`.
        options: How scorers run that need processes or a sandbox.

    Raises:
        SettingsError: If the scorer cannot score these answers.
        DamagedAnswersError: If stored answers or scores are damaged.
    """
    scored = score_answers(answers, scorer, options=options)
    file = scored.file
    if scored.table is not None:
        return file, scored.table
    return file, stored_table(answers, file)


def stored_table(answers: AnswerSet, file: ScoreFile) -> pa.Table:
    """Return the table of a stored scoring of all answers.

    Raises:
        DamagedAnswersError: If it is damaged, or has another number of rows.
    """
    table = answers.score_table(file.label)
    if table.num_rows != answers.manifest.rows:
        raise DamagedAnswersError(
            f"{answers.scores_folder}/{file.label}.parquet",
            f"it has {table.num_rows:,} rows, the answers have {answers.manifest.rows:,}. Score them again "
            "with `regrade score --force`.",
        )
    return table

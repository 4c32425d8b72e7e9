"""A few wrong answers of a scoring, to show beside its results."""

import shlex
from typing import Any

import numpy as np
import pyarrow as pa

from regrade.answers.scorefile import ScoreFile
from regrade.answers.sets import AnswerSet
from regrade.scoring.batches import stored_rows
from regrade.settings.view_address import view_address
from regrade.stats.metrics import score_values

MOST = 10
"""Wrong answers shown."""
CHARACTERS = 2_000
"""Longest text shown. A longer text is shown by its end, which has the question or the final answer."""
_COLUMNS = ("sample_id", "repeat", "subset", "question", "prompt", "text", "target")


def wrong_examples(
    answers: AnswerSet, file: ScoreFile, table: pa.Table | None
) -> list[dict[str, Any]]:
    """Return wrong answers, evenly spaced over the set; none for withheld questions, or if answers were left out.

    Args:
        answers: Answer set.
        file: Scoring.
        table: Its rows, in the order of the answers. None: they are read.
    """
    if answers.manifest.withheld or file.left_out:
        return []
    scores = answers.score_table(file) if table is None else table
    wrong = np.flatnonzero(file.scale.shares(score_values(scores)) < 1)  # missing values are NaN
    if not wrong.size or scores.num_rows != answers.manifest.rows:
        return []
    chosen = wrong[
        np.unique(np.linspace(0, len(wrong) - 1, min(MOST, len(wrong))).round().astype(int))
    ]
    rows = stored_rows(answers, chosen.tolist(), _COLUMNS)
    found = []
    for stored, score in zip(rows, scores.take(chosen).to_pylist(), strict=True):
        if (stored["sample_id"], stored["repeat"]) != (score["sample_id"], score["repeat"]):
            return []  # the order differs from that of the answers: no text is better than another answer's
        found.append(_example(answers, stored, score))
    return found


def _example(answers: AnswerSet, stored: dict[str, Any], score: dict[str, Any]) -> dict[str, Any]:
    set_id = answers.manifest.answer_set_id
    address = view_address(
        answers.repository.uri, set_id, sample_id=stored["sample_id"], repeat=stored["repeat"]
    )
    ranked = stored["text"] is None  # the prompt has the choices
    asked = stored["prompt"] if ranked or stored["question"] is None else stored["question"]
    return {
        "question": _end(asked),
        "answer": _end(stored["text"]),
        "extracted": _end(score["extracted"]),
        "target": _end(stored["target"]),
        "outcome": score["outcome"],
        "subset": stored["subset"],
        "read it": address or _command(answers, stored),
    }


def _command(answers: AnswerSet, stored: dict[str, Any]) -> str:
    words = ["regrade", "show", answers.manifest.answer_set_id, "--sample", stored["sample_id"]]
    if stored["repeat"]:
        words += ["--repeat", str(stored["repeat"])]
    return shlex.join([*words, "--answers", answers.repository.uri])


def _end(text: str | None) -> str:
    if text is None:
        return ""
    return text if len(text) <= CHARACTERS else f"… {text[-CHARACTERS:]}"

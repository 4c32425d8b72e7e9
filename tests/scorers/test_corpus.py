"""Texts as models write them, with what a careful reader reads: `corpus.jsonl`, a line for each text.

`reads` is the answer in the scorer's form, null if the text gives no answer. `unread` says why a scorer finds no answer
although a reader does: missing an answer is a documented limit, reading another one is not. `format` is the format of the
prompt, if it matters. `target` and `right` are given where the comparison matters.
"""

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from regrade.scorers import load_scorer
from regrade.scorers.base import PROMPT_FORMAT, SHARED_COLUMNS
from tests.scorers.batches import any_target, batch_score, generations

CHOICES = ("Paris", "Rome", "Berlin", "Madrid")
CORPUS: list[dict[str, Any]] = [
    json.loads(line)
    for line in (Path(__file__).parent / "corpus.jsonl").read_text("utf-8").splitlines()
]
SCORERS = sorted({row["scorer"] for row in CORPUS})


def scores(scorer: str, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    loaded = load_scorer(scorer)
    targets = [row.get("target") or row["reads"] or any_target(scorer) for row in rows]
    batch = generations([row["text"] for row in rows], targets, choices=[CHOICES] * len(rows))
    formats = pa.array([row.get("format") for row in rows], pa.string())
    columns = batch.select([*SHARED_COLUMNS, *loaded.columns])
    return batch_score(scorer)(columns.append_column(PROMPT_FORMAT, formats)).to_pylist()


@pytest.mark.parametrize("scorer", SCORERS)
def test_a_scorer_reads_what_a_careful_reader_reads(scorer: str) -> None:
    rows = [row for row in CORPUS if row["scorer"] == scorer]

    wrong = [
        (row["text"], row["reads"], score["extracted"])
        for row, score in zip(rows, scores(scorer, rows), strict=True)
        if score["extracted"] != (None if "unread" in row else row["reads"])
    ]

    assert wrong == []


@pytest.mark.parametrize("scorer", SCORERS)
def test_the_place_of_an_answer_holds_what_was_read(scorer: str) -> None:
    rows = [row for row in CORPUS if row["scorer"] == scorer]

    found = scores(scorer, rows)
    places = [(score["start"], score["end"]) for score in found]
    texts = [row["text"][start:end] for row, (start, end) in zip(rows, places, strict=True)]
    again = scores(scorer, [{**row, "text": text} for row, text in zip(rows, texts, strict=True)])

    for score, place, score_again in zip(found, places, again, strict=True):
        if score["extracted"] is None:
            assert (*place, score["outcome"], score["value"]) == (None, None, "unparsed", 0.0)
        elif scorer == "number_strict":  # the place does not hold the `####`
            assert place[0] < place[1]
        else:
            assert score_again["extracted"] == score["extracted"]


def test_right_and_wrong_follow_from_the_targets() -> None:
    rows = [row for row in CORPUS if "right" in row]
    by_scorer = {scorer: [row for row in rows if row["scorer"] == scorer] for scorer in SCORERS}

    for scorer, some in by_scorer.items():
        found = [score["value"] == 1.0 for score in scores(scorer, some)] if some else []
        differ = [
            row["text"] for row, right in zip(some, found, strict=True) if row["right"] != right
        ]
        assert differ == []


def test_the_corpus_is_large_and_its_limits_are_few() -> None:
    counts = Counter("unread" in row for row in CORPUS)

    assert len(CORPUS) >= 400
    assert counts[True] <= 0.06 * len(CORPUS)


def test_the_examples_of_the_docs_are_texts_of_the_corpus() -> None:
    page = (Path(__file__).parents[2] / "docs/scorers.md").read_text(encoding="utf-8")
    known = {(row["scorer"], row["text"]): row["reads"] for row in CORPUS}
    examples = re.findall(r"^\| `(\w+)` \| `(.+)` \| (?:`(.+)`|unparsed) \|$", page, re.MULTILINE)

    found = [
        (scorer, text.replace("` ⏎ `", "\n"), reads or None) for scorer, text, reads in examples
    ]

    assert len(found) >= 15
    assert [(s, t, known.get((s, t), "not there")) for s, t, _ in found] == found

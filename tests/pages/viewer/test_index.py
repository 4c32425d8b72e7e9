"""Indexes of answers: scores that lack rows, or are in another order; and orders."""

import numpy as np
import pyarrow as pa
import pytest

from regrade.answers.local import LocalRepository
from regrade.pages.viewer.index import aligned
from regrade.pages.viewer.selecting import stable_order
from regrade.records.columns import SCORING_SCHEMA
from tests.builders import row
from tests.pages.viewer.reading import Reader
from tests.stored import publish, score


def scores(keys: list[tuple[str, int]]) -> pa.Table:
    """A scoring with one row for each key; the value tells them apart."""
    rows = [
        {"sample_id": sample, "repeat": repeat, "outcome": "scored", "value": float(number)}
        for number, (sample, repeat) in enumerate(keys)
    ]
    filled = [
        {field.name: row.get(field.name) for field in SCORING_SCHEMA} | {"truncated": False}
        for row in rows
    ]
    return pa.Table.from_pylist(filled, schema=SCORING_SCHEMA)


ANSWERS = [("a", 0), ("a", 1), ("b", 0), ("b", 1), ("c", 0)]


@pytest.mark.parametrize(
    "scored",
    [
        ANSWERS,
        ANSWERS[::-1],
        [("b", 1), ("a", 0)],
        [("z", 0), ("c", 0), ("a", 7), ("a", 1)],
        [("z", 3)],
        [],
    ],
)
def test_each_answer_has_its_score_or_null(scored: list[tuple[str, int]]):
    ids = pa.array([sample for sample, _ in ANSWERS])
    repeat = np.array([number for _, number in ANSWERS], np.int32)
    found = aligned(scores(scored), ids, repeat)
    known = {key: float(number) for number, key in enumerate(scored)}
    assert found["value"].to_pylist() == [known.get(key) for key in ANSWERS]
    assert found["outcome"].to_pylist() == [
        "scored" if key in known else "failed" for key in ANSWERS
    ]


@pytest.mark.parametrize(
    "keys",
    [
        [],
        [3.0, -1.0, 3.0, 0.0, -0.0, 0.0, np.nan, -np.inf, np.inf, -3.5, 1e-40, -1e-40],
        [np.nan, -np.nan, 1.0, -np.nan],
        np.random.default_rng(0).integers(-300, 70_000, 5_000).tolist(),
        np.random.default_rng(1).normal(size=5_000).tolist(),
    ],
)
def test_the_order_is_the_stable_one_of_numpy(keys: list[float]):
    values = np.array(keys, np.float32)
    assert stable_order(values).tolist() == np.argsort(values, kind="stable").tolist()
    assert stable_order(-values).tolist() == np.argsort(-values, kind="stable").tolist()


def test_what_was_read_is_in_alphabetic_order_and_nothing_comes_last(reader: Reader):
    read = ["30", None, "4", "30", "-1", None, "200"]
    texts = ["nothing" if value is None else f"#### {value}" for value in read]
    set_id = stored_set(reader.repository, texts)

    def order(query: str) -> list[int]:
        return [int(text.split()[0]) for text in reader.page(f"/sets/{set_id}?{query}").rows]

    given = [number for number, value in enumerate(read) if value is not None]
    upwards = sorted(given, key=lambda number: str(read[number]))
    assert order("sort=extracted") == [*upwards, 1, 5]
    downwards = sorted(upwards, key=lambda number: str(read[number]), reverse=True)
    assert order("sort=extracted&descending=yes") == [*downwards, 1, 5]


def stored_set(repository: LocalRepository, texts: list[str]) -> str:
    answers = publish(repository, [row(number, text) for number, text in enumerate(texts)])
    score(answers)
    return answers.manifest.answer_set_id


def test_a_shard_is_checked_once_for_all_its_columns(
    reader: Reader, monkeypatch: pytest.MonkeyPatch
):
    set_id = stored_set(reader.repository, ["#### 0", "#### 2"])
    fetched: list[str] = []
    fetch = LocalRepository.fetch

    def counted(self: LocalRepository, path: str, revision: str) -> object:
        fetched.append(path)
        return fetch(self, path, revision)

    monkeypatch.setattr(LocalRepository, "fetch", counted)
    for query in ("", "?sort=length", "?q=2", "/answer?sample=sample-00001"):
        reader.page(f"/sets/{set_id}{query}")
    assert (
        len([path for path in fetched if path.startswith("answers/") and path.endswith(".parquet")])
        == 1
    )

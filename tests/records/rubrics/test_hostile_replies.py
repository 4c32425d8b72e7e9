"""Hostile replies of a judge: reading takes bounded time, and a reply that is no verdict is never one."""

from functools import partial

import pytest

from regrade.records.rubrics import RUBRICS, open_rubric
from regrade.records.rubrics.facts import rubric_facts
from regrade.records.rubrics.reading import read_verdict
from tests.scorers.test_hostile import MEGABYTE, PIECES, SECONDS
from tests.timing import taking_less_than


@pytest.mark.parametrize(
    ("name", "step"),
    [  # rubrics of one field, of several and of criteria are read in different ways
        *(("mt_bench", 8), ("accuracy_style", 8), ("criteria", 8)),
        *(pytest.param(name, 1, marks=pytest.mark.slow) for name in RUBRICS),
    ],
)
def test_a_megabyte_of_anything_is_no_verdict_within_bounded_time(name: str, step: int) -> None:
    rubric = rubric_facts(open_rubric(name))
    for piece in (*PIECES[::step], "!", "{", '{"verdict": ', "verdict: ", "```json\n", "[["):
        much = piece * (MEGABYTE // len(piece))
        for text in (much, f"verdict: {much}x", f"```json\n{much}\n```", f"x\ngrade = {much}A"):
            reading = taking_less_than(SECONDS, partial(read_verdict, text, rubric, criteria=2))
            assert reading is None, (piece, text[:20])

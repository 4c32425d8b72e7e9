import re

import numpy as np
import pyarrow as pa
import pytest
from pydantic import ValidationError

from regrade.records.columns import SCORING_SCHEMA
from regrade.stats.metrics import summarise
from regrade.stats.scale import SHARES, Scale, percent
from tests.command_line import ROOT

POINTS = Scale(low=1, high=3, unit="")


def scores(values: list[float | None]) -> pa.Table:
    rows = [
        {
            "sample_id": str(number),
            "repeat": 0,
            "subset": "",
            "value": value,
            "outcome": "failed" if value is None else "scored",
            "truncated": False,
        }
        for number, value in enumerate(values)
    ]
    return pa.Table.from_pylist(rows, SCORING_SCHEMA)


def test_a_mean_of_points_is_in_points() -> None:
    overall = summarise(scores([1, 3, 3, 2, None]), {}, scale=POINTS).overall

    assert overall.accuracy == 2.25
    assert overall.n == 4
    assert overall.accuracy_stderr == pytest.approx(np.std([1, 3, 3, 2], ddof=1) / 2)
    assert 1 <= overall.accuracy_low < 2.25 < overall.accuracy_high <= 3


def test_an_interval_of_points_is_that_of_the_shares_of_the_scale() -> None:
    points = summarise(scores([1, 3, 3, 3]), {}, scale=POINTS).overall
    shares = summarise(scores([0, 1, 1, 1]), {}).overall

    assert points.accuracy_low == pytest.approx(1 + 2 * shares.accuracy_low)
    assert points.accuracy_high == pytest.approx(1 + 2 * shares.accuracy_high)


def test_shares_are_shown_in_per_cent_and_points_as_they_are() -> None:
    assert SHARES.mean_text(0.745, 0.022) == "74.5 ± 2.2 %"
    assert POINTS.mean_text(2.4126, 0.031) == "2.41 ± 0.03"
    assert (SHARES.mean_text(1.0, 0.0), POINTS.mean_text(3.0, 0.0)) == ("100.0 %", "3.00")
    assert (SHARES.difference_text(-0.0125), POINTS.difference_text(-0.0125)) == ("-1.25", "-0.01")
    assert SHARES.interval_text(0.701, 0.789) == "70.1 to 78.9 %"
    assert POINTS.interval_text(2.3, 2.5) == "2.30 to 2.50"
    assert POINTS.text(None) == "-"


@pytest.mark.parametrize("wrong", [{"low": 1, "high": 1, "unit": ""}, {"low": 0, "high": 100}])
def test_a_scale_without_length_and_per_cent_beyond_one_are_refused(wrong: dict) -> None:
    with pytest.raises(ValidationError, match="scale"):
        Scale(**wrong)


def test_a_share_in_per_cent_has_one_form_which_no_other_code_writes() -> None:
    assert (percent(0.745), percent(0.9, None), percent(None)) == ("74.5 %", "90 %", "-")
    writes = re.compile(r":\.?\d*%\}|\{100 \* [^{}:]+:\.\df\} ?%")
    assert [
        f"{path}: {line.strip()}"
        for folder in ("regrade", "flows", "tasks")
        for path in (ROOT / folder).rglob("*.py")
        if path.name != "scale.py"
        for line in path.read_text().splitlines()
        if writes.search(line)
    ] == []

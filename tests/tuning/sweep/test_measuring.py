"""Measurements of points: requests without an answer count in no rate, and speed-up needs two whole answer sets."""

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from regrade.answers.local import LocalRepository
from regrade.answers.origin import begin_session
from regrade.answers.publishing import publish_answers
from regrade.answers.result import Result
from regrade.answers.spool import Spool
from regrade.stats.speed import Speed
from regrade.tuning.sweep.measuring import is_steady, keep_times, measure
from tests.builders import description, row, session
from tests.stored import again, commit_shards, numbers, score

TOTAL = 4
FAILED: dict[str, Any] = {"text": None, "error": "timed out", "completion_tokens": None}


def point(folder: Path, seconds: float, repeats: int = 1, **last: Any) -> Result:
    """Answers of a session that took so many seconds; its last row has changes."""
    rows = [
        row(number // repeats, repeat=number % repeats, finished_at=seconds * (number + 1) / TOTAL)
        for number in range(TOTAL)
    ]
    rows[-1] |= last
    return generated(folder, rows, repeats)


def timed(folder: Path, ends: list[float]) -> Result:
    """Answers of a session that ended after these seconds."""
    return generated(folder, [row(number, finished_at=end) for number, end in enumerate(ends)])


def generated(folder: Path, rows: list[dict[str, Any]], repeats: int = 1) -> Result:
    """Publish and score the answers of a session."""
    described = description(len(rows) // repeats, repeats=repeats)
    repository = LocalRepository(folder)
    with Spool(folder.with_name(f"spool-{folder.name}")) as spool:
        begin_session(spool, repository.uri, described, session(started_at=datetime.now(UTC)))
        spool.append(rows)
        found = publish_answers(repository, spool, described)
    assert found is not None
    file = score(found)
    return Result(again(found), file)


def test_the_first_point_is_what_the_others_are_compared_with(tmp_path: Path):
    first, second = point(tmp_path / "1", 8.0), point(tmp_path / "2", 2.0)
    own, other = measure(first, first, gpus=1), measure(second, first, gpus=1)
    assert (own.speed_up, own.test) == (1.0, None)
    assert (other.speed_up, other.answers_per_second) == (4.0, 2.0)
    assert other.test is not None


def test_a_point_that_shared_its_engine_has_a_rate_too_since_all_points_share_it_alike(
    tmp_path: Path,
):
    alone = point(tmp_path / "1", 8.0)
    manifest = alone.answers.manifest
    pooled = [
        session.model_copy(update={"speed": Speed(requests=TOTAL + 1)})
        for session in manifest.sessions
    ]
    shared = Result(
        replace(alone.answers, manifest=manifest.model_copy(update={"sessions": tuple(pooled)})),
        alone.file,
    )
    assert shared.answers.manifest.totals.shared
    rates = [measure(found, alone, gpus=1).tokens_per_second for found in (alone, shared)]
    assert rates[0] is not None
    assert rates[0] == rates[1]


def test_without_a_result_of_the_first_point_there_is_nothing_to_compare_with(tmp_path: Path):
    found = measure(point(tmp_path / "2", 2.0), None, gpus=1)
    assert (found.speed_up, found.test) == (None, None)


@pytest.mark.parametrize("is_permanent", [False, True])
def test_requests_without_an_answer_count_in_no_rate(tmp_path: Path, is_permanent: bool):
    first = point(tmp_path / "1", 8.0)
    broken = point(tmp_path / "2", 2.0, **FAILED, error_permanent=is_permanent)
    found = measure(broken, first, gpus=1)
    assert (found.failed, found.answered, found.answers_per_second) == (1, 3, 1.5)
    assert found.speed_up is None
    assert str(found.note).startswith("1 of 4 requests have no answer")
    assert measure(broken, broken, gpus=1).speed_up is None
    assert measure(first, broken, gpus=1).speed_up is None


def test_other_answers_per_question_than_at_the_first_point_are_told(tmp_path: Path):
    greedy, sampled = point(tmp_path / "1", 8.0), point(tmp_path / "2", 2.0, repeats=2)
    found = measure(sampled, greedy, gpus=1)
    assert found.note == "Answers per question: 2 here, 1 at the first point."
    assert measure(sampled, sampled, gpus=1).note is None


def test_a_short_point_is_measured_until_its_speed_is_known():
    assert not is_steady([1.0])
    assert not is_steady([6.0, 6.0])
    assert is_steady([4.0, 4.0, 4.0])
    assert is_steady([10.0])
    assert not is_steady([0.1] * 9)
    assert is_steady([0.1] * 10)


def test_repeated_measurements_are_kept_and_give_the_speed_its_spread(tmp_path: Path):
    first, second = point(tmp_path / "1", 4.0), point(tmp_path / "2", 2.0)
    assert measure(second, first, gpus=1).spread is None
    keep_times(second.answers, [1.0, 3.0])

    found = measure(second, first, gpus=1)

    assert (found.times, found.seconds, found.speed_up) == ((2.0, 1.0, 3.0), 2.0, 2.0)
    rates = np.array([1 / 2, 1.0, 1 / 3])
    half = 4.3027 * rates.std(ddof=1) / 3**0.5  # Student's t with two degrees of freedom
    assert found.spread == pytest.approx(half / rates.mean(), rel=1e-4)
    assert found.answers_per_second == 2.0

    changed = Result(commit_shards(again(second.answers), numbers(0, 4)), second.file)
    assert len(measure(changed, first, gpus=1).times) == 1  # they were of other answers


def test_one_long_measurement_has_the_spread_of_its_parts(tmp_path: Path):
    even = timed(tmp_path / "1", [float(n) for n in range(1, 21)])
    uneven = timed(tmp_path / "2", [1.0 + n**2 / 20 for n in range(20)])
    together = timed(tmp_path / "3", [20.0] * 20)

    assert measure(even, None, gpus=1).spread == pytest.approx(0, abs=1e-9)
    assert measure(uneven, None, gpus=1).spread > 0.5
    assert measure(together, None, gpus=1).spread is None

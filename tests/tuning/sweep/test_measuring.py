"""Measurements of points: requests without an answer count in no rate, and speed-up needs two whole answer sets."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from regrade.answers.local import LocalRepository
from regrade.answers.origin import begin_session
from regrade.answers.publishing import publish_answers
from regrade.answers.result import Result
from regrade.answers.spool import Spool
from regrade.tuning.sweep.measuring import measure
from tests.builders import description, row, session
from tests.stored import again, score

TOTAL = 4
FAILED: dict[str, Any] = {"text": None, "error": "timed out", "completion_tokens": None}


def point(folder: Path, seconds: float, repeats: int = 1, **last: Any) -> Result:
    """Answers of a session that took so many seconds; its last row has changes."""
    described = description(TOTAL // repeats, repeats=repeats)
    begun = session(started_at=datetime.now(UTC))
    rows = [
        row(number // repeats, repeat=number % repeats, finished_at=seconds * (number + 1) / TOTAL)
        for number in range(TOTAL)
    ]
    rows[-1] |= last
    repository = LocalRepository(folder)
    with Spool(folder.with_name(f"spool-{folder.name}")) as spool:
        begin_session(spool, repository.uri, described, begun)
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

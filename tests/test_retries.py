from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest

from regrade.retries import causes, retry_after


@pytest.mark.parametrize(
    ("value", "seconds"), [("7", 7.0), (" 7 ", 7.0), ("1.5", 1.5), ("-3", 0.0), ("0", 0.0)]
)
def test_retry_after_may_be_seconds(value: str, seconds: float) -> None:
    assert retry_after({"Retry-After": value}) == seconds


def test_retry_after_may_be_a_date() -> None:
    now = datetime.now(UTC)

    later = {"Retry-After": format_datetime(now + timedelta(seconds=90), usegmt=True)}
    earlier = {"Retry-After": format_datetime(now - timedelta(days=1), usegmt=True)}

    assert retry_after(later) == pytest.approx(90, abs=5)
    assert retry_after(earlier) == 0.0


@pytest.mark.parametrize("value", ["", "soon", "nan", "inf", "Wed, 21 Oct 2015 07:28:00 -0000"])
def test_anything_else_is_no_time_to_wait(value: str) -> None:
    assert retry_after({"Retry-After": value}) is None
    assert retry_after({}) is None


def test_hidden_errors_are_causes_only_if_asked_for() -> None:
    error: BaseException
    try:
        try:
            raise ConnectionError
        except ConnectionError as first:
            try:
                raise OSError from first
            except OSError:
                raise ValueError from None
    except ValueError as last:
        error = last

    assert [type(cause) for cause in causes(error)] == [ValueError]
    assert [type(cause) for cause in causes(error, hidden=True)] == [
        ValueError,
        OSError,
        ConnectionError,
    ]

import json
import logging
from collections.abc import Callable

import httpx2
import pytest
from huggingface_hub.errors import (
    GatedRepoError,
    HfHubHTTPError,
    LocalEntryNotFoundError,
    OfflineModeIsEnabled,
    RemoteEntryNotFoundError,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)

from regrade.hub.retries import (
    NotSettledError,
    Problem,
    RetryPolicy,
    brief,
    causes,
    is_transient,
    problem_of,
    seconds_asked,
    status_of,
)
from regrade.settings.errors import HeadMovedError, HubError, RepositoryError, SourceError


def response(
    status: int, kind: type[HfHubHTTPError] = HfHubHTTPError, **headers: str
) -> HfHubHTTPError:
    request = httpx2.Request("GET", "http://hub/")
    return kind("failed", response=httpx2.Response(status, headers=headers, request=request))


def caused(error: BaseException, cause: BaseException) -> BaseException:
    error.__cause__ = cause
    return error


def json_error(text: bytes) -> ValueError:
    with pytest.raises(ValueError) as caught:  # noqa: PT011 - either of its two classes
        json.loads(text.decode())
    return caught.value


PROBLEMS = [
    (response(503), Problem.TEMPORARY),
    (response(400), Problem.OTHER),
    (response(401), Problem.UNAUTHORIZED),
    (response(403), Problem.FORBIDDEN),
    (response(403, GatedRepoError), Problem.GATED),
    (response(404, RepositoryNotFoundError), Problem.NO_REPOSITORY),
    (response(404, RevisionNotFoundError), Problem.NO_REVISION),
    (response(404, RemoteEntryNotFoundError), Problem.NO_FILE),
    (caused(RuntimeError("Error while uploading"), response(400)), Problem.TEMPORARY),
    (caused(RuntimeError("Error while uploading"), response(403)), Problem.FORBIDDEN),
    (RuntimeError("a network error of hf_xet"), Problem.TEMPORARY),
    (httpx2.ConnectError("no route"), Problem.UNREACHABLE),
    (httpx2.ReadTimeout("too slow"), Problem.TEMPORARY),
    (httpx2.LocalProtocolError("a wrong header"), Problem.OTHER),
    (ConnectionError(), Problem.TEMPORARY),
    (TimeoutError(), Problem.TEMPORARY),
    (OfflineModeIsEnabled("offline"), Problem.OFFLINE),
    (caused(LocalEntryNotFoundError("none"), OfflineModeIsEnabled("offline")), Problem.OFFLINE),
    (caused(LocalEntryNotFoundError("none"), response(503)), Problem.TEMPORARY),
    (LocalEntryNotFoundError("not in the cache"), Problem.OTHER),
    (OSError("Consistency check failed: file should be of size 5"), Problem.TEMPORARY),
    (OSError(28, "No space left on device"), Problem.OTHER),
    (PermissionError(13, "Permission denied"), Problem.OTHER),
    (json_error(b"<html>"), Problem.TEMPORARY),
    (json_error(b"\xff"), Problem.TEMPORARY),
    (ValueError("wrong"), Problem.OTHER),
    (NotSettledError(), Problem.TEMPORARY),
    (HubError("uri", "reading", "503", True), Problem.TEMPORARY),
    (HubError("uri", "reading", "no", False), Problem.OTHER),
    (HeadMovedError("uri", "committing", "moved"), Problem.OTHER),
    (caused(SourceError("b", "file", "not UTF-8"), json_error(b"\xff")), Problem.OTHER),
    (caused(RepositoryError("uri", "no token"), ConnectionError()), Problem.OTHER),
]


@pytest.mark.parametrize(("error", "problem"), PROBLEMS, ids=lambda value: repr(value)[:60])
def test_each_error_of_the_hub_is_one_kind_of_problem(
    error: BaseException, problem: Problem
) -> None:
    assert problem_of(error) is problem
    assert is_transient(error) == (problem in (Problem.TEMPORARY, Problem.UNREACHABLE))


@pytest.mark.parametrize(
    "error",
    [json_error(b"<html>"), json_error(b"\xff"), OSError("not a Parquet file"), RuntimeError()],
)
def test_what_a_file_of_a_dataset_holds_is_no_failure_of_the_hub(error: Exception) -> None:
    assert problem_of(error, reads_files=True) is Problem.OTHER
    assert problem_of(caused(error, response(503)), reads_files=True) is Problem.TEMPORARY


def test_a_file_that_need_not_exist_hides_no_other_problem() -> None:
    missing = caused(response(404, RemoteEntryNotFoundError), response(404, RevisionNotFoundError))

    assert problem_of(missing) is Problem.NO_REVISION


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Seconds of each wait, instead of waiting."""
    waited: list[float] = []
    monkeypatch.setattr("tenacity.nap.time.sleep", waited.append)
    return waited


def failing(error: Exception, times: int) -> tuple[Callable[[], str], list[None]]:
    calls: list[None] = []

    def call() -> str:
        calls.append(None)
        if len(calls) <= times:
            raise error
        return "done"

    return call, calls


def test_waits_double_up_to_the_longest(waits: list[float]) -> None:
    call, _ = failing(ConnectionError(), 5)

    assert RetryPolicy(attempts=6, first_wait=1, longest_wait=4).call("asking", call) == "done"

    assert all(
        least <= wait <= least + 1 for least, wait in zip([1, 2, 4, 4, 4], waits, strict=True)
    )


def test_machines_that_failed_together_do_not_ask_again_together(waits: list[float]) -> None:
    call, _ = failing(ConnectionError(), 60)

    RetryPolicy(attempts=61, first_wait=3, longest_wait=3, total=1e6).call("asking", call)

    assert 3 <= min(waits) < 4 < 5 < max(waits) <= 6


def test_a_wait_that_the_hub_asks_for_replaces_the_doubled_one(waits: list[float]) -> None:
    call, _ = failing(response(429, **{"Retry-After": "30"}), 1)

    RetryPolicy(attempts=2, first_wait=1).call("asking", call)

    (wait,) = waits
    assert 30.1 <= wait <= 30.2


def test_after_the_last_try_the_error_is_raised_as_it_is(waits: list[float]) -> None:
    error = ConnectionError("gone")
    call, calls = failing(error, 99)

    with pytest.raises(ConnectionError) as caught:
        RetryPolicy(attempts=3).call("asking", call)

    assert caught.value is error
    assert (len(calls), len(waits)) == (3, 2)


def test_what_cannot_succeed_later_is_tried_once(waits: list[float]) -> None:
    call, calls = failing(response(403), 99)

    with pytest.raises(HfHubHTTPError):
        RetryPolicy().call("asking", call)

    assert (len(calls), waits) == (1, [])


def test_no_try_begins_after_the_total_time(waits: list[float]) -> None:
    call, calls = failing(response(503, **{"Retry-After": "901"}), 99)

    with pytest.raises(HfHubHTTPError):
        RetryPolicy(total=900).call("asking", call)

    assert (len(calls), waits) == (1, [])


def test_each_retry_is_one_warning_that_says_why_and_when(
    waits: list[float], caplog: pytest.LogCaptureFixture
) -> None:
    call, _ = failing(response(503, **{"Retry-After": "7"}), 1)

    RetryPolicy(first_wait=0.01).call("reading its head", call)

    (record,) = [r for r in caplog.records if r.name.startswith("regrade")]
    assert record.levelno == logging.WARNING
    said = "The Hub failed while reading its head (HTTP status 503); retrying in 7.0 s"
    assert record.getMessage() == said


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
    kinds = [type(cause) for cause in causes(error, hidden=True)]
    assert kinds == [ValueError, OSError, ConnectionError]
    assert problem_of(error) is Problem.OTHER
    assert problem_of(error, hidden=True) is Problem.TEMPORARY


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (response(503), "HTTP status 503"),
        (
            caused(RuntimeError("Error while uploading https://x?y"), response(400)),
            "HTTP status 400",
        ),
        (NotSettledError(), "it does not show the new commit yet"),
        (caused(RuntimeError("https://x?y"), httpx2.ConnectError("no")), "ConnectError"),
        (OSError(28, "No space left on device", "/cache/x"), "No space left on device: '/cache/x'"),
        (OSError(28, "No space left on device"), "OSError"),
        (None, "unknown reason"),
    ],
    ids=repr,
)
def test_an_error_is_told_in_a_few_words_without_addresses(
    error: BaseException | None, words: str
) -> None:
    assert brief(error) == words


@pytest.mark.parametrize(
    ("error", "seconds"),
    [
        (response(429, RateLimit='"api";r=0;t=55'), 55.0),
        (response(429, **{"RateLimit": '"api";r=0;t=55', "Retry-After": "3"}), 55.0),
        (response(429, **{"RateLimit": '"api";r=7;t=55', "Retry-After": "3"}), 3.0),
        (response(503, **{"RateLimit": '"api";r=0;t=55', "Retry-After": "3"}), 3.0),
        (response(503, RateLimit='"api";r=0;t=55'), None),
        (caused(RuntimeError(), response(503, **{"Retry-After": "3"})), 3.0),
        (ConnectionError(), None),
        (None, None),
    ],
    ids=repr,
)
def test_the_wait_that_the_hub_asks_for_is_read_from_the_limit_or_retry_after(
    error: BaseException | None, seconds: float | None
) -> None:
    assert seconds_asked(error) == seconds


def test_a_status_is_that_of_the_response_behind_an_error() -> None:
    assert status_of(caused(RuntimeError(), response(418))) == 418
    assert status_of(ConnectionError()) is None

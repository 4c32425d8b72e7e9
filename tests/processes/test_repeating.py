import threading
import time

import pytest

from regrade.processes.repeating import RepeatingThread


def test_the_action_is_repeated_and_last_is_called_at_the_end():
    calls: list[str] = []
    with RepeatingThread(
        0.01, lambda: calls.append("every"), "test", patience=5, last=lambda: calls.append("last")
    ):
        while len(calls) < 3:
            time.sleep(0.005)
    assert calls.count("last") == 1
    assert calls[-1] == "last"


def test_the_end_does_not_wait_for_a_hanging_action():
    release, hanging = threading.Event(), threading.Event()

    def hang() -> None:
        hanging.set()
        release.wait(30)

    begin = time.monotonic()
    with RepeatingThread(0.01, hang, "test", patience=0.1):
        assert hanging.wait(10)
    assert time.monotonic() - begin < 10
    release.set()


def test_after_an_error_nothing_more_is_called():
    calls: list[str] = []
    with (
        pytest.raises(KeyboardInterrupt),
        RepeatingThread(60, lambda: None, "test", patience=60, last=lambda: calls.append("last")),
    ):
        raise KeyboardInterrupt
    time.sleep(0.05)
    assert calls == []


def test_an_error_of_the_action_is_logged_and_the_action_repeated(caplog: pytest.LogCaptureFixture):
    calls: list[str] = []

    def fail_once() -> None:
        calls.append("call")
        if len(calls) == 1:
            raise ZeroDivisionError("not foreseen")

    with RepeatingThread(0.01, fail_once, "publish", patience=5):
        while len(calls) < 3:
            time.sleep(0.005)

    (record,) = caplog.records
    assert record.getMessage() == "publish failed"
    assert record.exc_text is not None or record.exc_info is not None

"""Steps outside a flow run: functions that are called again after errors that may pass."""

import pytest
from prefect import flow
from prefect.settings import PREFECT_API_URL, temporary_settings

from regrade.settings.errors import SettingsError, TrackingError
from tasks.step import Step, in_flow_run, step


def failing(step_of: list[str], *errors: Exception, delays: tuple[float, ...] = (0.0, 0.0)) -> Step:
    """A step that fails with each of the errors before it succeeds."""
    left = list(errors)

    @step("fail", run_name="fail {word}", delays=delays)
    def fail(word: str) -> str:
        step_of.append(word)
        if left:
            raise left.pop(0)
        return word * 2

    return fail


def down() -> TrackingError:
    return TrackingError("http://127.0.0.1:1", "it does not answer")


def test_a_step_is_called_again_after_an_error_that_may_pass():
    calls: list[str] = []
    assert failing(calls, down(), down())("ab") == "abab"
    assert calls == ["ab"] * 3


def test_a_step_fails_with_its_last_error_and_at_once_with_one_that_stays():
    calls: list[str] = []
    with pytest.raises(TrackingError):
        failing(calls, down(), down(), down())("x")
    assert len(calls) == 3
    with pytest.raises(SettingsError):
        failing(calls, SettingsError("wrong"))("x")
    assert len(calls) == 4


def test_a_started_step_has_a_result_or_an_error():
    assert failing([]).start("ab").result() == "abab"
    with pytest.raises(SettingsError):
        failing([], SettingsError("wrong")).start("ab").result()


@pytest.mark.prefect
def test_inside_a_flow_run_a_step_is_a_task_run_with_its_retries(prefect_server: str):
    calls: list[str] = []
    stubborn = failing(calls, down())

    @flow
    def both() -> list[object]:
        return [in_flow_run(), stubborn("ab"), stubborn.start("cd").result()]

    with temporary_settings({PREFECT_API_URL: prefect_server}):
        assert both() == [True, "abab", "cdcd"]
    assert calls == ["ab", "ab", "cd"]
    assert not in_flow_run()

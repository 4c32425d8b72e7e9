import pytest

from regrade.settings.errors import SettingsError
from tasks.generate import PUBLISH_SECONDS, PUBLISH_VARIABLE, publish_seconds


def test_answers_are_published_once_a_minute_unless_told_otherwise(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.delenv(PUBLISH_VARIABLE, raising=False)
    assert publish_seconds() == PUBLISH_SECONDS == 60
    monkeypatch.setenv(PUBLISH_VARIABLE, "2.5")
    assert publish_seconds() == 2.5


@pytest.mark.parametrize("given", ["0", "-1", "often", "nan", "inf"])
def test_a_period_that_is_none_is_refused(monkeypatch: pytest.MonkeyPatch, given: str):
    monkeypatch.setenv(PUBLISH_VARIABLE, given)
    with pytest.raises(SettingsError, match=f"{PUBLISH_VARIABLE}={given}"):
        publish_seconds()

"""The settings that `tune-settings` keeps."""

from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest

from flows import tune_settings
from regrade.settings.errors import SettingsError
from regrade.tuning.search.records import TrialRecord, Tuning
from regrade.tuning.search.result import trial_rows
from regrade.tuning.search.rule import TOKENS
from tests.builders import specification
from tests.tuning.search.test_records import KEY
from tests.tuning.search.test_rule import Machine


def trial(
    in_flight: int, rate: float, *, start: int = 0, broken: str | None = None, **settings: int
) -> TrialRecord:
    return TrialRecord(
        start=start,
        settings=settings,
        in_flight=in_flight,
        rate=rate,
        requests=32,
        seconds=1.0,
        broken=broken,
    )


def tuning(*trials: TrialRecord, vary_tokens: bool = True) -> Tuning:
    """A kept document with some measurements."""
    work: Any = SimpleNamespace(plan=SimpleNamespace(specification=specification()))
    search = Machine(lambda *_: 0.0, vary_tokens=vary_tokens)
    search.starts, search.trials = 1, list(trials)
    return tune_settings._tuning(work, KEY, search)


@pytest.mark.parametrize(("in_flight", "per_copy"), [(64, 16), (66, 17), (1, 1)])
def test_requests_in_flight_are_divided_between_the_copies_of_a_model(
    in_flight: int, per_copy: int
):
    split = {"tensor_parallel_size": 1, "data_parallel_size": 4, TOKENS: 4096}

    kept = tuning(trial(in_flight, 9.0, **split), trial(2 * in_flight, 4.0, **split))

    assert kept.settings["max_num_seqs"] == per_copy
    assert kept.in_flight == in_flight
    assert kept.measured_at <= datetime.now(UTC)
    assert [row[-1] for row in trial_rows(kept)] == ["chosen", ""]


def test_a_split_with_other_tokens_of_a_step_is_not_marked_as_chosen():
    split = {"tensor_parallel_size": 2, "data_parallel_size": 2}

    kept = tuning(
        trial(64, 9.0, **split, **{TOKENS: 4096}),
        trial(64, 8.0, start=1, **split, **{TOKENS: 8192}),
    )

    assert kept.settings == {"max_num_seqs": 32, **split}
    assert [row[-1] for row in trial_rows(kept)] == ["chosen", ""]


def test_tokens_of_a_step_that_were_set_by_hand_are_kept_with_what_was_found():
    measured = trial(64, 9.0, **{TOKENS: 4096})

    assert tuning(measured, vary_tokens=False).settings[TOKENS] == 4096
    assert TOKENS not in tuning(measured).settings


def test_limits_that_only_the_first_measurement_keeps_are_an_error_that_names_the_broken_one():
    with pytest.raises(SettingsError, match="with 1 in flight, TTFT p99 2 s is above 1 s"):
        tuning(trial(1, 9.0), trial(1, 9.0, broken="TTFT p99 2 s is above 1 s"))

import pytest

from regrade.engines.vllm_process.context import Need, check_memory, choose_max_model_len, too_long
from regrade.settings.errors import SettingsError


def _choose(needs, *, limit=4096, explicit=None, truncate=False):
    return choose_max_model_len(needs, limit=limit, explicit=explicit, truncate=truncate)


def test_the_context_holds_the_longest_request_and_is_rounded_up():
    assert _choose([Need(100, 50), Need(1000, 64)]) == 1280  # 1064, up to a multiple of 256
    assert _choose([Need(1216, 64), Need(1, 900)]) == 1280
    assert _choose([Need(1217, 64)]) == 1536


def test_rounding_never_exceeds_the_models_maximum():
    assert _choose([Need(3900, 90)], limit=4000) == 4000


def test_without_requests_the_context_is_the_models_maximum():
    assert _choose([]) == 4096


def test_an_explicit_length_is_used():
    assert _choose([Need(3000, 64)], explicit=1024) == 1024


def test_more_than_the_model_allows_is_refused():
    with pytest.raises(SettingsError, match=r"max_model_len is 5,000, but the model allows 4,096"):
        _choose([], explicit=5000)


def test_the_error_of_a_prompt_that_does_not_fit_has_numbers_and_options():
    with pytest.raises(SettingsError) as error:
        _choose([Need(4000, 512)])

    for part in (
        "4,000",
        "512",
        "4,512",
        "4,096",
        "at most 96",
        "engine.max_model_len",
        "truncate",
    ):
        assert part in str(error.value)


def test_a_prompt_that_fits_by_one_token_is_not_refused():
    assert _choose([Need(4000, 96)]) == 4096


def test_a_lower_max_tokens_is_not_proposed_if_the_prompt_alone_is_too_long():
    with pytest.raises(SettingsError) as error:
        _choose([Need(5000, 5)])

    assert "max_tokens to at most" not in str(error.value)


def test_with_truncation_a_long_prompt_gets_the_models_maximum():
    assert _choose([Need(9000, 512)], truncate=True) == 4096


@pytest.mark.parametrize("truncate", [False, True])
@pytest.mark.parametrize("explicit", [None, 512])
def test_max_tokens_that_leave_no_room_for_a_prompt_are_always_refused(explicit, truncate):
    with pytest.raises(SettingsError, match="max_tokens is 4,096"):
        _choose([Need(1, 4096)], explicit=explicit, truncate=truncate)


def test_the_error_of_a_row_has_the_numbers_of_tokens():
    assert "5,012 tokens" in too_long(Need(5012, 64), 4096)
    assert "4,096" in too_long(Need(5012, 64), 4096)


def test_a_request_for_which_the_memory_is_too_small_is_refused_with_the_numbers():
    check_memory([Need(10, 6), Need(100, 28)], 128)
    check_memory([], 1)

    with pytest.raises(
        SettingsError, match=r"128 together, .* a context of 127\. .* to 127 to let"
    ):
        check_memory([Need(10, 6), Need(100, 28)], 127)

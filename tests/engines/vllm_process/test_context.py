from pathlib import Path
from typing import Any

import pytest

from regrade.engines.vllm import VllmEngine
from regrade.engines.vllm_process.context import Need, check_memory, choose_max_model_len
from regrade.records import Request
from regrade.settings import SamplingParams
from regrade.settings.errors import SettingsError
from tests.engines.vllm_process.asking import ask, opened


def _choose(needs, *, limit=4096, explicit=None, truncate=False, tight=False):
    return choose_max_model_len(
        needs, limit=limit, explicit=explicit, truncate=truncate, tight=tight
    )


@pytest.mark.parametrize(
    ("longest", "rounded", "tight"),
    [
        (2, 256, 256),
        (257, 512, 512),
        (1064, 2048, 1280),
        (2048, 2048, 2048),
        (8192, 8192, 8192),
        (33_500, 40_960, 33_536),
    ],
)
def test_the_context_holds_the_longest_request_and_is_rounded_up(
    longest: int, rounded: int, tight: int
):
    needs = [Need(longest - 1, 1), Need(1, 1)]

    assert _choose(needs, limit=131_072) == rounded
    assert _choose(needs, limit=131_072, tight=True) == tight


def test_benchmarks_of_usual_lengths_share_a_context():
    lengths = range(1, 32_768)

    assert len({_choose([Need(length, 1)], limit=131_072) for length in lengths}) == 9


@pytest.mark.parametrize(
    ("needs", "settings", "context"),
    [
        pytest.param([Need(3900, 90)], {"limit": 4000}, 4000, id="rounding stays within it"),
        pytest.param([], {}, 4096, id="no requests"),
        pytest.param([Need(3000, 64)], {"explicit": 1024}, 1024, id="an explicit length"),
        pytest.param([Need(4000, 96)], {}, 4096, id="a prompt that fits by one token"),
        pytest.param([Need(9000, 512)], {"truncate": True}, 4096, id="a prompt that may be cut"),
    ],
)
def test_the_context_is_at_most_the_models_maximum(
    needs: list[Need], settings: dict[str, Any], context: int
):
    assert _choose(needs, **settings) == context


def test_more_than_the_model_allows_is_refused():
    with pytest.raises(
        SettingsError, match=r"`engine.max_model_len` is 5,000, but the model allows 4,096"
    ):
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
        "`--engine.max-model-len` (at most 4,096)",
        "`--truncate`",
    ):
        assert part in str(error.value)


def test_a_lower_max_tokens_is_not_proposed_if_the_prompt_alone_is_too_long():
    with pytest.raises(SettingsError) as error:
        _choose([Need(5000, 5)])

    assert "to at most" not in str(error.value)


@pytest.mark.parametrize("truncate", [False, True])
@pytest.mark.parametrize("explicit", [None, 512])
def test_max_tokens_that_leave_no_room_for_a_prompt_are_always_refused(explicit, truncate):
    with pytest.raises(SettingsError, match="`sampling.max_tokens` is 4,096"):
        _choose([Need(1, 4096)], explicit=explicit, truncate=truncate)


def test_a_request_for_which_the_memory_is_too_small_is_refused_with_the_numbers():
    check_memory([Need(10, 6), Need(100, 28)], 128)
    check_memory([], 1)

    with pytest.raises(
        SettingsError, match=r"128 together, .* a context of 127\. .*max_model_len=127` to let"
    ):
        check_memory([Need(10, 6), Need(100, 28)], 127)


def _started(model: Path, log: Path, *, tokens: int, cache: int, eager: bool) -> int:
    """Return the context with which real vLLM starts for an answer of at most so many tokens."""
    settings = VllmEngine(enforce_eager=eager, extra=(f"kv_cache_memory_bytes={cache}",))
    request = Request(0, "2 + 3 =", SamplingParams(temperature=0, max_tokens=tokens, stop=("\n",)))
    with opened(model, log, settings, [request]) as engine:
        (answer,) = ask(engine, [request])
    assert answer.error is None
    length = engine.info.max_model_len
    assert length is not None
    return length


@pytest.mark.vllm
@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_the_next_benchmark_finds_the_model_compiled(
    demo_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("VLLM_CACHE_ROOT", str(tmp_path / "cache"))
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "kernels"))

    for tokens in (600, 900):
        log = tmp_path / f"{tokens}.log"
        assert _started(demo_model, log, tokens=tokens, cache=1 << 28, eager=False) == 1024

    # On a CPU, vLLM 0.32 finds what it compiled and fails to load the outer part of it ('finalize_loading'); the kernels are found.
    found = list((tmp_path / "cache/torch_compile_cache/torch_aot_compile").iterdir())
    assert len(found) == 1
    assert str(found[0]) in log.read_text(errors="replace")


@pytest.mark.vllm
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_context_is_rounded_up_less_if_the_memory_is_full(demo_model: Path, tmp_path: Path):
    of_a_token = 2 * 4 * 4 * 32 * 4  # of the demo model, in bytes
    room = 900 * of_a_token

    assert _started(demo_model, tmp_path / "log", tokens=700, cache=room, eager=True) == 768

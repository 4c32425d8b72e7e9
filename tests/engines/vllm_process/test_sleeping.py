"""An engine that leaves its GPU to others: the calls to vLLM and their order. vLLM sleeps on GPUs only, and none is used here."""

from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import pytest

from regrade.engines.base import SleepingEngine
from regrade.engines.vllm import VllmEngine
from regrade.engines.vllm_process import engine as owner
from regrade.engines.vllm_process import worker
from regrade.engines.vllm_process.reloading import reload, wake
from regrade.engines.vllm_process.switching import ReloadRecord
from regrade.models.base import ResolvedModel
from regrade.settings.errors import EngineError, SettingsError
from tests.command_line import regrade
from tests.engines.vllm_process.owner_alone import OwnerAlone

FORGET = ["reset_mm_cache", "reset_encoder_cache", "reset_prefix_cache"]


class Calls:
    """Notes the calls that vLLM's `LLMEngine` would get."""

    def __init__(self) -> None:
        self.made: list[str] = []

    def collective_rpc(self, method: str, **_: Any) -> list[Any]:
        self.made.append(method)
        return ["digest"]

    def wake_up(self, tags: list[str] | None = None) -> bool:
        self.made.append(f"wake_up {tags}")
        return True

    def sleep(self, level: int = 1) -> None:
        self.made.append(f"sleep {level}")

    def __getattr__(self, name: str) -> Any:
        def call(*_: Any, **__: Any) -> bool:
            self.made.append(name)
            return True

        return call


@pytest.mark.parametrize(
    ("change", "calls"),
    [
        pytest.param(
            partial(reload, folder="/checkpoint-2", wakes=True),
            [
                "wake_up ['weights']",
                "reload_weights",
                "regrade_pack_again",
                "wake_up ['kv_cache']",
                *FORGET,
            ],
            id="dropped weights are read before the KV cache takes its memory",
        ),
        pytest.param(
            partial(reload, folder="/checkpoint-2"),
            ["reload_weights", "regrade_pack_again", *FORGET],
            id="an engine that is awake is not woken by a reload",
        ),
        pytest.param(wake, ["wake_up None", *FORGET], id="kept weights wake with the KV cache"),
    ],
)
def test_weights_come_before_the_kv_cache_and_caches_are_emptied(change: Any, calls: list[str]):
    engine = Calls()
    change(engine)
    assert engine.made == calls


def swapped(engine: Calls | None, **message: Any) -> dict[str, Any]:
    """Give the worker a message, and return its answer."""
    sent: list[dict[str, Any]] = []
    loaded: Any = SimpleNamespace(
        engine=engine,
        reloaded=engine,
        prompts=SimpleNamespace(ids=lambda _: []),
        meter=SimpleNamespace(restart=lambda: None),
        info={"device": "cpu", "max_model_len": 512},
    )
    channel: Any = SimpleNamespace(send=sent.append)
    worker._swap(channel, loaded, message)
    return sent[0]


def test_the_worker_sleeps_at_the_level_that_it_is_told_and_tells_the_weights_it_wakes_with():
    engine = Calls()
    assert swapped(engine, type="sleep", level=2)["refused"] is None
    assert swapped(engine, type="wake")["weights"] == "digest"
    assert engine.made == ["sleep 2", "wake_up None", *FORGET, "regrade_weights"]


def test_an_engine_of_several_copies_cannot_sleep():
    assert "copies of the model" in swapped(None, type="sleep", level=1)["refused"]


@pytest.fixture
def asleep(
    resolved_model: ResolvedModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> OwnerAlone:
    """An engine whose models lie in a folder and differ in nothing but weights."""
    monkeypatch.setattr(owner, "files_folder", lambda *_, **__: tmp_path)
    monkeypatch.setattr(owner, "reload_key", lambda *_: {})
    monkeypatch.setattr(owner, "reason_for_new_start", lambda *_: None)
    monkeypatch.setattr(owner, "stored_record", lambda _: None)
    return OwnerAlone(resolved_model, tmp_path / "log")


@pytest.fixture
def proven(monkeypatch: pytest.MonkeyPatch) -> None:
    record = ReloadRecord.model_construct(same=True)
    monkeypatch.setattr(owner, "stored_record", lambda _: record)


def test_the_next_model_is_read_into_the_place_of_dropped_weights(
    asleep: OwnerAlone, proven: None, resolved_model: ResolvedModel
):
    assert isinstance(asleep, SleepingEngine)
    asleep.sleep(deep=True)
    asleep.switch(resolved_model, [])
    assert asleep.kinds() == [("sleep", 2), ("reload", True)]
    assert asleep.info.weights is not None
    assert (asleep.info.weights.memory, asleep.info.weights.replaced) == ("w2", True)


def test_kept_weights_are_woken_before_the_next_model_is_read(
    asleep: OwnerAlone, proven: None, resolved_model: ResolvedModel
):
    asleep.sleep(deep=False)
    asleep.switch(resolved_model, [])
    assert asleep.kinds() == [("sleep", 1), ("wake", None), ("reload", False)]


def test_weights_are_kept_until_it_is_proven_that_others_can_be_read_into_their_place(
    asleep: OwnerAlone, resolved_model: ResolvedModel
):
    asleep.sleep(deep=True)
    assert asleep.kinds() == [("sleep", 1)]


def test_the_same_model_goes_on_with_the_weights_that_it_had_or_not_at_all(asleep: OwnerAlone):
    asleep.sleep(deep=False)
    asleep.weights = "others"
    with pytest.raises(EngineError, match="its weights changed while it slept"):
        next(iter(asleep.generate([])))
    assert asleep.kinds() == [("sleep", 1), ("wake", None)]


def test_the_same_model_reads_its_own_dropped_weights_again(
    asleep: OwnerAlone, proven: None, tmp_path: Path
):
    asleep.reloaded = "w1"
    asleep.sleep(deep=True)
    assert list(asleep.generate([])) == []
    assert asleep.kinds() == [("sleep", 2), ("reload", True)]
    assert (asleep.told[-1]["model"], asleep.told[-1]["probe"]) == (str(tmp_path), False)

    assert list(asleep.generate([])) == []
    assert len(asleep.told) == 2, "it is awake"


def test_a_folder_with_other_weights_than_those_that_were_dropped_ends_the_run(
    asleep: OwnerAlone, proven: None
):
    asleep.sleep(deep=True)
    with pytest.raises(EngineError, match="its weights changed while it slept"):
        next(iter(asleep.generate([])))


def test_after_dropped_weights_a_model_for_which_nothing_is_proven_gets_a_new_start(
    asleep: OwnerAlone,
    proven: None,
    resolved_model: ResolvedModel,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
):
    caplog.set_level("INFO", "regrade.generate")
    asleep.sleep(deep=True)
    monkeypatch.setattr(owner, "stored_record", lambda _: None)
    asleep.switch(resolved_model, [])
    assert asleep.kinds() == [("sleep", 2), ("end", None), ("new start", None)]
    assert "nothing is proven yet, and the former weights were dropped" in caplog.text


def test_an_engine_that_refuses_to_sleep_or_to_wake_says_why(asleep: OwnerAlone):
    asleep.refused = "vLLM failed: out of memory"
    with pytest.raises(EngineError, match="vLLM failed: out of memory"):
        asleep.sleep(deep=False)

    asleep.refused = None
    asleep.sleep(deep=False)
    asleep.refused = "vLLM failed: no memory to wake up"
    with pytest.raises(EngineError, match="no memory to wake up"):
        next(iter(asleep.generate([])))


def test_the_command_says_on_a_cpu_that_it_cannot_sleep_and_starts_nothing():
    what = ("evaluate", "--model", "run/checkpoint-*", "--benchmark", "gsm8k", "--follow", "5")
    with patch("regrade.cli.run.run_flow") as run_flow:
        ran = regrade(*what, "--between", "deep-sleep")
    assert ran.code == 2
    assert "vLLM cannot sleep on a CPU: use `--between stay`" in ran.err
    assert not run_flow.called


def test_sleep_mode_is_switched_on_without_another_id_and_refused_on_a_cpu(
    resolved_model: ResolvedModel, monkeypatch: pytest.MonkeyPatch
):
    with pytest.raises(SettingsError, match="cannot sleep on a CPU"):
        VllmEngine().able_to_sleep()
    monkeypatch.setattr("regrade.engines.vllm_process.build.runs_on_cpu", lambda: False)
    able = VllmEngine().able_to_sleep()
    assert able.extra == ("enable_sleep_mode=true",)
    identities = [e.identity(resolved_model, truncate=False) for e in (VllmEngine(), able)]
    assert identities[0] == identities[1]

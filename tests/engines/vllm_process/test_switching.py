"""Other weights in a running engine give the answers of a new engine, or each model gets a new one."""

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from perf.workloads import checkpoint
from regrade.engines.base import Engine, EngineInfo
from regrade.engines.vllm import VllmEngine
from regrade.engines.vllm_process import engine as owner
from regrade.engines.vllm_process import switching
from regrade.engines.vllm_process.reloading import weights_digest
from regrade.engines.vllm_process.switching import (
    ReloadRecord,
    compared,
    keep_record,
    read_digests,
    reason_for_new_start,
    record_path,
    reload_key,
    stored_record,
)
from regrade.models.base import ResolvedModel
from regrade.records import Completion, Request
from regrade.records.computed import Computed, LoadedWeights
from regrade.settings import SamplingParams
from regrade.settings.errors import HubError
from tests.engine_fixtures import FAST
from tests.engines.vllm_process.asking import ask, opened
from tests.engines.vllm_process.owner_alone import OwnerAlone
from tests.pictures import image

QUESTIONS = [
    Request(
        n,
        f"Question: What is {3 * n + 1} plus {2 * n + 5}?\nAnswer:",
        SamplingParams(max_tokens=16, temperature=0.0),
    )
    for n in range(24)
]
LABELS = [
    Request(
        100 + n,
        f"Question: What is {n} plus 3?\nA. {n + 1}\nB. {n + 3}\nAnswer:",
        SamplingParams(max_tokens=1, temperature=0.0),
        ("A", "B"),
    )
    for n in range(8)
]
ASKED = [*QUESTIONS, *LABELS]


def answers_of(engine: Engine) -> list[Completion]:
    completions = ask(engine, ASKED)
    assert not [c.error for c in completions if c.error]
    return completions


def assert_equal(some: list[Completion], others: list[Completion]) -> None:
    assert [c.text for c in some] == [c.text for c in others]
    for one, other in zip(some, others, strict=True):
        if one.label_logprobs is not None:
            assert other.label_logprobs == pytest.approx(one.label_logprobs, abs=1e-3)


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine without records."""
    monkeypatch.setenv("REGRADE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.mark.vllm
@pytest.mark.timeout(1200)  # two engine starts
def test_models_share_an_engine_once_one_of_them_has_proven_it(
    demo_model: Path, tmp_path: Path, own_cache: Path, caplog: pytest.LogCaptureFixture
):
    first_folder = shutil.copytree(demo_model, tmp_path / "a")
    folders = [first_folder, checkpoint(demo_model, tmp_path / "b", seed=1)]
    one, other = (FAST.resolve(str(folder)) for folder in folders)
    log = tmp_path / "vllm.log"
    caplog.set_level("INFO", "regrade.generate")
    with opened(one, log, FAST, ASKED) as engine:
        first = engine.pid
        of_one, weights_of_one = answers_of(engine), engine.info.weights
        engine.read_ahead(other)
        engine.switch(other, [ASKED])
        second = engine.pid
        assert second != first
        of_other, weights_of_other = answers_of(engine), engine.info.weights
        assert [c.text for c in of_one] != [c.text for c in of_other]
        again = []
        for model, present in ((one, other), (other, one)):
            gone = Path(present.path).rename(tmp_path / "gone")  # trainings delete old checkpoints
            engine.switch(model, [ASKED])
            gone.rename(present.path)
            again.append((answers_of(engine), engine.info.weights))
            assert engine.pid == second
            assert engine.info.load_seconds < 5

    for (answers, weights), (fresh, weights_of_fresh) in zip(
        again, [(of_one, weights_of_one), (of_other, weights_of_other)], strict=True
    ):
        assert_equal(answers, fresh)
        assert weights is not None
        assert weights_of_fresh is not None
        assert (weights.files, weights.memory) == (weights_of_fresh.files, weights_of_fresh.memory)
        assert (weights.replaced, weights_of_fresh.replaced) == (True, False)
    assert weights_of_one is not None
    assert weights_of_other is not None
    assert weights_of_one.files is not None
    assert weights_of_one.files.keys() == {"model.safetensors"}
    assert weights_of_one.memory != weights_of_other.memory
    (record,) = (own_cache / "reloads").iterdir()
    assert '"same": true' in record.read_text()
    assert "models like these share an engine" in caplog.text
    proof = "its answers prove on this machine that weights can be replaced"
    assert f"b gets a new start of the engine: {proof}" in caplog.text


Probed = list[list[tuple[int, float]]]


def probed(*logprobs: float, last: int = 7) -> Probed:
    """Answers to one prompt."""
    tokens = [*range(len(logprobs) - 1), last]
    return [list(zip(tokens, logprobs, strict=True))]


def test_a_reload_is_proven_by_equal_tokens_and_log_probabilities():
    record = compared(
        {}, "float32", probed(-1, -2, -3), probed(-1, -1, -1), probed(-1, -1, -1.00002)
    )
    assert record is not None
    assert record.same
    assert record.difference == pytest.approx(2e-5)
    assert record.models == pytest.approx(2.0, abs=1e-3)


@pytest.mark.parametrize(
    "replaced", [probed(-1, -1, -6.3), probed(-1, -1, -1, last=8), probed(-1.01, -1, -1)]
)
def test_another_token_or_log_probability_refutes_it(replaced: Probed):
    record = compared({}, "float32", probed(-1, -2, -3), replaced, probed(-1, -1, -1))
    assert record is not None
    assert not record.same


def test_models_that_answer_alike_prove_nothing():
    fresh = probed(-1, -1, -1)
    assert compared({}, "float32", fresh, fresh, fresh) is None
    assert compared({}, "float32", probed(-1.0001, -1, -1), probed(-1.00005, -1, -1), fresh) is None


def test_a_record_is_found_again_by_its_key_alone_and_a_damaged_one_is_proven_again(
    own_cache: Path, caplog: pytest.LogCaptureFixture
):
    key = {"vllm": "0.32.0", "device": "cpu"}
    record = compared(key, "float32", probed(-1, -2), probed(-1, -1), probed(-1, -1))
    assert record is not None
    assert stored_record(key) is None
    path = keep_record(record)
    assert path == record_path(key)
    assert own_cache in path.parents
    assert stored_record(key) == record
    assert stored_record({**key, "vllm": "0.32.1"}) is None
    path.write_text("{}")
    assert stored_record(key) is None
    assert "proven again" in caplog.text


@pytest.mark.parametrize(
    ("config", "settings", "info", "quantization"),
    [
        ({"architectures": ["Other"]}, {}, {}, None),
        ({"vocab_size": 7}, {}, {}, None),
        ({}, {"tensor_parallel_size": 2}, {}, None),
        ({}, {"pipeline_parallel_size": 2}, {}, None),
        ({}, {"enforce_eager": True}, {}, None),
        ({}, {}, {"dtype": "bfloat16"}, None),
        ({}, {}, {"version": "0.33.0"}, None),
        ({}, {}, {"device": "NVIDIA H200"}, None),
        ({}, {}, {"computed": Computed(attention=("TRITON",))}, None),
        ({}, {}, {"computed": Computed(kv_cache_dtype="fp8")}, None),
        ({}, {}, {}, "fp8"),
    ],
)
def test_a_proof_holds_for_one_model_class_precision_quantisation_split_vllm_and_device(
    tmp_path: Path,
    engine_info: EngineInfo,
    config: dict[str, Any],
    settings: dict[str, Any],
    info: dict[str, Any],
    quantization: str | None,
):
    """Others are proven anew. What decides nothing, such as the length of the context, shares a proof."""

    def path(
        content: dict[str, Any], given: dict[str, Any], known: dict[str, Any], method: str | None
    ) -> Path:
        folder = tmp_path / str(len([*tmp_path.iterdir()]))
        folder.mkdir()
        whole = {"architectures": ["Mine"], "vocab_size": 3, **content}
        (folder / "config.json").write_text(json.dumps(whole))
        loaded = replace(engine_info, **{"computed": Computed(), **known})
        return record_path(reload_key(VllmEngine(**given), loaded, method, folder))

    known = path({}, {}, {}, None)
    assert path(config, settings, info, quantization) != known
    same = {"max_model_len": 512, "max_num_seqs": 8}
    assert path({}, same, {"max_model_len": 99, "load_seconds": 9.0}, None) == known


@pytest.fixture
def engine_info() -> EngineInfo:
    weights = LoadedWeights(memory="ab")
    return EngineInfo("vllm", "0.32.0", "cpu", "float32", 512, None, 1.0, weights=weights)


def quantised(model: ResolvedModel) -> ResolvedModel:
    return replace(model, identity=model.identity.model_copy(update={"quantization": "fp8"}))


def on_hub(model: ResolvedModel) -> ResolvedModel:
    """A model that is not in the cache of this machine."""
    identity = model.identity.model_copy(update={"kind": "hub", "name": "org/missing"})
    return replace(model, identity=identity, path="org/missing", revision="0" * 40)


@pytest.mark.parametrize(
    ("settings", "change", "says"),
    [
        ({}, replace, None),
        ({}, partial(replace, adapter="/lora"), "an adapter is applied"),
        ({}, partial(replace, code_revision="abc"), "other code"),
        ({}, quantised, "the models are quantised otherwise"),
        ({}, on_hub, "the files of a model are not in the Hub's cache of this machine"),
        ({"extra": ("speculative_config={model: org/draft}",)}, replace, "a draft model"),
        ({"extra": ("load_format=dummy",)}, replace, "load_format=dummy"),
    ],
)
def test_what_cannot_share_an_engine_is_told(
    resolved_model: ResolvedModel,
    engine_info: EngineInfo,
    settings: dict[str, Any],
    change: Callable[[ResolvedModel], ResolvedModel],
    says: str | None,
):
    one, other = resolved_model, change(resolved_model)
    for pair in ((one, other), (other, one)):
        digests = read_digests(pair[0])
        reason = reason_for_new_start(VllmEngine(**settings), *pair, engine_info, digests)
        assert reason is says is None or str(says) in str(reason)


def test_workers_that_cannot_replace_weights_are_told(
    resolved_model: ResolvedModel, engine_info: EngineInfo
):
    info = replace(engine_info, weights=LoadedWeights())
    reason = reason_for_new_start(VllmEngine(), resolved_model, resolved_model, info, {})
    assert "cannot replace weights" in str(reason)


@pytest.fixture
def running(resolved_model: ResolvedModel, tmp_path: Path) -> OwnerAlone:
    """An engine with the demo model, on a machine where nothing is proven."""
    return OwnerAlone(resolved_model, tmp_path / "log")


def test_a_model_that_cannot_share_the_engine_gets_a_new_start_and_the_log_says_why(
    running: OwnerAlone, resolved_model: ResolvedModel, caplog: pytest.LogCaptureFixture
):
    caplog.set_level("INFO", "regrade.generate")
    running.switch(quantised(resolved_model), [])
    running.switch(resolved_model, [[replace(ASKED[0], images=(image(1),))]])

    assert running.kinds() == [("end", None), ("new start", None)] * 2
    told = f"{resolved_model.identity.name} gets a new start of the engine: "
    images = "its questions show images, which each model's own processor reads"
    assert caplog.messages == [told + "the models are quantised otherwise", told + images]


@pytest.mark.parametrize("fresh", [probed(-1, -1, -1), probed(-1, -1, -2)])
def test_weights_are_replaced_from_then_on_only_if_the_first_ones_gave_the_answers_of_a_new_engine(
    running: OwnerAlone,
    resolved_model: ResolvedModel,
    own_cache: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    fresh: Probed,
):
    """The first model has a new engine in any case, which answers: no answer is from weights that nothing is proven of."""
    told = OwnerAlone._swap

    def swap(self: OwnerAlone, message: dict[str, Any]) -> dict[str, Any]:
        probes = {"reload": probed(-1, -1, -2), "probe": fresh}
        return told(self, message) | {
            "before": probed(-3, -1, -1),
            "after": probes[message["type"]],
        }

    monkeypatch.setattr(OwnerAlone, "_swap", swap)
    monkeypatch.setattr(owner, "reason_for_new_start", lambda *_: None)
    same = fresh == probed(-1, -1, -2)
    caplog.set_level("INFO", "regrade.generate")

    running.switch(resolved_model, [])
    proven = [("reload", False), ("end", None), ("new start", None), ("probe", None)]
    assert running.kinds() == proven
    running.switch(resolved_model, [])

    assert running.kinds()[len(proven) :] == (
        [("reload", False)] if same else [("end", None), ("new start", None)]
    )
    loud = [record.message for record in caplog.records if record.levelname == "ERROR"]
    assert ["OTHER answers than a new engine" in message for message in loud] == [True][same:]
    assert ("replaced weights gave other answers than a new engine" in caplog.text) != same


def test_the_files_of_the_next_model_are_read_while_the_present_one_answers(
    running: OwnerAlone, resolved_model: ResolvedModel
):
    running.read_ahead(resolved_model)
    assert running.told == [{"type": "read_ahead", "model": resolved_model.path, "extra": {}}]


def test_the_next_model_is_downloaded_while_the_present_one_answers_and_waited_for_at_the_switch(
    running: OwnerAlone, resolved_model: ResolvedModel, monkeypatch: pytest.MonkeyPatch
):
    begun, arrived, waited = Event(), Event(), []

    def download(model: ResolvedModel, *, download: bool) -> Path:
        begun.set()
        assert arrived.wait(60)
        return Path(resolved_model.path)

    def show(stage: str) -> None:
        waited.append(stage)
        arrived.set()

    monkeypatch.setattr(owner, "files_folder", download)
    monkeypatch.setattr(owner, "reason_for_new_start", lambda *_: None)
    monkeypatch.setattr(owner, "stored_record", lambda _: ReloadRecord.model_construct(same=True))
    running._progress = show
    running.read_ahead(on_hub(resolved_model))
    assert begun.wait(60), "no download has begun"
    assert list(running.generate([])) == []
    assert (running.told, waited) == ([], [])

    running.switch(on_hub(resolved_model), [])

    assert waited == ["downloading org/missing", "reading the weights of org/missing"]
    assert running.kinds() == [("read_ahead", None), ("reload", False)]
    assert {told["model"] for told in running.told} == {resolved_model.path}


def test_a_model_that_was_being_downloaded_when_it_was_loaded_shares_its_engine(
    running: OwnerAlone, resolved_model: ResolvedModel, monkeypatch: pytest.MonkeyPatch
):
    for module in (owner, switching):
        monkeypatch.setattr(module, "files_folder", lambda *_, **__: Path(resolved_model.path))
    monkeypatch.setattr(owner, "stored_record", lambda _: ReloadRecord.model_construct(same=True))
    running._model, running._digests = on_hub(resolved_model), {"config.json": "of a part"}

    running.switch(on_hub(resolved_model), [])

    assert running.kinds() == [("reload", False)]


def test_a_download_that_fails_ahead_is_left_to_the_switch(
    running: OwnerAlone,
    resolved_model: ResolvedModel,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
):
    def fail(*_: object, **__: object) -> Path:
        raise HubError("org/missing", "downloading it", "The Hub does not answer.", retryable=True)

    monkeypatch.setattr(owner, "files_folder", fail)
    running._download(on_hub(resolved_model))
    assert "org/missing is not downloaded ahead: " in caplog.text
    assert running.told == []


def test_the_digest_of_weights_notices_each_changed_moved_or_renamed_value():
    import torch

    torch.manual_seed(0)
    for dtype in (torch.float32, torch.bfloat16, torch.int8):
        weights = (torch.randn(7, 9) * 50).to(dtype)

        def digest(tensor: torch.Tensor, name: str = "a") -> str:
            return weights_digest([(name, tensor)])

        flipped, moved = weights.clone(), weights.clone()
        flipped[6, 8] += 1
        moved[0], moved[1] = weights[1], weights[0]
        others = [flipped, moved, weights.reshape(9, 7), weights[:6]]
        found = {digest(weights), digest(weights, "b"), *map(digest, others)}
        assert len(found) == 6
        assert digest(weights.clone()) == digest(weights)
        assert digest(weights.t().contiguous().t()) == digest(weights)


WITHOUT_COPIES = """
from regrade.engines.vllm_process.reloading import Reloading
Reloading.regrade_pack_again = lambda self: 0
"""


@pytest.mark.vllm
@pytest.mark.slow  # three engine starts
@pytest.mark.timeout(1800)
def test_weights_that_a_reload_leaves_as_they_were_are_noticed_and_each_model_gets_a_start(
    demo_model: Path,
    tmp_path: Path,
    own_cache: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
):
    (tmp_path / "sitecustomize.py").write_text(WITHOUT_COPIES)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    other = FAST.resolve(str(checkpoint(demo_model, tmp_path / "b", seed=1)))
    model = FAST.resolve(str(demo_model))
    log = tmp_path / "vllm.log"
    pids, answers = [], []
    with opened(model, log, FAST, ASKED) as engine:
        for switched_to in (None, other, model):
            if switched_to is not None:
                engine.switch(switched_to, [ASKED])
            pids.append(engine.pid)
            answers.append(answers_of(engine))
            assert engine.info.weights is not None
            assert not engine.info.weights.replaced
    assert len(set(pids)) == 3
    assert_equal(answers[0], answers[2])
    assert "OTHER answers than a new engine" in caplog.text
    (record,) = (own_cache / "reloads").iterdir()
    assert '"same": false' in record.read_text()

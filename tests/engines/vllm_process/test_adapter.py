import json
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pytest

from regrade.engines.base import Engine
from regrade.engines.vllm import VllmEngine
from regrade.engines.vllm_process.adapter import AdaptedEngine, adapter_arguments
from regrade.engines.vllm_process.arguments import engine_arguments
from regrade.records import Request
from regrade.settings import SamplingParams
from regrade.settings.errors import SettingsError
from tests.engine_fixtures import FAST
from tests.engines.vllm_process.asking import ask, opened
from tests.lora import write_adapter, write_config, write_merged

pytestmark = [
    pytest.mark.vllm,
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # while vLLM imports torch
]

QUESTION = "Question: What is {} plus 3?\nA. 4\nB. 5\nC. 6\nD. 7\nAnswer:"
LETTERS = (" A", " B", " C", " D")
WORDS = (" A", " B or so", " C", " none")
REQUESTS = [
    *(Request(k, f"Hello {k}", SamplingParams(max_tokens=12)) for k in range(6)),
    *(Request(6 + k, QUESTION.format(k), SamplingParams(max_tokens=1), LETTERS) for k in range(4)),
    *(Request(10 + k, QUESTION.format(k), SamplingParams(max_tokens=1), WORDS) for k in range(4)),
]
Answers = list[tuple[str | None, tuple[float, ...] | None]]


def with_adapter(model: Path, folder: Path, adapter: Path, **settings: Any) -> Any:
    engine = FAST.model_copy(update={"lora": str(adapter), **settings})
    return opened(model, folder / "vllm.log", engine)


def answers(engine: Engine) -> Answers:
    completions = ask(engine, REQUESTS)
    assert [completion.error for completion in completions] == [None] * len(REQUESTS)
    return [(completion.text, completion.label_logprobs) for completion in completions]


@pytest.fixture(scope="module")
def adapter(demo_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_adapter(tmp_path_factory.mktemp("adapter") / "trained", demo_model)


@pytest.fixture(scope="module")
def adapted(demo_model: Path, adapter: Path, tmp_path_factory: pytest.TempPathFactory) -> Answers:
    with with_adapter(demo_model, tmp_path_factory.mktemp("engine"), adapter) as engine:
        return answers(engine)


@pytest.mark.slow
def test_every_request_is_answered_with_the_adapter(adapted: Answers, vllm_engine: Engine):
    without = answers(vllm_engine)

    assert sum(mine[0] != other[0] for mine, other in zip(adapted, without, strict=True)) >= 3
    for mine, other in zip(adapted[6:], without[6:], strict=True):
        assert mine[1] != pytest.approx(other[1], abs=0.01)


@pytest.mark.slow
def test_a_model_with_the_adapter_merged_into_it_gives_the_same_answers(
    adapted: Answers, demo_model: Path, adapter: Path, tmp_path: Path
):
    merged = write_merged(tmp_path / "merged", demo_model, adapter)
    with opened(merged, tmp_path / "vllm.log") as engine:
        expected = answers(engine)

    assert [text for text, _ in adapted] == [text for text, _ in expected]
    for (_, mine), (_, other) in zip(adapted[6:], expected[6:], strict=True):
        assert mine == pytest.approx(other, abs=1e-3)


@pytest.mark.slow
def test_an_adapter_of_zeros_changes_no_answer(
    demo_model: Path, vllm_engine: Engine, tmp_path: Path
):
    zeros = write_adapter(tmp_path / "new", demo_model, scale=0.0)
    with with_adapter(demo_model, tmp_path, zeros) as engine:
        assert answers(engine) == answers(vllm_engine)


@pytest.mark.slow
def test_copies_of_the_model_have_the_adapter(
    adapted: Answers, demo_model: Path, adapter: Path, tmp_path: Path
):
    with with_adapter(demo_model, tmp_path, adapter, data_parallel_size=2) as engine:
        copies = answers(engine)

    assert [text for text, _ in copies] == [text for text, _ in adapted]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("prefix", "rank", "message"),
    [
        # vLLM ignores such weights: the answers would be those of the base model.
        ("base_model.model.vision.", None, "changes nothing.*no layer"),
        (None, 1, "vLLM cannot apply the adapter"),
    ],
    ids=["names of no layer", "another rank than the configuration's"],
)
def test_an_adapter_that_does_not_fit_the_model_is_refused(
    demo_model: Path, tmp_path: Path, prefix: str | None, rank: int | None, message: str
):
    named = {"prefix": prefix} if prefix else {}
    other = write_adapter(tmp_path / "other", demo_model, **named)
    config = json.loads((other / "adapter_config.json").read_text())
    (other / "adapter_config.json").write_text(json.dumps(config | ({"r": rank} if rank else {})))

    with pytest.raises(SettingsError, match=message), with_adapter(demo_model, tmp_path, other):
        pass


@pytest.mark.parametrize(
    ("config", "allowed"),
    [({"r": 1}, 1), ({"r": 2}, 8), ({"r": 8}, 8), ({"r": 9}, 16), ({"r": 512}, 512), ({"r": 8, "rank_pattern": {"q_proj": 40}}, 64)],
)  # fmt: skip
def test_the_rank_is_the_next_that_vllm_has(tmp_path: Path, config: dict[str, Any], allowed: int):
    folder = write_config(tmp_path / "adapter", **config)

    assert adapter_arguments(str(folder), is_cpu=False) == {
        "enable_lora": True,
        "max_lora_rank": allowed,
        "max_loras": 1,
    }


def test_on_a_cpu_only_the_kinds_of_layers_of_the_adapter_may_have_one(tmp_path: Path):
    """With the output layer among them, vLLM 0.32 ends at requests for log-probabilities of prompts."""
    folder = write_config(
        tmp_path / "adapter", layers=("up_proj", "down_proj", "experts.1.up_proj")
    )

    arguments = adapter_arguments(str(folder), is_cpu=True)

    assert arguments["lora_target_modules"] == ["down_proj", "experts", "up_proj"]


def test_labels_of_several_tokens_are_not_ranked_without_the_adapters_output_layer():
    from vllm import SamplingParams as Params

    engine_itself = MagicMock()
    for has_head in (False, True):
        engine = AdaptedEngine(engine_itself, MagicMock(), has_head=has_head)
        engine.add_request("1", [0], Params(max_tokens=1))
        if has_head:
            with pytest.raises(ValueError, match="'lm_head'"):
                engine.add_request("2", [0], Params(max_tokens=1, prompt_logprobs=0))
        else:
            engine.add_request("2", [0], Params(max_tokens=1, prompt_logprobs=0))

    assert engine_itself.add_request.call_count == 3


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"r": 513}, "rank 513; vLLM applies ranks up to 512"),
        ({"use_dora": True}, "DoRA"),
        ({"modules_to_save": ["embed_tokens", "lm_head"]}, "modules_to_save"),
        ({"bias": "all"}, "bias is not supported"),
        ({"r": "eight"}, "vLLM does not apply"),
    ],
    ids=str,
)
def test_what_vllm_does_not_apply_is_refused_before_the_weights_are_read(
    tmp_path: Path, changes: dict[str, Any], message: str
):
    folder = write_config(tmp_path / "adapter", **changes)

    with pytest.raises(SettingsError, match=message) as caught:
        adapter_arguments(str(folder), is_cpu=False)

    assert "Merge it into its base model" in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["enable_lora", "max_loras", "max_lora_rank"])
def test_further_arguments_cannot_change_those_of_the_adapter(
    demo_model: Path, tmp_path: Path, name: str
):
    message = {
        "model": str(demo_model),
        "revision": None,
        "adapter": str(write_config(tmp_path / "adapter")),
        "settings": VllmEngine().arguments,
        "extra": {name: 1},
    }

    with pytest.raises(SettingsError, match=f"cannot set '{name}'"):
        engine_arguments(message, is_cpu=True)

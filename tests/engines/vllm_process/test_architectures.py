"""Real vLLM with tiny models of real architectures; transformers' forward pass gives the expected answers.

Not among them (vLLM 0.32 on the CPU):

- `qwen3_next`: its linear attention needs bfloat16 on the CPU.
- `qwen3`: the demo model, which the other tests use.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from regrade.engines.vllm import VllmEngine
from regrade.records import Request
from regrade.settings import SamplingParams
from tests.architectures import ARCHITECTURES, SEEING, Reference, random_model
from tests.engines.vllm_process.asking import ask, opened

pytestmark = [pytest.mark.vllm, pytest.mark.slow, pytest.mark.timeout(600)]
EXTRA = ("kv_cache_memory_bytes=268435456",)
SETTINGS = VllmEngine(enforce_eager=True, max_model_len=512, extra=EXTRA)
LATENT = VllmEngine(
    enforce_eager=True,
    max_model_len=512,
    extra=(*EXTRA, "attention_backend=CPU_MLA"),  # with AMX, vLLM chooses one that needs bfloat16
)
TOLERANCE = 1e-2
"""Largest difference of log-probabilities."""
CHAT = (
    {"role": "user", "content": "What is 2 plus 3? Count from the first number, step by step."},
)
TEXT = "Question: what is the sum of the numbers 2 and 3?\nA. 5\nB. 6\nAnswer:"
TOKENS = 8
GREEDY = SamplingParams(temperature=0, max_tokens=TOKENS)
ONE = SamplingParams(temperature=0, max_tokens=1)
ANSWERED = [Request(0, CHAT, GREEDY), Request(1, TEXT, GREEDY)]
RANKED = [Request(2, CHAT, ONE, labels=("A", "B")), Request(3, TEXT, ONE, labels=(" A", " B"))]


@pytest.fixture(scope="module", autouse=True)
def compiled_kernels(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Folder that all engines share; otherwise each compiles the same kernels again."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path_factory.mktemp("kernels")))
        yield


@pytest.mark.parametrize("model_type", [*ARCHITECTURES, *SEEING])
def test_answers_are_those_of_the_forward_pass(model_type: str, demo_model: Path, tmp_path: Path):
    folder = random_model(model_type, demo_model, tmp_path / "model")
    reference = Reference(folder)
    settings = LATENT if model_type == "deepseek_v3" else SETTINGS
    # Without planned requests, chunked prefill is off on the CPU, and Mamba needs it.
    with opened(folder, tmp_path / "vllm.log", settings, [*ANSWERED, *RANKED]) as engine:
        info, answers = engine.info, ask(engine, [*ANSWERED, *RANKED])

    if model_type in SEEING:
        log = (tmp_path / "vllm.log").read_text(errors="replace")
        assert "Encoder cache" not in log  # the tower is not profiled
    assert (info.engine, info.device, info.dtype) == ("vllm", "cpu", "float32")
    assert info.max_model_len == SETTINGS.max_model_len
    assert [answer.error for answer in answers] == [None] * 4
    for request in ANSWERED:
        answer = answers[request.key]
        assert answer.text == reference.greedy(answer.prompt, TOKENS)
        assert answer.completion_tokens == TOKENS
    for request in RANKED:
        answer = answers[request.key]
        expected = reference.label_logprobs(answer.prompt, request.labels)
        assert answer.label_method == "single_token"
        assert answer.label_logprobs == pytest.approx(expected, abs=TOLERANCE)

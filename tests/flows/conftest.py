"""Engines in the place of vLLM, for flows that start several."""

import pytest

from regrade.engines.vllm import VllmEngine
from tests.limited_engine import Engines, LimitedTestEngine


@pytest.fixture
def engines(monkeypatch: pytest.MonkeyPatch) -> Engines:
    """Engines in the place of vLLM."""
    found = Engines()

    def opened(settings: VllmEngine, *_: object, **__: object) -> LimitedTestEngine:
        return found.open(settings)

    monkeypatch.setattr(VllmEngine, "open", opened)
    return found

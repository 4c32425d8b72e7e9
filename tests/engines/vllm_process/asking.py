"""Real vLLM in tests: what starts it, and what asks it."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from regrade.engines.base import Engine, PromptRendering
from regrade.engines.vllm import VllmEngine
from regrade.models.base import ResolvedModel
from regrade.records import Completion, Request
from tests.engine_fixtures import FAST


def opened(
    model: Path | ResolvedModel,
    log: Path,
    settings: VllmEngine = FAST,
    *requests: Iterable[Request],
    **rendering: Any,
) -> Any:
    """vLLM for these planned streams of requests, which loads on entry."""
    resolved = model if isinstance(model, ResolvedModel) else settings.resolve(str(model))
    return settings.open(
        resolved, requests=requests, rendering=PromptRendering(**rendering), log=log
    )


def ask(engine: Engine, requests: Iterable[Request]) -> list[Completion]:
    """The answers, in the order of their keys."""
    completions = [c for batch in engine.generate(requests) for c in batch]
    return sorted(completions, key=lambda completion: completion.key)

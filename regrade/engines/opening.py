"""From settings to an engine."""

from collections.abc import Callable, Sequence
from pathlib import Path

from regrade.engines.base import Engine, PromptRendering
from regrade.engines.openai_api.client import OpenAIClient
from regrade.engines.vllm_process.engine import VllmProcess
from regrade.models import ResolvedModel
from regrade.records import Request
from regrade.settings import EngineSettings, VllmEngine


def open_engine(
    settings: EngineSettings,
    model: ResolvedModel,
    *,
    longest: Sequence[Request],
    rendering: PromptRendering,
    log: Path,
    on_progress: Callable[[str], None] | None = None,
) -> Engine:
    """Return the engine, which loads when it is entered and is gone when it is left.

    Args:
        settings: Which engine, and how.
        model: What `resolve_model` found for these settings.
        longest: The longest requests, a few hundred by rough length; they decide `max_model_len` where it is not set.
        rendering: How chat prompts become text.
        log: File that takes the engine's own output.
        on_progress: Called with a few words while the engine loads.

    Raises:
        SettingsError: Here or on entry, if the engine cannot be as asked.
        NotInstalledError: On entry, if vLLM is not installed.
        EngineError: On entry, if the engine does not start.
    """
    if isinstance(settings, VllmEngine):
        return VllmProcess(
            settings,
            model,
            longest=longest,
            rendering=rendering,
            log=log,
            on_progress=on_progress,
        )
    return OpenAIClient(settings, model, rendering=rendering)

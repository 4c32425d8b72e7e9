"""The engine `openai`: a client for servers with an OpenAI-compatible API (`regrade/engines/openai_api`)."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from pydantic import ConfigDict, Field

from regrade.engines.base import BaseEngineSettings, Engine, PromptRendering

if TYPE_CHECKING:
    from regrade.models import ResolvedModel
    from regrade.records import Request


class OpenAIEngine(BaseEngineSettings):
    """Any server with an OpenAI-compatible API, such as `vllm serve`."""

    model_config = ConfigDict(title="Endpoint")

    kind: Literal["openai"] = "openai"
    base_url: str = Field("http://127.0.0.1:8000/v1", pattern=r"^https?://")
    """Address of the API, ending in `/v1`."""
    max_concurrency: int = Field(64, ge=1, le=4096)
    """Requests in flight."""
    batch_size: int = Field(1, ge=1, le=256)
    """Completion prompts per request, if the server allows it; a chat request always carries one prompt."""
    api_key_env: str = "OPENAI_API_KEY"
    """Name of the environment variable that holds the key; the key itself is never a setting."""
    timeout: float = Field(600.0, gt=0)
    """Timeout of a request in seconds."""
    max_retries: int = Field(6, ge=0)
    """Retries after 429, 5xx and timeouts."""

    def resolve(self, model_name: str) -> "ResolvedModel":
        """Return the model that the server serves under a name."""
        from regrade.models import resolve_served  # noqa: PLC0415 - forms do not need the client

        return resolve_served(model_name, base_url=self.base_url, api_key_env=self.api_key_env)

    def open(
        self,
        model: "ResolvedModel",
        *,
        longest: "Sequence[Request]",  # noqa: ARG002 - the server knows its context length
        rendering: PromptRendering,
        log: Path,  # noqa: ARG002 - the server has its own log
        on_progress: Callable[[str], None] | None = None,  # noqa: ARG002 - the server has loaded the model
    ) -> Engine:
        """Return a client of the server, not connected yet."""
        from regrade.engines.openai_api.client import OpenAIClient  # noqa: PLC0415 - see `resolve`

        return OpenAIClient(self, model, rendering=rendering)


engine = OpenAIEngine

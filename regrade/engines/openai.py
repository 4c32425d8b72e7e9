"""The engine `openai`: a client for servers with an OpenAI-compatible API (`regrade/engines/openai_api`)."""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import ConfigDict

from regrade.engines.base import BaseEngineSettings, Engine, PromptRendering, first_requests
from regrade.engines.openai_api.settings import ServerSettings

if TYPE_CHECKING:
    from regrade.models.base import ResolvedModel
    from regrade.records import Request


class OpenAIEngine(ServerSettings, BaseEngineSettings):
    """Any server with an OpenAI-compatible API, such as `vllm serve`."""

    model_config = ConfigDict(title="Endpoint")

    kind: Literal["openai"] = "openai"

    def resolve(self, model_name: str) -> "ResolvedModel":
        """Return the model that the server serves under a name; several servers must have the same weights."""
        from regrade.models.served import resolve_served  # noqa: PLC0415 - forms do not need the client

        return resolve_served(
            model_name,
            base_urls=self.base_urls,
            api_key_env=self.api_key_env,
            revision=self.model_revision,
        )

    def identity(self, model: "ResolvedModel", *, truncate: bool) -> dict[str, Any]:  # noqa: ARG002
        """Return no settings, because only the server decides what the model computes; see `resolve_served`."""
        return {}

    def open(
        self,
        model: "ResolvedModel",
        *,
        requests: "Sequence[Iterable[Request]]",
        rendering: PromptRendering,
        log: Path,  # noqa: ARG002 - the server has its own log
        on_progress: Callable[[str], None] | None = None,  # noqa: ARG002 - the server has loaded the model
    ) -> Engine:
        """Return a client of the server, not connected yet."""
        from regrade.engines.openai_api.client import OpenAIClient  # noqa: PLC0415 - see `resolve`

        first = first_requests(requests)
        structure = next((asked.structure for asked in first if asked.structure), None)
        return OpenAIClient(self, model, rendering=rendering, structure=structure)


engine = OpenAIEngine

"""Settings of the engine `openai`."""

from typing import Annotated
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field

from regrade.settings import Settings
from regrade.settings.errors import SettingsError
from regrade.settings.marks import FIXED, NO_OPTION, Option


def _without_login(address: str) -> str:
    if "@" in urlsplit(address).netloc:
        # Not a ValueError, whose message would repeat the value.
        raise SettingsError(
            "`engine.base_url` has a user or a password, but engine settings are stored with the answers, "
            "where others read them. Put the key into an environment variable, and its name into `engine.api_key_env`."
        )
    return address


Address = Annotated[str, AfterValidator(_without_login), Field(pattern=r"^https?://")]


class ServerSettings(Settings):
    """Address of a server with an OpenAI-compatible API, and limits of its use."""

    option_prefix = ""
    option_group = "Engine `openai`"

    base_url: Annotated[
        Address,
        Option(
            hint="Several times for several servers with the same model.", more="more_base_urls"
        ),
    ] = "http://127.0.0.1:8000/v1"
    """Address of the API, ending in `/v1`."""
    more_base_urls: Annotated[tuple[Address, ...], NO_OPTION, FIXED] = ()
    """Addresses of further servers with the same model. The server with the fewest requests in flight gets the next one."""
    model_revision: str | None = Field(None, min_length=1)
    """Revision of the served weights, such as a commit or a training step. Default: as the server reports."""
    max_concurrency: Annotated[int, FIXED] = Field(64, ge=1, le=4096)
    """Most requests in flight, at all servers together; fewer while a server says that these are too many (status 429, or
    rate-limit headers)."""
    batch_size: int = Field(1, ge=1, le=256)
    """Completion prompts per request, if the server allows it; a chat request always carries one prompt."""
    api_key_env: str = "OPENAI_API_KEY"
    """Name of the environment variable that holds the key; the key itself is never a setting."""
    timeout: float = Field(600.0, gt=0)
    """Seconds without any byte from the server after which a request is sent again. Answers are streamed, so that a
    long answer is not requested twice."""
    max_retries: int = Field(6, ge=0)
    """Retries after 429, 5xx and timeouts."""

    @property
    def base_urls(self) -> tuple[str, ...]:
        """Addresses of all servers, each once."""
        urls = (self.base_url, *self.more_base_urls)
        return tuple(dict.fromkeys(url.rstrip("/") for url in urls))

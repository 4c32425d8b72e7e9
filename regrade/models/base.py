"""Properties of a model that are known before it is loaded."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from regrade.models.chat_template import (
    FILES,
    ChatTemplate,
    RenderedInCode,
    find_template,
    rendered_in_code,
)
from regrade.records.computed import Fingerprint
from regrade.records.specification import ModelIdentity
from regrade.settings.errors import ModelError

_Value = TypeVar("_Value")
ADAPTER_CONFIG = "adapter_config.json"
"""File that only adapters of the PEFT library have."""


@dataclass(frozen=True, slots=True)
class ResolvedModel:
    """An existing model, with properties read from its files or its server."""

    identity: ModelIdentity
    path: str
    """Name for the engine: a folder, a Hub id, or a name on the server."""
    revision: str | None = None
    """Commit on the Hub; None for other models."""
    answers_chats: bool | None = None
    """False if it has no chat template; None if only the engine knows."""
    chat_template: ChatTemplate | None = None
    """A `RenderedInCode` if vLLM renders chats in code; None if it has none, or if only the engine knows."""
    generation_config: Mapping[str, Any] | None = None
    """Content of `generation_config.json`; None if it does not exist."""
    served_by: str | None = None
    """Software of the model's server, such as `vllm`; None if the server does not report it, or there is no server."""
    max_position_embeddings: int | None = None
    """Context length in tokens of the model (or the server); None if unknown."""
    attention_heads: int | None = None
    """Attention heads of each layer; None if unknown."""
    dtype: str | None = None
    """Precision of the weights that the checkpoint states, such as `bfloat16`; None if unknown."""
    quantization: str | None = None
    """Quantization method that the checkpoint states, such as `fp8`; None without one, or if unknown."""
    found_anyway: frozenset[str] = frozenset()
    """Settings of the engine that name what it finds without them, such as the reasoning parser."""
    fingerprint: Fingerprint | None = None
    """Answers of a server that does not tell which weights it serves; None if it does, or does not answer so."""
    adapter: str | None = None
    """Folder of the LoRA adapter to apply, or None."""
    model_code: Mapping[str, str] = field(default_factory=dict)
    """Repositories with code for the model, and a file in each; "" is the model's repository. The code runs only if it
    is trusted."""
    tokenizer_code: Mapping[str, str] = field(default_factory=dict)
    """The same for the tokenizer."""
    code_revision: str | None = None
    """Commit of the repository with the model's code; None: not trusted, or in the model's folder."""
    code_commits: Mapping[str, str] = field(default_factory=dict)
    """Commit of each repository from which trusted code is run, except the model's repository at the model's commit."""
    earlier_revision: str | None = None
    """Revision in the identity by earlier versions, which left out how images become tokens; None if it is the same one."""


def properties(
    config: Mapping[str, Any], find: Callable[[str], Path | None], *, name: str, in_code: bool
) -> dict[str, Any]:
    """Return the fields of a `ResolvedModel` that the small files of a model state.

    Args:
        config: Content of its `config.json`.
        find: Returns the path of a file of the model by its name, or None if it has no such file.
        name: The user's name for the model, for messages.
        in_code: vLLM uses Mistral's own tokenizer, which has no template.

    Raises:
        ModelError: If a file cannot be read.
    """

    def content(file: str) -> dict[str, Any] | None:
        path = find(file)
        return None if path is None else read_json(path, name)

    tokenizer_config = content("tokenizer_config.json") or {}
    template: ChatTemplate | None = RenderedInCode()
    if not in_code:
        found = {file: find(file) for file in FILES}
        texts = {file: read_text(path, name) for file, path in found.items() if path is not None}
        model_type = str(config.get("model_type"))
        template = find_template(tokenizer_config, texts, model_type)
        template = template or rendered_in_code(model_type)
    names = ("max_position_embeddings", "n_positions", "max_seq_len", "seq_length")
    dtype = _stated(config, str, "dtype", "torch_dtype")
    quantization = (_stated(config, dict, "quantization_config") or {}).get("quant_method")
    return {
        "answers_chats": template is not None,
        "chat_template": template,
        "generation_config": content("generation_config.json"),
        "max_position_embeddings": _stated(config, int, *names),
        "attention_heads": attention_heads(config),
        "dtype": None if dtype is None else dtype.removeprefix("torch."),
        "quantization": quantization if isinstance(quantization, str) else None,
        "model_code": _code_files(config),
        "tokenizer_code": _code_files(tokenizer_config),
    }


def attention_heads(config: Mapping[str, Any]) -> int | None:
    """Return the attention heads of each layer in a `config.json`."""
    return _stated(config, int, "num_attention_heads", "n_head")


def _stated(config: Mapping[str, Any], kind: type[_Value], *names: str) -> _Value | None:
    """Return the first value of a type in a `config.json`, at the top level or in `text_config`; None if it has none."""
    parts = (config, config.get("text_config"))
    for part in (part for part in parts if isinstance(part, Mapping)):
        for name in names:
            if isinstance(value := part.get(name), kind):
                return value
    return None


def _code_files(config: Mapping[str, Any]) -> dict[str, str]:
    """Return the repositories from which the `auto_map` of a configuration takes code, and a file in each.

    An entry is `module.Class` for the configuration's own repository (""), or `org/name--module.Class`.
    """
    entries = config.get("auto_map") or {}
    files = {}
    for value in entries.values() if isinstance(entries, dict) else ():
        for reference in value if isinstance(value, list) else [value]:
            if isinstance(reference, str):
                repository, _, name = reference.rpartition("--")
                files[repository] = f"{name.rpartition('.')[0]}.py"
    return files


def adapter_hint(name: str, config: Mapping[str, Any]) -> str:
    """Return advice for a user who named an adapter as the model.

    Args:
        name: The adapter, as the user named it.
        config: Its `adapter_config.json`.
    """
    base = config.get("base_model_name_or_path") or "BASE_MODEL"
    return f"It holds an adapter, which needs its base model: `--model {base} --lora {name}`."


def read_json(path: Path, model: str) -> dict[str, Any]:
    """Return the object in a JSON file of a model.

    Raises:
        ModelError: If the file is not a JSON object.
    """
    try:
        content = json.loads(read_text(path, model))
    except (ValueError, RecursionError) as error:  # RecursionError: absurdly deep nesting
        raise ModelError(model, f"'{path.name}' cannot be read as JSON: {error}") from error
    if not isinstance(content, dict):
        raise ModelError(
            model, f"'{path.name}' should be a JSON object, found {type(content).__name__}."
        )
    return content


def read_text(path: Path, model: str) -> str:
    """Return the text of a file of a model.

    Raises:
        ModelError: If the file cannot be read, or is not UTF-8.
    """
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ModelError(model, f"'{path.name}' cannot be read: {error}") from error

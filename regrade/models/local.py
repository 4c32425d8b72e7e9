"""Models in a folder: check that they are complete, and compute their fingerprint."""

import os
import re
from collections.abc import Iterable
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from pydantic import BaseModel, Field, ValidationError

from regrade.models.base import ADAPTER_CONFIG, ResolvedModel, adapter_hint, properties, read_json
from regrade.models.chat_template import FILES
from regrade.models.fingerprints import files_sha256
from regrade.records.specification import CHECKPOINT, ModelIdentity
from regrade.settings.errors import ModelError

_TOKENIZERS = (
    "tokenizer.json",
    "tokenizer.model",
    "spiece.model",
    "tekken.json",
    "tokenizer.model.v*",
    "vocab.json",
    "vocab.txt",
    "*.tiktoken",
)
_PARTS_OF_TOKENIZERS = (
    "merges.txt",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
)
_TEMPLATES = (*FILES, "additional_chat_templates/*.jinja")
_MISTRAL_WEIGHTS = "consolidated*.safetensors"
_MISTRAL_TOKENIZERS = ("tekken.json", "tokenizer.model.v*")
"""Files of Mistral's own format; vLLM renders the chats of models that have them and weights of that format in code."""
_PROCESSORS = (
    "preprocessor_config.json",
    "processor_config.json",
    "video_preprocessor_config.json",
)
"""Settings by which images become tokens."""
_SETTINGS = (
    "config.json",
    "generation_config.json",
    "params.json",
    "hf_quant_config.json",
    "quantize_config.json",
    "quant_config.json",
    *_PARTS_OF_TOKENIZERS,
    *_PROCESSORS,
    "*.safetensors.index.json",
    "*.bin.index.json",
    "*.py",
)
_NOT_WEIGHTS = ("training_args.bin", "optimizer*", "scheduler*", "scaler*", "random_states*")
"""Files that trainers write beside the weights; vLLM ignores them as well."""
_PART = re.compile(r"(?P<stem>.+)-\d{5}-of-(?P<count>\d{5})(?P<suffix>\.safetensors|\.bin)")
"""Name of a part of split weights, as `save_pretrained` writes it."""


def resolve_folder(
    folder: Path,
    quantization: str | None,
    *,
    needs_weights: bool,
    needs_tokenizer: bool = True,
    reads_weights: bool = True,
) -> ResolvedModel:
    """Return the model in a folder; its revision is a sha256 over all files that affect its answers.

    Args:
        folder: The folder.
        quantization: Quantization to apply to the checkpoint.
        needs_weights: Refuse a folder without weights.
        needs_tokenizer: Refuse a folder without tokenizer.
        reads_weights: Include the weights in the revision; without them, it does not identify the model.

    Raises:
        ModelError: If a part is missing, or a file cannot be read.
    """
    name = str(folder)
    config = check_folder(folder, needs_weights=needs_weights, needs_tokenizer=needs_tokenizer)
    in_code = _is_rendered_in_code(folder)
    stated = properties(config, lambda file: _existing(folder / file), name=name, in_code=in_code)
    files, processors = model_files(folder, weights=reads_weights), _matching(folder, _PROCESSORS)
    identity = ModelIdentity(
        name=folder_name(folder),
        kind="local",
        revision=revision_of(folder, files),
        quantization=quantization,
    )
    return ResolvedModel(
        identity=identity,
        path=str(folder.resolve()),
        earlier_revision=revision_of(folder, files.difference(processors)) if processors else None,
        **stated,
    )


def revision_of(folder: Path, files: Iterable[Path]) -> str:
    """Return the revision of a model or an adapter in a folder: a sha256 over the files that decide its answers.

    Raises:
        ModelError: If a file cannot be read.
    """
    try:
        return files_sha256(folder, files)
    except PermissionError as error:
        raise ModelError(
            str(folder),
            f"the user of this process may not read '{error.filename}'. Make it readable: `chmod --recursive a+rX {folder}`.",
        ) from error


def folder_name(folder: Path) -> str:
    """Return the name of a model in a folder, for people: the last part of its path, and a checkpoint's parent."""
    resolved = folder.resolve()
    # Every training has a `checkpoint-500`: the name of the parent folder makes it unique.
    is_checkpoint = CHECKPOINT.fullmatch(resolved.name) is not None
    return f"{resolved.parent.name}/{resolved.name}" if is_checkpoint else resolved.name


def check_folder(
    folder: Path, *, needs_weights: bool, needs_tokenizer: bool = True
) -> dict[str, Any]:
    """Check that a model in a folder is complete, without reading its weights; return its `config.json`.

    Raises:
        ModelError: If a part is missing.
    """
    name = str(folder)
    config = _config_file(folder)
    if not config.is_file():
        adapter = folder / ADAPTER_CONFIG
        what = adapter_hint(name, read_json(adapter, name)) if adapter.is_file() else _EXPECTED
        raise ModelError(name, f"the folder has no 'config.json'. {what}")
    if needs_weights:
        _check_weights(folder, weight_files(folder))
    if needs_tokenizer and not _matching(folder, _TOKENIZERS):
        raise ModelError(
            name, f"the folder has no tokenizer ({', '.join(_TOKENIZERS[:3])} ...). {_EXPECTED}"
        )
    return read_json(config, name)


_EXPECTED = "Expected a folder written by `save_pretrained`: config.json, weights (*.safetensors or *.bin) and a tokenizer."


def _config_file(folder: Path) -> Path:
    """Return the path of the configuration: `params.json` for weights in Mistral's own format without `config.json`."""
    config, params = folder / "config.json", folder / "params.json"
    if config.is_file() or not params.is_file() or not _matching(folder, (_MISTRAL_WEIGHTS,)):
        return config
    return params


def _is_rendered_in_code(folder: Path) -> bool:
    """Return True if vLLM uses Mistral's own tokenizer, which has no template."""
    return bool(_matching(folder, (_MISTRAL_WEIGHTS,)) and _matching(folder, _MISTRAL_TOKENIZERS))


def _existing(path: Path) -> Path | None:
    return path if path.is_file() else None


def weight_files(folder: Path) -> list[Path]:
    """Return the weight files that vLLM would read: safetensors, or other formats if there are none."""
    return weights_among(_matching(folder, ("*.safetensors", "*.bin", "*.pt", "*.gguf")))


def weights_among(files: Iterable[Path]) -> list[Path]:
    """Return the weight files that vLLM would read of some files of a model."""
    named = sorted(files)
    safetensors = [path for path in named if path.suffix == ".safetensors"]
    others = [path for path in named if path.suffix in (".bin", ".pt", ".gguf")]
    return safetensors or [
        p for p in others if not any(fnmatch(p.name, pattern) for pattern in _NOT_WEIGHTS)
    ]


def _check_weights(folder: Path, weights: list[Path]) -> None:
    safe = any(path.suffix == ".safetensors" for path in weights)  # vLLM reads these, and no .bin
    kinds = ("*.safetensors.index.json", *(() if safe else ("*.bin.index.json",)))
    for index in _matching(folder, kinds):
        shards = read_json(index, str(folder)).get("weight_map")
        if not isinstance(shards, dict):
            raise ModelError(str(folder), f"'{index.name}' has no 'weight_map'.")
        missing = sorted({str(s) for s in shards.values()} - {path.name for path in weights})
        if missing:
            raise ModelError(
                str(folder),
                f"{len(missing)} of the weight files that '{index.name}' names are missing, such as '{missing[0]}'. "
                "Copy or write the folder again.",
            )
    if not weights:
        raise ModelError(str(folder), f"the folder has no weights. {_EXPECTED}")
    for path in weights:
        if path.suffix == ".safetensors" and (problem := _problem_of_weights(path)):
            raise ModelError(str(folder), f"'{path.name}' {problem}.")
    if missing := missing_parts(path.name for path in weights):
        raise ModelError(
            str(folder),
            f"{len(missing)} of the weight files are missing, such as '{missing[0]}'. Copy or write the folder again.",
        )
    empty = [path.name for path in weights if path.stat().st_size == 0]
    if empty:
        raise ModelError(str(folder), f"the weight file '{empty[0]}' is empty.")


def missing_parts(names: Iterable[str]) -> list[str]:
    """Return the missing files of weights in numbered parts, such as `model-00001-of-00004.safetensors`."""
    known = set(names)
    wanted = {
        f"{part['stem']}-{number:05d}-of-{part['count']}{part['suffix']}"
        for name in known
        if (part := _PART.fullmatch(name)) is not None
        for number in range(1, int(part["count"]) + 1)
    }
    return sorted(wanted - known)


def model_files(folder: Path, *, weights: bool = True) -> set[Path]:
    """Return the files of a model in a folder that decide its answers, with or without its weights."""
    others = _matching(folder, (*_TOKENIZERS, *_TEMPLATES, *_SETTINGS))
    return {*others, *(weight_files(folder) if weights else ())}


def tokenizer_files(folder: Path) -> list[Path]:
    """Return the files of a model's tokenizer in a folder."""
    return _matching(folder, (*_TOKENIZERS, *_PARTS_OF_TOKENIZERS))


def is_setting(name: str) -> bool:
    """Return True for the name of a file that decides a model's answers beside its weights."""
    return any(fnmatch(name, pattern) for pattern in (*_TOKENIZERS, *_TEMPLATES, *_SETTINGS))


def _matching(folder: Path, patterns: tuple[str, ...]) -> list[Path]:
    return sorted({p for pattern in patterns for p in folder.glob(pattern) if p.is_file()})


# Check, without loading it, that a model in a folder is written completely.

_LONGEST_HEADER = 100_000_000
"""Longest header of a safetensors file, in bytes; the safetensors library refuses longer ones."""


class _Tensor(BaseModel):
    """A tensor in a safetensors header (https://huggingface.co/docs/safetensors)."""

    data_offsets: tuple[int, int]


class _Header(BaseModel, extra="allow"):
    """A safetensors header: tensors by name, and texts."""

    __pydantic_extra__: dict[str, _Tensor]
    metadata: dict[str, str] = Field({}, alias="__metadata__")


def find_missing(folder: Path) -> str | None:
    """Name the part that a model in a folder lacks (so far); None if it is complete."""
    try:
        check_folder(folder, needs_weights=True)
    except ModelError as error:
        return error.problem.rstrip(".")
    except OSError as error:  # such as a file that was renamed after it was listed
        return f"a file cannot be read ({error})"
    return None


def file_states(folder: Path) -> dict[str, tuple[int, int]]:
    """Return size and modification time (ns) of each file in a folder and the folders below it."""
    files: dict[str, tuple[int, int]] = {}
    for parent, _, names in os.walk(folder):
        for name in names:
            path = Path(parent, name)
            try:
                status = path.stat()
            except FileNotFoundError:
                continue  # a temporary file that was renamed or deleted
            files[str(path)] = (status.st_size, status.st_mtime_ns)
    return files


def _problem_of_weights(path: Path) -> str | None:
    """Name the problem of the length or the header of a safetensors file; None if it has none.

    The safetensors library would map the file into memory: the training would end by SIGBUS if a writer truncated the
    file meanwhile.
    """
    with path.open("rb") as file:
        start = file.read(8)
        size = os.fstat(file.fileno()).st_size
        length = int.from_bytes(start, "little")
        if len(start) < 8 or 8 + length > size:
            return "is shorter than its header says"
        if length > _LONGEST_HEADER:
            return f"has a header of {length} bytes; at most {_LONGEST_HEADER} are possible"
        try:
            header = _Header.model_validate_json(file.read(length))
        except ValidationError:
            return "has no safetensors header"
    ends = [tensor.data_offsets[1] for tensor in header.__pydantic_extra__.values()]
    return "is shorter than its header says" if size < 8 + length + max(ends, default=0) else None

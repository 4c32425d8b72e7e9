"""Owner side: whether a model's weights may take the place of another's in a running engine, and the proof that they do.

Replaced weights are never believed. The first time on a machine, for each configuration, precision, quantisation, split, vLLM and
device, the answers to fixed prompts are compared with those of a new engine; the result is a file in the cache folder.
"""

import hashlib
import logging
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson
from pydantic import ValidationError

from regrade.engines.base import EngineInfo
from regrade.engines.vllm_process.extra import parse_extra, reads_files
from regrade.engines.vllm_process.settings import PARALLEL, VllmSettings
from regrade.models.base import ResolvedModel
from regrade.models.files import (
    configuration,
    files_folder,
    settings_difference,
    settings_digests,
    weights_sha256,
)
from regrade.records.computed import LoadedWeights
from regrade.settings import StrictModel, Timestamp
from regrade.settings.files import cache_folder, keep
from regrade.settings.project_folder import VERSION

logger = logging.getLogger("regrade.generate")
Probe = Sequence[Sequence[tuple[int, float]]]
"""For each prompt, tokens with their log-probabilities."""
METHOD = 1
"""Version of the way in which weights are replaced and compared; other records do not count."""
LIMITS = {"float32": 1e-3}
"""Largest difference of log-probabilities between two engines with the same weights, by precision of the computation; 2e-5 was
measured in float32."""
LIMIT = 0.05
"""The same for lower precisions."""
FACTOR = 10.0
"""The two models of a proof differ by so many times more than the two engines, else the proof could not have failed."""
_WITH_COMPUTED = ("kv_cache_dtype", "quantization", "layers", "attention", "kernels", "runner")


class ReloadRecord(StrictModel):
    """Result of a proof, as this machine keeps it."""

    key: dict[str, Any]
    """Everything that it holds for."""
    same: bool
    """The replaced weights gave the answers of a new engine."""
    difference: float
    """Largest difference of log-probabilities to the new engine, up to the first other token."""
    tokens_differ: bool
    models: float
    """Largest difference between the two models by which it was proven."""
    at: Timestamp
    regrade_version: str


def read_digests(model: ResolvedModel, *, download: bool = False) -> dict[str, str] | None:
    """Return the digests of a model's files beside its weights; None if they are not on this machine.

    Args:
        model: The model.
        download: Download those of a model on the Hub that are missing: an engine may have loaded it without them.

    Raises:
        HubError: If the Hub cannot be reached or fails.
        ModelError: If the Hub does not have the model any more.
    """
    folder = files_folder(model, download=download, weights=False)
    return None if folder is None else settings_digests(folder)


def reason_for_new_start(
    settings: VllmSettings,
    before: ResolvedModel,
    after: ResolvedModel,
    info: EngineInfo,
    digests: Mapping[str, str] | None,
) -> str | None:
    """Return why the weights of a model cannot take the place of another's, in words; None if they may.

    Args:
        settings: Settings of the running engine.
        before: The model that it serves.
        after: The other model, whose files are on this machine.
        info: The running engine.
        digests: `read_digests` of the model that it serves, as it was loaded: its folder may be gone or overwritten since.
    """
    extra = parse_extra(settings.extra)
    if info.weights is None or info.weights.memory is None:
        return "this engine's workers cannot replace weights (copies of the model, Ray, or workers of your own)"
    if after.adapter or before.adapter:
        return "an adapter is applied"
    if "speculative_config" in extra:
        return "a draft model is in use, which may belong to one of the models only"
    if not reads_files(extra):
        return f"weights are read in another way (load_format={extra['load_format']})"
    if after.code_commits != before.code_commits or after.code_revision != before.code_revision:
        return "the models run other code"
    if after.identity.quantization != before.identity.quantization:
        return "the models are quantised otherwise"
    others = read_digests(after)
    if digests is None or others is None:
        return "the files of a model are not in the Hub's cache of this machine"
    return settings_difference(digests, others)


def loaded_weights(
    settings: VllmSettings, model: ResolvedModel, memory: str | None, *, replaced: bool = False
) -> LoadedWeights:
    """Return the record of the weights that an engine has in memory.

    Args:
        settings: Settings of the engine.
        model: The model.
        memory: Digest of the weights in memory.
        replaced: They took the place of another model's.
    """
    folder = (
        files_folder(model, download=False) if reads_files(parse_extra(settings.extra)) else None
    )
    found = {} if folder is None else weights_sha256(folder)
    return LoadedWeights(files=found or None, memory=memory, replaced=replaced)


def reload_key(
    settings: VllmSettings, info: EngineInfo, quantization: str | None, folder: Path
) -> dict[str, Any]:
    """Return everything that a proof holds for: what decides how vLLM lays out weights and computes with them."""
    content = configuration(folder)
    known = info.computed
    return {
        "method": METHOD,
        "architectures": content.get("architectures"),
        "config": hashlib.sha256(orjson.dumps(content, option=orjson.OPT_SORT_KEYS)).hexdigest(),
        "dtype": info.dtype,
        "quantization": quantization,
        "split": {name: getattr(settings, name) for name in PARALLEL},
        "enforce_eager": settings.enforce_eager,
        "computed": None
        if known is None
        else known.model_dump(mode="json", include={*_WITH_COMPUTED}),
        "vllm": info.version,
        "device": info.device,
    }


def compared(
    key: dict[str, Any], dtype: str | None, before: Probe, replaced: Probe, fresh: Probe
) -> ReloadRecord | None:
    """Return the result of a proof; None if the two models answer too much alike for one.

    Args:
        key: What it holds for.
        dtype: Precision of the computation.
        before: Answers of the former model.
        replaced: Answers with the replaced weights.
        fresh: Answers of a new engine with the same weights.
    """
    difference, tokens_differ = _distance(replaced, fresh)
    models, others = _distance(before, fresh)
    same = not tokens_differ and difference <= LIMITS.get(str(dtype), LIMIT)
    if same and not others and models <= FACTOR * difference:
        return None
    return ReloadRecord(
        key=key,
        same=same,
        difference=difference,
        tokens_differ=tokens_differ,
        models=models,
        at=datetime.now(UTC),
        regrade_version=VERSION,
    )


def _distance(one: Probe, other: Probe) -> tuple[float, bool]:
    """Return the largest difference of log-probabilities up to the first other token, and whether there is such a token."""
    largest, differ = 0.0, len(one) != len(other)
    for answer, answer_of_other in zip(one, other, strict=False):
        for (token, logprob), (token_of_other, logprob_of_other) in zip(
            answer, answer_of_other, strict=False
        ):
            if token != token_of_other:
                differ = True
                break
            largest = max(largest, abs(logprob - logprob_of_other))
    return largest, differ


def record_path(key: dict[str, Any]) -> Path:
    """Return the file of this machine with the result of a proof."""
    canonical = orjson.dumps(key, option=orjson.OPT_SORT_KEYS)
    return cache_folder() / "reloads" / f"{hashlib.sha256(canonical).hexdigest()[:16]}.json"


def stored_record(key: dict[str, Any]) -> ReloadRecord | None:
    """Return the result of an earlier proof; None if there is none. One that cannot be read is logged, and proven again."""
    path = record_path(key)
    try:
        record = ReloadRecord.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        return None
    except (OSError, ValidationError) as error:
        logger.warning("'%s' cannot be read, replaced weights are proven again: %s", path, error)
        return None
    return record if record.key == key else None


def keep_record(record: ReloadRecord) -> Path:
    """Write the result of a proof, and return its file."""
    path = record_path(record.key)
    keep(path, record.model_dump_json(indent=1).encode())
    return path

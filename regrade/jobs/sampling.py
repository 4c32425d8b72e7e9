"""Sampling params of a run: the benchmark's, the model's, or those for models that reason before they answer."""

import logging
from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from regrade.benchmarks.base import Benchmark
from regrade.models import ResolvedModel
from regrade.settings import SamplingDefaults, SamplingParams, SamplingSettings
from regrade.settings.errors import SettingsError
from regrade.settings.problems import one_line

logger = logging.getLogger("regrade.plan")

_OF_MODEL = ("temperature", "top_p", "top_k", "min_p", "repetition_penalty")
"""Fields of `generation_config.json` that vLLM's server also applies (`ModelConfig.get_diff_sampling_param`)."""
REASONING: Mapping[str, Any] = {"temperature": 0.6, "top_p": 0.95, "max_tokens": 32_768}
"""Sampling of models that reason and state no sampling: as in the evaluation of DeepSeek-R1 (arXiv 2501.12948,
section 3), which many model cards repeat. With greedy decoding such models repeat themselves."""
_SHARE = 4
"""A model that reasons may use its context for the answer, except one part in this many."""


def choose_sampling(
    benchmark: Benchmark,
    model: ResolvedModel,
    settings: SamplingSettings | None,
    *,
    reasons: bool,
) -> SamplingParams:
    """Return the sampling params of a benchmark's answers.

    Args:
        benchmark: The benchmark.
        model: The model.
        settings: Values that replace the defaults, and the choice of defaults. None: nothing is set.
        reasons: The model is expected to reason before it answers.

    Raises:
        SettingsError: If the model's own values are wanted and it states none, or a value of its file is invalid.
    """
    settings = settings or SamplingSettings()
    given = settings.model_dump(exclude_unset=True, exclude={"defaults"})
    if benchmark.method == "rank":
        return SamplingParams.model_validate({**benchmark.sampling.model_dump(), **given})
    defaults = settings.defaults
    if defaults == "auto":
        defaults = "model" if reasons else "benchmark"
    values = _defaults(defaults, benchmark, model, settings.defaults, reasons=reasons)
    chosen = SamplingParams.model_validate({**values, **given})
    if defaults != "benchmark":
        _tell(benchmark, chosen, reasons=reasons)
    return chosen


def with_sampling(settings: SamplingSettings | None, less: SamplingParams) -> SamplingSettings:
    """Return settings with the fields that are set in `less`, too, unless `settings` sets them."""
    given = {} if settings is None else settings.model_dump(exclude_unset=True)
    return SamplingSettings.model_validate({**less.model_dump(exclude_unset=True), **given})


def _defaults(
    defaults: SamplingDefaults,
    benchmark: Benchmark,
    model: ResolvedModel,
    asked: SamplingDefaults,
    *,
    reasons: bool,
) -> dict[str, Any]:
    if defaults == "benchmark":
        return benchmark.sampling.model_dump()
    stated = _stated(model)
    if asked == "model" and not stated:
        known = (
            "only its server knows the sampling of its card"
            if model.identity.kind == "served"
            else "it has no 'generation_config.json' with sampling params"
        )
        raise SettingsError(
            f"`--sampling model`: '{model.identity.name}': {known}. Use `--sampling benchmark`, or set `--temperature` and "
            "others by hand."
        )
    if not reasons:
        return {**benchmark.sampling.model_dump(), **stated}
    if asked == "auto" and not stated.get("temperature"):
        stated = {name: REASONING[name] for name in ("temperature", "top_p")}
    values = {
        **benchmark.sampling.model_dump(),
        "max_tokens": REASONING["max_tokens"],
        **stated,
    }
    context = model.max_position_embeddings
    if context is not None:
        values["max_tokens"] = max(1, min(values["max_tokens"], context - context // _SHARE))
    return values


def _stated(model: ResolvedModel) -> dict[str, Any]:
    """Return the sampling params in the checkpoint's `generation_config.json`."""
    config: Mapping[str, Any] = model.generation_config or {}
    stated = {name: config[name] for name in _OF_MODEL if config.get(name) is not None}
    if stated.get("top_k") == -1:  # vLLM's value for all tokens
        stated["top_k"] = 0
    if config.get("do_sample") is False:
        stated.setdefault("temperature", 0.0)
    if stated or config.get("do_sample") is True:
        stated.setdefault("temperature", 1.0)  # the default of vLLM and transformers
    try:
        SamplingParams.model_validate(stated)
    except ValidationError as error:
        raise SettingsError(
            f"'generation_config.json' of '{model.identity.name}' has a value that cannot be used ({one_line(error)}). Use "
            "`--sampling benchmark`."
        ) from error
    return stated


def _tell(benchmark: Benchmark, chosen: SamplingParams, *, reasons: bool) -> None:
    values = chosen.model_dump(exclude_defaults=True, exclude={"stop"})
    shown = ", ".join(
        f"{name} {value:,}" if name == "max_tokens" else f"{name} {value}"
        for name, value in values.items()
    )
    why = "the model reasons before it answers" if reasons else "the model's sampling"
    off = ", `--thinking off` switches reasoning off where it can be" if reasons else ""
    logger.info(
        "%s: %s: %s (`--sampling benchmark` uses the benchmark's%s)",
        benchmark.name,
        why,
        shown,
        off,
    )

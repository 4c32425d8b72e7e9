"""Sampling params of a run: the benchmark's, the model's, or those for models that reason before they answer."""

import logging
import tomllib
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any, Literal

from pydantic import ValidationError

from regrade.benchmarks.base import Benchmark
from regrade.models.base import ResolvedModel
from regrade.settings import SamplingParams, SamplingSettings
from regrade.settings.errors import SettingsError
from regrade.settings.problems import one_line

logger = logging.getLogger("regrade.plan")

_OF_EARLIER = ("temperature", "top_p", "top_k", "min_p", "repetition_penalty")
_OF_MODEL = (*_OF_EARLIER, "presence_penalty", "frequency_penalty")
"""Fields of `generation_config.json` that vLLM's server also applies (`ModelConfig.get_diff_sampling_param`), beside the limit
`max_new_tokens`."""
REASONING: Mapping[str, Any] = {"temperature": 0.6, "top_p": 0.95, "max_tokens": 32_768}
"""Sampling of models that reason and state no sampling: as in the evaluation of DeepSeek-R1 (arXiv 2501.12948,
section 3), which many model cards repeat. With greedy decoding such models repeat themselves."""
_SHARE = 4
"""A model that reasons may use its context for the answer, except one part in this many, or `_ROOM` tokens if they are fewer."""
_LONG = 81_920
"""Most tokens where cards have more than usual, as those of Qwen3-2507 for competitions in mathematics and programming."""
_ROOM = {False: 8_192, True: 2_048}
"""Tokens left for prompts, by `Benchmark.long_thoughts`: competition problems are short, and Qwen3-8B has 38,912 of 40,960 tokens
there, as its card says."""


def choose_sampling(
    benchmark: Benchmark,
    model: ResolvedModel,
    settings: SamplingSettings | None,
    *,
    reasons: bool,
    switched_off: bool = False,
    earlier: bool = False,
) -> SamplingParams:
    """Return the sampling params of a benchmark's answers.

    Args:
        benchmark: The benchmark.
        model: The model.
        settings: Values that replace the defaults, and the choice of defaults. None: nothing is set.
        reasons: The model is expected to reason before it answers.
        switched_off: Its reasoning is switched off.
        earlier: By the rules of earlier versions, by which answers may be stored.

    Raises:
        SettingsError: If the model's own values are wanted and it states none, or a value of its file is invalid.
    """
    settings = settings or SamplingSettings()
    given = settings.model_dump(exclude_unset=True, exclude={"defaults"})
    if benchmark.method == "rank":
        return SamplingParams.model_validate({**benchmark.sampling.model_dump(), **given})
    defaults, usual = settings.defaults, benchmark.sampling.model_dump()
    card = {} if earlier else of_card(model, "on" if reasons else "off")
    if defaults == "auto":
        defaults = "model" if reasons or (switched_off and card) else "benchmark"
    if defaults == "benchmark":
        values = usual
    elif settings.defaults == "auto" and not reasons:
        values = {**usual, **card}
    else:
        stated = _stated(model, earlier=earlier)
        if settings.defaults == "model" and not (earlier or stated.keys() - {"max_tokens"}):
            raise _states_none(model)
        own: Mapping[str, Any] = stated
        if reasons and settings.defaults == "auto" and not stated.get("temperature"):
            own = card or {name: REASONING[name] for name in ("temperature", "top_p")}
        most = own.get("max_tokens", usual["max_tokens"])  # vLLM's server takes it as a limit
        values = {**usual, **own, "max_tokens": min(most, usual["max_tokens"])}
        if reasons:
            values["max_tokens"] = _longest(benchmark, model, stated, earlier=earlier)
    chosen = SamplingParams.model_validate({**values, **given})
    if defaults != "benchmark" and not earlier:
        _tell(benchmark, chosen, reasons=reasons)
    return chosen


def with_sampling(settings: SamplingSettings | None, less: SamplingParams) -> SamplingSettings:
    """Return settings with the fields that are set in `less`, too, unless `settings` sets them."""
    given = {} if settings is None else settings.model_dump(exclude_unset=True)
    return SamplingSettings.model_validate({**less.model_dump(exclude_unset=True), **given})


def _states_none(model: ResolvedModel) -> SettingsError:
    known = (
        "only its server knows the sampling of its card"
        if model.identity.kind == "served"
        else "it has no 'generation_config.json' with sampling params"
    )
    return SettingsError(
        f"`sampling=model`: '{model.identity.name}': {known}. Use `sampling=benchmark`, or set `sampling.temperature` and "
        "others by hand."
    )


def _longest(
    benchmark: Benchmark, model: ResolvedModel, stated: Mapping[str, Any], *, earlier: bool
) -> int:
    """Return the most tokens of an answer with reasoning: what the context leaves after a prompt, up to a limit."""
    long = benchmark.long_thoughts and not earlier
    most = _LONG if long else int(REASONING["max_tokens"])
    most = min(most, int(stated.get("max_tokens", most)))
    context = model.max_position_embeddings
    if context is None:
        return min(most, int(REASONING["max_tokens"]))
    room = context // _SHARE
    return max(1, min(most, context - (room if earlier else min(room, _ROOM[long]))))


@cache
def _cards() -> dict[str, Mapping[str, Any]]:
    """Return the families of models in `cards.toml` by `model_type`."""
    table = tomllib.loads(files("regrade.models").joinpath("cards.toml").read_text("utf-8"))
    return {kind: family for family in table["family"] for kind in family["types"]}


def of_card(model: ResolvedModel, thinking: Literal["on", "off"]) -> dict[str, Any]:
    """Return the sampling that the card of a model's family recommends; empty if it is not known."""
    kind = model.chat_template.model_type if model.chat_template is not None else ""
    card: dict[str, Any] = _cards().get(kind, {}).get(thinking, {})
    return card


def _stated(model: ResolvedModel, *, earlier: bool) -> dict[str, Any]:
    """Return the sampling params in the checkpoint's `generation_config.json`."""
    config: Mapping[str, Any] = model.generation_config or {}
    names = _OF_EARLIER if earlier else _OF_MODEL
    stated = {name: config[name] for name in names if config.get(name) is not None}
    if stated.get("top_k") == -1:  # vLLM's value for all tokens
        stated["top_k"] = 0
    if config.get("do_sample") is False:
        stated.setdefault("temperature", 0.0)
    if stated or config.get("do_sample") is True:
        stated.setdefault("temperature", 1.0)  # the default of vLLM and transformers
    if config.get("max_new_tokens") is not None and not earlier:
        stated["max_tokens"] = config["max_new_tokens"]
    try:
        SamplingParams.model_validate(stated)
    except ValidationError as error:
        raise SettingsError(
            f"'generation_config.json' of '{model.identity.name}' has a value that cannot be used ({one_line(error)}). Use "
            "`sampling=benchmark`."
        ) from error
    return stated


def _tell(benchmark: Benchmark, chosen: SamplingParams, *, reasons: bool) -> None:
    values = chosen.model_dump(exclude_defaults=True, exclude={"stop"})
    shown = ", ".join(
        f"{name} {value:,}" if name == "max_tokens" else f"{name} {value}"
        for name, value in values.items()
    )
    why = "the model reasons before it answers" if reasons else "the sampling of the model's card"
    off = ", `--thinking off` switches reasoning off where it can be" if reasons else ""
    logger.info(
        "%s: %s: %s (`--sampling benchmark` uses the benchmark's%s)",
        benchmark.name,
        why,
        shown,
        off,
    )

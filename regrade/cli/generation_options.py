"""Options of commands that generate; they override the parameters in a YAML file."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from cyclopts import Parameter
from pydantic import ValidationError

from regrade.cli.options import (
    DATASET,
    ENGINE,
    MACHINES,
    PROMPT,
    SAMPLING,
    SERVER,
    STORED,
    WHAT,
    Answers,
    source_override,
)
from regrade.engines.vllm import VllmEngine
from regrade.settings import (
    HARNESS,
    DatasetBenchmark,
    EngineName,
    GoodputLimits,
    PromptSettings,
    SamplingDefaults,
    SamplingParams,
    Settings,
)
from regrade.settings.errors import SettingsError
from regrade.settings.problems import one_line, shown
from regrade.settings.suites import members

# Parameters of a flow in a YAML file, and what may be written in short there.

_GROUPS = {
    "sampling": "{temperature: 0.6}",
    "prompt": "{n_shots: 5}",
    "engine": "{kind: openai}",
    "reuse": "{fresh: true}",
    "lm_eval": "{tasks: [arc_challenge]}",
    "scoring": "{sandbox: landlock}",
    "judge": "{judges: [org/judge-32b]}",
    "price": "{input: 0.15, output: 0.60}",
    "limits": "{ttft_p99: 2}",
    "gate": "{max_drop: 1}",
}
"""Parameters that are groups of settings -> an example."""
_LISTS = {
    "benchmarks": "[gsm8k, mmlu]",
    "suite": "[core]",
    "datasets": "[{name: capitals, path: capitals.jsonl}]",
    "sources": "[{benchmark: gsm8k, path: test.jsonl}]",
}
"""Parameters that are lists -> an example."""
_SHORT = ("sampling", "engine", "benchmarks", "suite")
"""Groups and lists of parameters that may also be a single text."""


def read_config(path: Path) -> dict[str, Any]:
    """Return the parameters in a YAML file.

    Raises:
        SettingsError: If it cannot be read, holds no parameters, or one of them is no group or list where that is expected.
    """
    try:
        content = yaml.safe_load(path.read_text())
    except OSError as error:
        raise SettingsError(f"Configuration '{path}' cannot be read: {error.strerror}.") from error
    except yaml.YAMLError as error:
        raise SettingsError(
            f"Configuration '{path}' is not YAML: {' '.join(str(error).split())}."
        ) from error
    if not isinstance(content, dict):
        raise SettingsError(
            f"Configuration '{path}' should be a mapping of parameters, such as `model: ...`."
        )
    for names, kind, what in ((_GROUPS, dict, "a group of settings"), (_LISTS, list, "a list")):
        for name in names.keys() & content.keys():
            value = content[name]
            short = name in _SHORT and isinstance(value, str)
            if value is not None and not short and not isinstance(value, kind):
                raise SettingsError(
                    f"`{name}:` in '{path}' should be {what}, such as `{name}: {names[name]}`, not {shown(value)}."
                )
    return content


def spelled_out(file: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters that a file may write in short, as the schema of a deployment has them."""
    spelled: dict[str, Any] = {}
    if isinstance(file.get("sampling"), str):
        spelled["sampling"] = {"defaults": file["sampling"]}
    if isinstance(file.get("engine"), str):
        spelled["engine"] = {"kind": file["engine"]}
    if isinstance(file.get("benchmarks"), str):
        spelled["benchmarks"] = [file["benchmarks"]]
    if isinstance(file.get("goodput"), str):
        spelled["goodput"] = _limits(file["goodput"])
    prompt = file.get("prompt")
    if isinstance(prompt, Mapping) and isinstance(prompt.get("thinking"), bool):
        # YAML 1.1 reads the words `on` and `off` as true and false.
        spelled["prompt"] = {**prompt, "thinking": "on" if prompt["thinking"] else "off"}
    return spelled


def harness_tasks(chosen: Mapping[str, Any], path: str | None) -> dict[str, Any]:
    """Return the parameters in which tasks of lm-evaluation-harness are chosen, given among all benchmarks."""
    names = [str(name) for name in chosen.get("benchmarks") or ()]
    tasks = [name.removeprefix(HARNESS) for name in names if name.startswith(HARNESS)]
    group = dict(chosen.get("lm_eval") or {})
    own = group.get("tasks") or []
    if tasks and isinstance(own, list):
        group["tasks"] = [*own, *tasks]
    if path is not None:
        group["path"] = path
    if not group:
        return {}
    others = [name for name in names if not name.startswith(HARNESS)]
    return {"lm_eval": group} | ({"benchmarks": others} if "benchmarks" in chosen else {})


def _limits(text: str) -> dict[str, Any]:
    """Return the limits of goodput that a text names.

    Raises:
        SettingsError: If it is no list of latencies with limits.
    """
    try:
        return GoodputLimits.model_validate(text).model_dump(exclude_none=True)
    except ValidationError as error:
        raise SettingsError(f"`goodput`: {one_line(error)}") from error


class VllmOptions(VllmEngine):
    """Options of vLLM; `--engine` itself says which engine it is."""

    kind: Annotated[Literal["vllm"], Parameter(show=False)] = "vllm"


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class GenerationOptions:
    """Options of `evaluate` and `generate`."""

    model: Annotated[
        str | None,
        Parameter(
            group=WHAT,
            help="Model on the Hub (`org/name` or `org/name@revision`), or a checkpoint's folder. Required for "
            "generation, here or in the `--config` file.",
        ),
    ] = None
    lora: Annotated[
        str | None,
        Parameter(
            group=WHAT,
            help="LoRA adapter for the model, on the Hub or in a folder; the same as `--engine.lora`.",
        ),
    ] = None
    benchmark: Annotated[
        tuple[str, ...],
        Parameter(
            group=WHAT,
            help="Benchmark; `lm_eval:TASK` is a task of lm-evaluation-harness. May be given several times. Required for "
            "generation, unless `--suite` or `--dataset` is given.",
        ),
    ] = ()
    suite: Annotated[
        tuple[str, ...],
        Parameter(
            group=WHAT,
            help="Suite of benchmarks, as `regrade benchmarks` lists them. May be given several times.",
        ),
    ] = ()
    config: Annotated[
        Path | None,
        Parameter(
            group=WHAT,
            help="YAML file with the flow's parameters; options override it.",
        ),
    ] = None
    lm_eval_path: Annotated[
        str | None,
        Parameter(
            group=WHAT,
            help="Folder with yaml files of your own tasks of lm-evaluation-harness, for `--benchmark lm_eval:TASK`.",
        ),
    ] = None
    limit: Annotated[
        int | None, Parameter(group=WHAT, help="Questions per benchmark, evenly spaced.")
    ] = None
    repeats: Annotated[int | None, Parameter(group=WHAT, help="Answers per question.")] = None
    source: Annotated[
        tuple[str, ...],
        Parameter(
            group=WHAT,
            help="`BENCHMARK=PATH`: read a benchmark's questions from a file or folder instead of the Hub.",
        ),
    ] = ()
    fresh: Annotated[
        bool, Parameter(group=STORED, negative="", help="Generate all answers again.")
    ] = False
    heal: Annotated[
        bool,
        Parameter(
            group=STORED,
            negative="",
            help="Generate again what was in damaged or missing shards, and nothing else.",
        ),
    ] = False
    keep_failed: Annotated[
        bool,
        Parameter(group=STORED, negative="", help="Do not send failed requests again."),
    ] = False
    answers: Answers = None
    share: Annotated[
        str | None,
        Parameter(
            group=MACHINES,
            help="Part of the questions with which this machine begins, such as `2/4`; it then helps the others. `auto` "
            "takes it from a Slurm array, an indexed Job of Kubernetes, or SkyPilot.",
        ),
    ] = None
    sampling: Annotated[
        SamplingDefaults | None,
        Parameter(
            name="--sampling",
            group=SAMPLING,
            help="Defaults: `model` is the checkpoint's generation_config.json, `benchmark` the benchmark's, `auto` the "
            "model's if it reasons before it answers.",
        ),
    ] = None
    sampling_params: Annotated[
        SamplingParams | None, Parameter(name="*", group=SAMPLING, show_default=False)
    ] = None
    prompt: Annotated[
        PromptSettings | None, Parameter(name="*", group=PROMPT, show_default=False)
    ] = None
    engine: Annotated[
        EngineName | None,
        Parameter(
            name="--engine",
            group=ENGINE,
            help="vLLM on this machine (default), or an OpenAI-compatible server.",
        ),
    ] = None
    vllm: Annotated[
        VllmOptions | None, Parameter(name="--engine", negative_bool="no-", group=ENGINE)
    ] = None
    base_url: Annotated[
        tuple[str, ...],
        Parameter(
            group=SERVER,
            negative=(),
            help="Address of the server's API, ending in `/v1`. Several times for several servers with the same model.",
        ),
    ] = ()
    model_revision: Annotated[
        str | None,
        Parameter(
            group=SERVER,
            help="Revision of the served weights, such as a commit. Default: what the server reports.",
        ),
    ] = None
    max_concurrency: Annotated[
        int | None, Parameter(group=SERVER, help="Most requests at a time.")
    ] = None
    batch_size: Annotated[
        int | None, Parameter(group=SERVER, help="Completion prompts per request.")
    ] = None
    api_key_env: Annotated[
        str | None,
        Parameter(group=SERVER, help="Name of the environment variable with the API key."),
    ] = None
    timeout: Annotated[
        float | None,
        Parameter(
            group=SERVER,
            help="Seconds without any sign of the server until a request is sent again.",
        ),
    ] = None
    goodput: Annotated[
        str | None,
        Parameter(
            group=ENGINE,
            help="Count the answers within these latencies in seconds, such as `ttft:2,tpot:0.05,e2el:30`.",
        ),
    ] = None
    dataset: Annotated[DatasetBenchmark | None, Parameter(name="--dataset", group=DATASET)] = None

    def parameters(self, *, needs_model: bool = True) -> dict[str, Any]:
        """Return the flow's parameters: those in the file, overridden by options.

        Args:
            needs_model: Refuse parameters without a model.

        Raises:
            SettingsError: If the file cannot be read, no model is given, or an option does not fit the engine.
        """
        chosen = read_config(self.config) if self.config else {}
        options = {
            "model": self.model,
            "limit": self.limit,
            "repeats": self.repeats,
            "answers": self.answers,
            "share": self.share,
            "goodput": self.goodput,
        }
        chosen.update({name: value for name, value in options.items() if value is not None})
        chosen |= spelled_out(chosen)
        given = {
            "sampling": {
                **({} if self.sampling is None else {"defaults": self.sampling}),
                **_set(self.sampling_params),
            },
            "prompt": _set(self.prompt),
        }
        for name, settings in given.items():
            if settings:
                chosen[name] = {**(chosen.get(name) or {}), **settings}
        if engine := self._engine(chosen.get("engine") or {}):
            chosen["engine"] = engine
        reuse = {n: True for n in ("fresh", "heal", "keep_failed") if getattr(self, n)}
        if reuse:
            chosen["reuse"] = {**(chosen.get("reuse") or {}), **reuse}
        if self.benchmark:
            chosen["benchmarks"] = self.benchmark
        if suites := self.suite or _texts(chosen.pop("suite", ())):
            chosen.pop("suite", None)
            more = _texts(chosen.get("benchmarks") or ())
            chosen["benchmarks"] = tuple(dict.fromkeys([*members(suites), *more]))
        chosen |= harness_tasks(chosen, self.lm_eval_path)
        if self.dataset is not None:
            chosen["datasets"] = [
                *(chosen.get("datasets") or ()),
                self.dataset.model_dump(exclude_unset=True),
            ]
        if self.source:
            chosen["sources"] = [
                *(chosen.get("sources") or ()),
                *(source_override(text) for text in self.source),
            ]
        if needs_model and not chosen.get("model"):
            raise SettingsError(
                "No model is given. Name one with `--model`, or as `model:` in the `--config` file."
            )
        return chosen

    def _engine(self, file: dict[str, Any]) -> dict[str, Any]:
        names = (
            "model_revision",
            "max_concurrency",
            "batch_size",
            "api_key_env",
            "timeout",
        )
        server = {name: getattr(self, name) for name in names if getattr(self, name) is not None}
        if self.base_url:
            server = {"base_url": self.base_url[0], "more_base_urls": self.base_url[1:]} | server
            if len(self.base_url) == 1 and "more_base_urls" not in file:
                del server["more_base_urls"]
        vllm = self.vllm.model_dump(exclude_unset=True) if self.vllm else {}
        if self.lora is not None:
            vllm["lora"] = self.lora
        kind = self.engine or file.get("kind") or "vllm"
        if kind == "openai" and vllm:
            raise SettingsError(
                f"Engine 'openai' does not take {_flags(vllm, '--engine.')}: set them on the server."
            )
        if kind == "vllm" and server:
            raise SettingsError(f"{_flags(server, '--')} needs `--engine openai`.")
        kept = file if file.get("kind", "vllm") == kind else {}
        settings = {**kept, **vllm, **server}
        return {**settings, "kind": kind} if settings or self.engine else {}


def _set(settings: Settings | None) -> dict[str, Any]:
    return {} if settings is None else settings.model_dump(exclude_unset=True)


def _texts(value: str | Sequence[str]) -> tuple[str, ...]:
    return (value,) if isinstance(value, str) else tuple(value)


def _flags(options: dict[str, Any], prefix: str) -> str:
    return ", ".join(f"`{prefix}{name.replace('_', '-')}`" for name in options)

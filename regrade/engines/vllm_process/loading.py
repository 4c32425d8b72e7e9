"""Worker side: load the model with the owner's settings."""

import copy
import dataclasses
import hashlib
import math
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

import psutil

from regrade.engines.vllm_process.context import choose_max_model_len
from regrade.engines.vllm_process.cpu_priority import lower_priority
from regrade.engines.vllm_process.data_parallel import DataParallelEngine
from regrade.engines.vllm_process.loop import RejectedRequest, SteppedEngine
from regrade.engines.vllm_process.prompts import Prompts
from regrade.errors import SettingsError

if TYPE_CHECKING:
    from vllm.engine.arg_utils import EngineArgs

_GIB = 1 << 30


@dataclass(frozen=True, slots=True)
class Loaded:
    """A loaded model."""

    engine: SteppedEngine
    prompts: Prompts
    max_model_len: int
    model_limit: int
    """Context length in tokens that the model allows."""
    max_num_seqs: int
    info: dict[str, Any]
    """The fields of `EngineInfo`."""


def load(open_message: Mapping[str, Any], on_progress: Callable[[str], None]) -> Loaded:
    """Load the model for the owner's `open` message.

    Raises:
        SettingsError: If vLLM or the model does not allow the settings. Raised before the weights are read.
    """
    started = time.monotonic()
    on_progress("importing vLLM")
    import vllm
    from vllm.exceptions import VLLMValidationError
    from vllm.platforms import current_platform
    from vllm.tokenizers import cached_tokenizer_from_config
    from vllm.v1.engine.llm_engine import LLMEngine

    is_cpu = current_platform.is_cpu()
    if is_cpu:
        lower_priority()
    arguments = engine_arguments(open_message, is_cpu=is_cpu)
    on_progress("reading the longest prompts")
    no_length: dict[str, Any] = {"max_model_len": None}  # the config then has the model's maximum
    try:
        model = dataclasses.replace(arguments, **no_length).create_model_config()
    except (ValueError, VLLMValidationError) as error:
        raise SettingsError(_rejection(error)) from error
    # A copy, because the engine uses the original in another thread.
    tokenizer = copy.deepcopy(cached_tokenizer_from_config(model))
    rendering = open_message["rendering"]
    template = rendering["chat_template"] or getattr(tokenizer, "chat_template", None)
    prompts = Prompts(
        tokenizer, chat_template=rendering["chat_template"], arguments=rendering["arguments"]
    )
    arguments.max_model_len = _context(
        open_message, prompts, limit=model.max_model_len, has_template=template is not None
    )
    try:
        config = arguments.create_engine_config()
    except (ValueError, VLLMValidationError) as error:
        raise SettingsError(_rejection(error)) from error
    on_progress("loading the model")
    engine: LLMEngine | DataParallelEngine
    if arguments.data_parallel_size > 1:
        engine = DataParallelEngine(arguments)
    else:
        engine = LLMEngine.from_engine_args(arguments)
        # Do not export metrics to Prometheus: the output processor still records the times of each request.
        engine.logger_manager = None
    on_progress("warming up")
    _warm_up(engine, ranks=any(request["labels"] for request in open_message["longest"]))
    return Loaded(
        engine=engine,
        prompts=prompts,
        max_model_len=engine.model_config.max_model_len,
        model_limit=model.max_model_len,
        max_num_seqs=config.scheduler_config.max_num_seqs * arguments.data_parallel_size,
        info={
            "engine": "vllm",
            "version": vllm.__version__,
            "device": current_platform.get_device_name(),
            "dtype": str(engine.model_config.dtype).removeprefix("torch."),
            "max_model_len": engine.model_config.max_model_len,
            "chat_template_sha256": hashlib.sha256(template.encode()).hexdigest()
            if isinstance(template, str)
            else None,
            "load_seconds": time.monotonic() - started,
        },
    )


def _warm_up(engine: SteppedEngine, *, ranks: bool) -> None:
    """Run a request of each kind, so that vLLM's compilation at first use adds to no request's latency."""
    from vllm import SamplingParams
    from vllm.inputs import tokens_input

    kinds = [SamplingParams(max_tokens=2, temperature=temperature) for temperature in (0.0, 1.0)]
    if ranks:
        kinds.append(SamplingParams(max_tokens=1, temperature=0.0, logprob_token_ids=[0]))
    for number, params in enumerate(kinds):
        engine.add_request(f"warm-up-{number}", tokens_input([0, 0]), params)
    finished = 0
    while finished < len(kinds):
        finished += sum(
            isinstance(output, RejectedRequest) or output.finished for output in engine.step()
        )


def engine_arguments(open_message: Mapping[str, Any], *, is_cpu: bool) -> "EngineArgs":
    """Return vLLM's engine arguments for the settings and `engine.extra`.

    Raises:
        SettingsError: If vLLM does not know an extra argument, or has a setting for it, or rejects a value.
    """
    from vllm.engine.arg_utils import EngineArgs
    from vllm.exceptions import VLLMValidationError

    settings: dict[str, Any] = dict(open_message["settings"])
    extra: dict[str, Any] = dict(open_message["extra"])
    known = [field.name for field in dataclasses.fields(EngineArgs)]
    for name in extra:
        if name in settings or name in ("model", "revision"):
            raise SettingsError(f"engine.extra cannot set '{name}', because another setting does.")
        if name not in known:
            close = get_close_matches(name, known, n=1)
            hint = f" Did you mean '{close[0]}'?" if close else ""
            raise SettingsError(f"engine.extra: vLLM has no engine argument '{name}'.{hint}")
    if is_cpu and settings["dtype"] == "auto":
        # bfloat16 needs instructions that many (virtual) CPUs lack, and vLLM does not check all of them.
        settings["dtype"] = "float32"
    longest = open_message["longest"]
    if is_cpu and (not longest or any(request["sampling"]["temperature"] for request in longest)):
        # With chunked prefill, vLLM 0.32 resets the request's random generator, which torch does not support on a
        # CPU ("Generator does not use offset"): the engine would end.
        extra.setdefault("enable_chunked_prefill", False)
    if is_cpu and not os.environ.get("VLLM_CPU_KVCACHE_SPACE"):
        # On a CPU, gpu_memory_utilization is a share of all memory; vLLM fails if other programs use a part of it.
        ranks = ("tensor_parallel_size", "pipeline_parallel_size", "data_parallel_size")
        workers = math.prod(settings[rank] for rank in ranks)
        extra.setdefault("kv_cache_memory_bytes", _cpu_cache_bytes(workers))
    values = {name: value for name, value in settings.items() if value is not None}
    values |= {"model": open_message["model"], "revision": open_message["revision"]}
    if open_message["revision"] is not None:
        values["tokenizer_revision"] = open_message["revision"]
    try:
        return EngineArgs(**(values | {"disable_log_stats": False} | extra))
    except (TypeError, ValueError, VLLMValidationError) as error:
        raise SettingsError(_rejection(error)) from error


def _cpu_cache_bytes(workers: int) -> int:
    """Return the cache size per worker: its share of a quarter of the free memory, between 1 and 4 GiB."""
    return min(max(psutil.virtual_memory().available // 4 // workers, _GIB), 4 * _GIB)


def _context(
    open_message: Mapping[str, Any], prompts: Prompts, *, limit: int, has_template: bool
) -> int:
    longest = open_message["longest"]
    if not has_template and any(isinstance(request["prompt"], list) for request in longest):
        raise SettingsError(
            f"Benchmarks use chat prompts, but the tokenizer of '{open_message['model']}' has no chat template. "
            "Use format 'completion', or set prompt.chat_template."
        )
    prepared = prompts.prepare(longest)
    errors = [request.error for request in prepared if request.error is not None]
    if prepared and len(errors) == len(prepared):
        raise SettingsError(errors[0])
    return choose_max_model_len(
        [request.need for request in prepared if request.error is None],
        limit=limit,
        explicit=open_message["settings"]["max_model_len"],
        truncate=open_message["rendering"]["truncate"],
    )


def _rejection(error: Exception) -> str:
    """Return a message in one line; pydantic's have several."""
    errors = getattr(error, "errors", None)
    message = "; ".join(str(e["msg"]) for e in errors()) if callable(errors) else str(error)
    return f"vLLM rejects the engine settings: {' '.join(message.split())}"

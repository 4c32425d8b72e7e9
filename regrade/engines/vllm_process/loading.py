"""Worker side: load the model with the owner's settings."""

import copy
import hashlib
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, cast

import psutil

from regrade.engines.vllm_process.adapter import load_adapter
from regrade.engines.vllm_process.arguments import (
    engine_arguments,
    engine_config,
    keep_to_forms,
    model_config,
    share_short_contexts,
)
from regrade.engines.vllm_process.channel import Message
from regrade.engines.vllm_process.chat import Chat, open_chat
from regrade.engines.vllm_process.computed import computed
from regrade.engines.vllm_process.cpu import check_rotation, check_sight, share_cores
from regrade.engines.vllm_process.data_parallel import DataParallelEngine
from regrade.engines.vllm_process.fit import check_fit, memory_at_start
from regrade.engines.vllm_process.loop import SteppedEngine
from regrade.engines.vllm_process.meter import Meter
from regrade.engines.vllm_process.parsers import CallReader, ReasoningReader, open_reader
from regrade.engines.vllm_process.pictures import open_pictures
from regrade.engines.vllm_process.prompts import Prompts
from regrade.engines.vllm_process.reloading import EXTENSION, compile_seconds, memory_digest
from regrade.engines.vllm_process.structures import backend_of
from regrade.engines.vllm_process.tokenising import AS_MEMORY_ALLOWS, PromptsAhead, Tokenising
from regrade.settings.errors import SettingsError

if TYPE_CHECKING:
    from regrade.engines.vllm_process.internals import LLMEngine, ModelConfig, VllmConfig

# Worker side: read the weights into the page cache while vLLM is imported and the prompts are tokenised.

_PART = 1 << 24
"""Bytes read at once."""
_SHARE = 0.8
"""Largest share of the free memory that weights may take; more would drive other files out of the cache."""


def prefetch_weights(open_message: Message) -> threading.Thread | None:
    """Start to read a checkpoint's safetensors in a thread, and return the thread.

    vLLM then reads them from memory. None for a model on the Hub, whose files vLLM finds, and for weights that are not
    read or exceed the free memory.
    """
    folder = Path(open_message["model"])
    if open_message["extra"].get("load_format", "auto") not in ("auto", "safetensors"):
        return None
    found = sorted(file for file in folder.glob("*.safetensors") if file.is_file())
    # Files in Mistral's own format repeat the other weights.
    files = [file for file in found if not file.name.startswith("consolidated")] or found
    size = sum(file.stat().st_size for file in files)
    if not files or size > _SHARE * psutil.virtual_memory().available:
        return None
    thread = threading.Thread(target=_read, args=(files,), name="prefetch", daemon=True)
    thread.start()
    return thread


def _read(files: Sequence[Path]) -> None:
    buffer = bytearray(_PART)
    with suppress(OSError):  # vLLM reports damaged files
        for path in files:
            with path.open("rb", buffering=0) as file:
                while file.readinto(buffer):
                    pass


SUPPORTED = ">=0.32,<0.33"
"""Versions of vLLM with which regrade works; the extra `cuda` has the same bound."""
INSTALL_SUPPORTED = f"Install vLLM {SUPPORTED}."


@dataclass(frozen=True, slots=True)
class Loaded:
    """A loaded model."""

    engine: SteppedEngine
    reloaded: "LLMEngine | None"
    """The engine without an adapter; None if its workers cannot replace weights."""
    meter: Meter
    prompts: Prompts
    reader: ReasoningReader | None
    calls: CallReader | None
    ahead: PromptsAhead
    info: dict[str, Any]
    """The fields of `EngineInfo` without the seconds of the load; `weights` is the digest of those in memory, None if the workers do not
    tell."""


def load(
    open_message: Message,
    messages: Iterator[Message],
    on_progress: Callable[[str], None],
    variables: Mapping[str, str],
) -> Loaded:
    """Load the model for the owner's `open` message.

    Args:
        open_message: Model and settings.
        messages: The owner's next messages: planned requests, then `load`.
        on_progress: Called with the name of each stage.
        variables: Environment variables as they were given, before vLLM set some.

    Raises:
        SettingsError: If vLLM or the model does not allow the settings. It is raised before the weights are read,
            unless a request that is tokenised later or an adapter that does not fit the model's layers is the cause.
    """
    vllm = import_vllm()
    is_cpu = vllm.current_platform.is_cpu()
    arguments = engine_arguments(open_message, is_cpu=is_cpu)
    if is_cpu:
        if arguments.pipeline_parallel_size > 1:
            raise SettingsError(
                f"`engine.pipeline_parallel_size={arguments.pipeline_parallel_size}`: vLLM cannot run a pipeline on a CPU (vLLM "
                f"{vllm.__version__} ends at the first answer). Use `engine.tensor_parallel_size` or `engine.data_parallel_size`."
            )
        if (parts := arguments.tensor_parallel_size) > 1:
            nodes, cpus = vllm.cpus()
            share_cores(parts, arguments.data_parallel_size, nodes=nodes, cpus=cpus)
    on_progress("tokenising the prompts")
    model = model_config(arguments)
    if is_cpu:
        check_rotation(model)
        if open_message.get("shows_images"):
            check_sight(model)
    prompts, reader, chat = open_prompts(open_message, model)
    # As the reasoning's: opened before the weights are read, so that a wrong name ends the run at once.
    calls: CallReader | None = None
    if (parser := open_message["settings"]["tool_parser"]) != "none":
        calls = CallReader(parser, copy.deepcopy(vllm.cached_tokenizer_from_config(model)))
    tokenising = Tokenising(
        open_message, messages, prompts, model_limit=model.max_model_len, is_cpu=is_cpu
    )
    summary = tokenising.summary
    if prompts.pictures is not None:
        # vLLM reserves memory for as many images as the requests show, and for no videos and sounds.
        limits = prompts.pictures.limits(summary.most_images)
        if "limit_mm_per_prompt" not in open_message["extra"]:
            arguments.limit_mm_per_prompt = {**limits}
    # On a CPU, vLLM 0.32 fails with chunked prefill and sampling: it resets the request's random generator, which torch
    # does not support there ("Generator does not use offset").
    unchunked = is_cpu and (summary.sampled or not summary.requests)
    if is_cpu and summary.passes:
        share_short_contexts(arguments, model)
    if summary.structured or not summary.requests:
        keep_to_forms(arguments)
    if summary.budgeted or summary.structured_after_reasoning:
        # vLLM learns from its parser where a thought begins and ends.
        arguments.reasoning_parser = "" if reader is None else reader.name
    chunked_prefill = False if unchunked else None
    config = engine_config(arguments, tokenising.context, chunked_prefill=chunked_prefill)
    if summary.budgeted and not (config.reasoning_config and config.reasoning_config.enabled):
        raise SettingsError(
            "vLLM cannot limit the reasoning of this model: it has no parser that knows where the reasoning begins and ends "
            f"('{arguments.reasoning_parser or 'none'}'). Leave out `sampling.thinking_token_budget`."
        )
    need = None
    if not is_cpu or config.cache_config.kv_cache_memory_bytes is not None:
        on_progress("checking the memory")
        try:
            need = check_fit(config, by_memory=tokenising.context == AS_MEMORY_ALLOWS)
        except SettingsError:
            if (tight := tokenising.tight_context) == tokenising.context:
                raise
            config = engine_config(arguments, tight, chunked_prefill=chunked_prefill)
            need = check_fit(config, by_memory=False)
    extended = _extend_workers(config)
    on_progress("loading the model")
    engine: SteppedEngine
    meter = Meter()
    engine = base = _engine(config, meter, copies=arguments.data_parallel_size)
    if open_message["adapter"]:
        on_progress("loading the adapter")
        engine = load_adapter(base, open_message["adapter"], config.model_config.max_model_len)
    on_progress("warming up")
    _warm_up(engine, ranks=summary.ranked)
    reloaded = cast("LLMEngine", base) if extended else None
    meter.restart()
    if not tokenising.is_done:
        on_progress("tokenising the other prompts")
    ahead = tokenising.finished(config.model_config.max_model_len)
    return Loaded(
        engine=engine,
        reloaded=reloaded,
        meter=meter,
        prompts=prompts,
        reader=reader,
        calls=calls,
        ahead=ahead,
        info={
            "engine": "vllm",
            "version": vllm.__version__,
            "device": vllm.current_platform.get_device_name(),
            "dtype": str(config.model_config.dtype).removeprefix("torch."),
            "max_model_len": config.model_config.max_model_len,
            "chat_template_sha256": hashlib.sha256(chat.template.encode()).hexdigest()
            if chat is not None and chat.template is not None
            else None,
            "reasoning_parser": None if reader is None else reader.name,
            "structured_outputs": backend_of(config) if summary.structured else None,
            "computed": computed(config, need, None if reader is None else reader.name, variables),
            "max_num_batched_tokens": config.scheduler_config.max_num_batched_tokens,
            "max_num_seqs": config.scheduler_config.max_num_seqs * arguments.data_parallel_size,
            "memory": memory_at_start(config, need).model_dump(),
            "weights": None if reloaded is None else memory_digest(reloaded),
            "compile_seconds": 0.0 if reloaded is None else compile_seconds(reloaded),
        },
    )


def open_prompts(
    open_message: Message, model: "ModelConfig"
) -> tuple[Prompts, ReasoningReader | None, Chat | None]:
    """Return the tokeniser of requests, the reader of reasoning and the renderer of chats; None if the model has none."""
    from regrade.engines.vllm_process.internals import cached_tokenizer_from_config

    # A copy, because the engine uses the original in another thread.
    tokenizer = copy.deepcopy(cached_tokenizer_from_config(model))
    chat = open_chat(model, tokenizer, chat_template=open_message["rendering"]["chat_template"])
    reader = open_reader(
        open_message["settings"]["reasoning_parser"],
        model,
        tokenizer,
        chat_template=None if chat is None else chat.template,
    )
    pictures = None
    if open_message.get("shows_images"):
        pictures = open_pictures(model, tokenizer, chat, open_message["extra"])
    prompts = Prompts(
        tokenizer,
        chat,
        thought=reader.start if reader is not None else None,
        window=open_message["settings"]["max_model_len"] or model.max_model_len,
        limit=model.max_model_len,
        reads_calls=open_message["settings"]["tool_parser"] != "none",
        pictures=pictures,
        truncate=open_message["rendering"]["truncate"],
    )
    prompts.keep_images(open_message.get("images", {}))
    return prompts, reader, chat


def import_vllm() -> ModuleType:
    """Return the names of vLLM.

    Raises:
        SettingsError: If the installed version lacks one of them.
    """
    try:
        from regrade.engines.vllm_process import internals
    except ImportError as error:
        if (error.name or "").partition(".")[0] != "vllm":
            raise  # for example, a library that vLLM needs is missing
        raise SettingsError(f"{error.msg}. {INSTALL_SUPPORTED}") from error
    if unknown := internals.unknown():
        raise SettingsError(
            f"vLLM {internals.__version__} has no {', '.join(unknown)}. {INSTALL_SUPPORTED}"
        )
    return internals


def _engine(config: "VllmConfig", meter: Meter, *, copies: int) -> "LLMEngine | DataParallelEngine":
    from regrade.engines.vllm_process.internals import LLMEngine, UsageContext

    if copies > 1:
        return DataParallelEngine(config, meter)
    engine = LLMEngine.from_vllm_config(config, UsageContext.LLM_CLASS)
    engine.logger_manager = meter  # type: ignore[assignment]  # in the place of logs and Prometheus
    return engine


def _extend_workers(config: "VllmConfig") -> bool:
    """Let vLLM's workers replace weights, unless they are another's already; return True if they can.

    Of several copies of the model, vLLM asks only one. Ray's machines may lack regrade.
    """
    parallel = config.parallel_config
    if (
        parallel.worker_extension_cls
        or parallel.data_parallel_size > 1
        or parallel.distributed_executor_backend == "ray"
    ):
        return False
    parallel.worker_extension_cls = EXTENSION
    return True


def _warm_up(engine: SteppedEngine, *, ranks: bool) -> None:
    """Run a request of each kind, so that vLLM's compilation at first use does not add to measured latencies."""
    from regrade.engines.vllm_process.internals import SamplingParams, tokens_input

    kinds = [SamplingParams(max_tokens=2, temperature=temperature) for temperature in (0.0, 1.0)]
    if ranks:
        kinds.append(SamplingParams(max_tokens=1, temperature=0.0, logprob_token_ids=[0]))
    for number, params in enumerate(kinds):
        engine.add_request(f"warm-up-{number}", tokens_input([0, 0]), params)
    finished = 0
    while finished < len(kinds):
        finished += sum(output.finished for output in engine.step())

"""The worker process, which runs vLLM: `python -m regrade.engines.vllm_process.worker`, started by the supervisor.

It may run in another environment than the owner (`REGRADE_ENGINE_PYTHON`). Therefore it imports only modules of regrade
that need the standard library, orjson and the dependencies of vLLM. All output goes to the log; messages to the owner
go through the channel.
"""

import multiprocessing
import multiprocessing.connection
import os
import queue
import shutil
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterable
from functools import partial

from regrade.engines.vllm_process.build import runs_on_cpu
from regrade.engines.vllm_process.channel import Channel, Message
from regrade.engines.vllm_process.conversion import WireCompletion
from regrade.engines.vllm_process.cpu import lower_priority
from regrade.engines.vllm_process.forked import CoreContext, import_for_core, message_of
from regrade.engines.vllm_process.loading import Loaded, import_vllm, load, prefetch_weights
from regrade.engines.vllm_process.loop import Loop, Queued, QueuedRequest
from regrade.engines.vllm_process.prompts import Prepared
from regrade.engines.vllm_process.reloading import (
    COPIES,
    PROMPTS,
    memory_digest,
    probe,
    reload,
    wake,
)
from regrade.engines.vllm_process.serve import serve_owner
from regrade.processes.clock import process_began

_MESSAGES_AHEAD = 64
"""Most queued messages of the owner; with 256 requests each, they take some 16 MB."""


def serve(channel: Channel) -> int:
    """Import vLLM, load the model of the owner's `open` message, then answer requests until the channel closes."""
    variables = dict(os.environ)
    messages: queue.Queue[Message] = queue.Queue(_MESSAGES_AHEAD)
    _start("messages", lambda: _receive(channel, messages))

    def show(stage: str) -> None:
        channel.send({"type": "progress", "stage": stage})

    show("importing vLLM")
    if on_cpu := runs_on_cpu():
        lower_priority()
        import_for_core()
    vllm = import_vllm()
    if on_cpu:
        vllm.start_cores_in(CoreContext())
    imported = time.monotonic()
    open_message = messages.get()
    waited = time.monotonic() - imported  # a worker that was started early
    loaded = load(open_message, iter(messages.get, None), show, variables)
    loaded.info["load_seconds"] = time.monotonic() - process_began() - waited
    most: int = loaded.info["max_num_seqs"]
    channel.send({"type": "loaded", "info": loaded.info, "window": max(4 * most, 2048)})

    queued: queue.SimpleQueue[Queued] = queue.SimpleQueue()
    finished: queue.SimpleQueue[tuple[int, WireCompletion]] = queue.SimpleQueue()
    loop = Loop(
        loaded.engine,
        queued,
        finished,
        max_running=max(2 * most, 512),
        meter=loaded.meter,
        reader=loaded.reader,
        pictures=loaded.prompts.pictures,
    )
    _start("engine cores", _wait_for_engine_core)
    _start("requests", lambda: _read(channel, messages, loaded, queued, loop))
    _start("completions", lambda: _write(channel, finished, loaded))
    loop.run()
    return 0


def _start(name: str, target: Callable[[], int]) -> None:
    threading.Thread(target=_run_then_exit, args=(target,), name=name, daemon=True).start()


def _run_then_exit(target: Callable[[], int]) -> None:
    """Run `target`, then exit the process with its status; the supervisor ends the other processes."""
    status = 1
    try:
        status = target()
    except (BrokenPipeError, ConnectionResetError):
        status = 0  # the owner has ended
    finally:
        if (failure := sys.exc_info()[1]) is not None:
            sys.excepthook(type(failure), failure, failure.__traceback__)
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def _wait_for_engine_core() -> int:
    """Wait until a process of vLLM ends, and return its exit status.

    vLLM 0.32 waits forever for the output of an engine core that was killed, for example for lack of memory.
    """
    cores = multiprocessing.active_children()
    sentinels = multiprocessing.connection.wait([core.sentinel for core in cores])
    ended = next(core for core in cores if core.sentinel in sentinels)
    deadline = time.monotonic() + 1.0
    while ended.exitcode is None and time.monotonic() < deadline:
        time.sleep(
            0.01
        )  # vLLM's monitor may reap the process at the same time, and stores the status a moment later
    code = ended.exitcode or 1
    return code if code > 0 else 128 - code


def _receive(channel: Channel, messages: queue.Queue[Message]) -> int:
    """Queue the owner's messages until it closes the channel, so that it can send while this process imports vLLM.

    The weights of the model to open are read in the meantime.
    """
    while (message := channel.receive()) is not None:
        if message["type"] == "open":
            prefetch_weights(message)
        messages.put(message)
    return 0


def _read(
    channel: Channel,
    messages: queue.Queue[Message],
    loaded: Loaded,
    queued: queue.SimpleQueue[Queued],
    loop: Loop,
) -> int:
    """Tokenise and queue the owner's requests forever; send measurements on demand."""

    def queue_requests(round_: int, requests: Iterable[Prepared]) -> None:
        for prepared in requests:
            fitting = loaded.prompts.fit(prepared, loaded.info["max_model_len"])
            queued.put(QueuedRequest(round_, fitting))

    while True:
        message = messages.get()
        match message["type"]:
            case "cancel":
                loop.cancel(message["round"])
                loaded.meter.restart()
            case "withdraw":
                loop.withdraw(message["round"], message["keys"])
            case "measure":
                speed = loaded.meter.take(message["answered"]).model_dump()
                occupancy = loaded.meter.occupancy()
                if message["last"]:
                    loaded.meter.restart()
                measured = {"round": message["round"], "speed": speed}
                measured["occupancy"] = None if occupancy is None else occupancy.model_dump()
                channel.send({"type": "measured", **measured})
            case "limit":
                queued.put(partial(loop.limit, message["in_flight"]))
            case "images":
                loaded.prompts.keep_images(message["images"])
            case "read_ahead":
                prefetch_weights(message)
            case "reload" | "probe" | "batches" | "sleep" | "wake":
                queued.put(partial(_swap, channel, loaded, message))
            case "tokenised":
                planned = loaded.ahead.read(message["stream"], message["first"], message["count"])
                skipped = frozenset(message.get("skipped", ()))
                kept = (request for n, request in enumerate(planned) if n not in skipped)
                queue_requests(message["round"], kept)
            case _:
                queue_requests(message["round"], loaded.prompts.prepare(message["requests"]))


def _swap(channel: Channel, loaded: Loaded, message: Message) -> None:
    """Do between two rounds what the owner asks, and send it the result, or why it was refused."""
    answer: Message = {"type": "swapped", "refused": None}
    try:
        answer |= _swapped(loaded, message)
    except Exception as error:  # noqa: BLE001 - of vLLM's any can come; the owner ends this engine
        traceback.print_exc()
        answer["refused"] = f"vLLM failed: {message_of(error)}"
    loaded.meter.restart()
    channel.send(answer)


def _swapped(loaded: Loaded, message: Message) -> Message:
    """Replace the weights, sleep or wake up, or answer fixed prompts, `before` and `after` a change or each alone and all together."""
    prompts = loaded.prompts.ids(PROMPTS)
    ask = partial(probe, loaded.engine, max_model_len=loaded.info["max_model_len"])
    match message["type"]:
        case "probe":
            return {"after": ask(prompts)}
        case "batches":
            if loaded.info["device"] == "cpu" and not _has_compiler():
                return {"refused": "for log-probabilities on a CPU, vLLM needs a C++ compiler"}
            alone = [answers for prompt in prompts for answers in ask([prompt])]
            return {"before": alone, "after": ask(prompts * COPIES)}
    engine = loaded.reloaded
    if engine is None:
        raise RuntimeError("copies of the model, Ray, or workers of your own cannot sleep")
    match message["type"]:
        case "sleep":
            engine.sleep(level=message["level"])
            return {}
        case "wake":
            wake(engine)
            return {"weights": memory_digest(engine)}
    before = ask(prompts) if message["probe"] else None
    started = time.monotonic()
    reload(engine, message["model"], wakes=message["wakes"])
    seconds, weights = time.monotonic() - started, memory_digest(engine)
    after = ask(prompts) if message["probe"] else None
    return {"before": before, "after": after, "seconds": seconds, "weights": weights}


def _has_compiler() -> bool:
    """Return True if there is a C++ compiler, without which vLLM would end at the first log-probability on a CPU."""
    return any(shutil.which(name) for name in (os.environ.get("CXX") or "g++", "clang++", "c++"))


def _write(
    channel: Channel, finished: queue.SimpleQueue[tuple[int, WireCompletion]], loaded: Loaded
) -> int:
    """Read and send finished completions forever, as many at once as are ready."""
    while True:
        batches: dict[int, list[WireCompletion]] = {}
        while not batches or not finished.empty():
            round_, completion = finished.get()
            batches.setdefault(round_, []).append(completion)
        for round_, completions in batches.items():
            read = [_read_answer(completion, loaded) for completion in completions]
            channel.send({"type": "completions", "round": round_, "completions": read})


def _read_answer(completion: WireCompletion, loaded: Loaded) -> WireCompletion:
    """Return a completion with reasoning, calls of tools and text separated."""
    tools = completion.pop("unread_tools", ())
    if loaded.reader is not None and "unread" in completion:
        completion = loaded.reader.read(completion)
    return completion if loaded.calls is None or not tools else loaded.calls.read(completion, tools)


if __name__ == "__mp_main__":
    import_vllm()  # vLLM started this process, and needs it at once: quicker than by its own imports
if __name__ == "__main__":
    sys.exit(serve_owner(serve))

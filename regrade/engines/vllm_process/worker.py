"""The process that holds vLLM: `python -m regrade.engines.vllm_process.worker`, started by the supervisor.

It may run in another environment than the owner (`REGRADE_ENGINE_PYTHON`), and so imports nothing of regrade that
needs more than the standard library, orjson and what vLLM itself installs. All output goes to the log; what the
owner has to know goes through the channel.
"""

import importlib.util
import multiprocessing
import multiprocessing.connection
import os
import queue
import signal
import socket
import sys
import threading
from collections.abc import Callable

from regrade.engines.vllm_process.channel import Channel
from regrade.engines.vllm_process.loading import Loaded, load
from regrade.engines.vllm_process.loop import Loop, WireCompletion, Work
from regrade.errors import SettingsError
from regrade.processes.supervised import end_with_supervisor, take_descriptor
from regrade.processes.supervisor import CHANNEL_VARIABLE

GRACE = 2.0
"""Seconds that vLLM's processes get to end by themselves when the supervisor is gone."""
SETTINGS_STATUS = 3
"""Exit status where the owner was told what is wrong with the settings."""


def main() -> int:
    """Load the model that the owner orders, then serve it until the channel ends."""
    end_with_supervisor(GRACE)
    channel = Channel(socket.socket(fileno=take_descriptor(CHANNEL_VARIABLE)))
    order = channel.receive()
    if order is None:
        return 0
    if importlib.util.find_spec("vllm") is None:
        channel.send({"type": "error", "kind": "not_installed", "message": sys.executable})
        return SETTINGS_STATUS
    try:
        loaded = load(order, lambda stage: channel.send({"type": "progress", "stage": stage}))
    except SettingsError as error:
        channel.send({"type": "error", "kind": "settings", "message": str(error)})
        return SETTINGS_STATUS
    max_open = max(2 * loaded.max_num_seqs, 512)
    window = max(4 * loaded.max_num_seqs, 2048)
    channel.send({"type": "loaded", "info": loaded.info, "window": window})

    work: queue.SimpleQueue[Work | None] = queue.SimpleQueue()
    finished: queue.SimpleQueue[tuple[int, list[WireCompletion]]] = queue.SimpleQueue()
    loop = Loop(loaded.engine, work, finished, max_open=max_open)
    _start("engine cores", _wait_for_engine_core)
    _start("requests", lambda: _read(channel, loaded, order["rendering"]["truncate"], work, loop))
    _start("completions", lambda: _write(channel, finished))
    loop.run()
    return 0


def _start(name: str, target: Callable[[], int]) -> None:
    threading.Thread(target=_or_end, args=(target,), name=name, daemon=True).start()


def _or_end(target: Callable[[], int]) -> None:
    """Run a thread's work; when it ends or fails, end the process: the supervisor clears up after it."""
    status = 1
    try:
        status = target()
    except (BrokenPipeError, ConnectionResetError):
        status = 0  # the owner is gone
    finally:
        if (failure := sys.exc_info()[1]) is not None:
            sys.excepthook(type(failure), failure, failure.__traceback__)
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def _wait_for_engine_core() -> int:
    """Return the exit status of vLLM's own process when it ends.

    vLLM 0.32 waits for ever for the output of an engine core that was killed, for example for lack of memory.
    """
    cores = multiprocessing.active_children()
    sentinels = multiprocessing.connection.wait([core.sentinel for core in cores])
    ended = next(core for core in cores if core.sentinel in sentinels)
    ended.join()
    code = ended.exitcode or 1
    return code if code > 0 else 128 - code


def _read(
    channel: Channel,
    loaded: Loaded,
    truncate: bool,
    work: queue.SimpleQueue[Work | None],
    loop: Loop,
) -> int:
    """Tokenise what the owner sends, until it closes its end."""
    while (message := channel.receive()) is not None:
        if message["type"] == "cancel":
            loop.cancel(message["round"])
            continue
        for prepared in loaded.prompts.prepare(message["requests"]):
            fitting = loaded.prompts.fit(prepared, loaded.max_model_len, truncate=truncate)
            work.put(Work(message["round"], fitting))
    return 0


def _write(channel: Channel, finished: queue.SimpleQueue[tuple[int, list[WireCompletion]]]) -> int:
    """Send what is finished, all that is there at once; for ever."""
    while True:
        round_, completions = finished.get()
        batches: dict[int, list[WireCompletion]] = {round_: list(completions)}
        while not finished.empty():
            round_, completions = finished.get()
            batches.setdefault(round_, []).extend(completions)
        for number, merged in batches.items():
            channel.send({"type": "completions", "round": number, "completions": merged})


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the owner decides
    sys.exit(main())

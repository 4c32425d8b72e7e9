"""A flow run goes on when the worker that started it is killed."""

import os
import select
import stat
import threading

OUTPUTS = (1, 2)


def outlive_worker() -> None:
    """Throw output away from the moment on when nobody reads it any more.

    A process worker reads what its flow runs print. When it is gone, the next line that a flow run prints would end
    it: Prefect's console exits at a broken pipe. Its log lines still reach the server.
    """
    pipes = [number for number in OUTPUTS if stat.S_ISFIFO(os.fstat(number).st_mode)]
    if pipes:
        threading.Thread(target=_watch, args=(pipes,), name="output", daemon=True).start()


def _watch(pipes: list[int]) -> None:
    poll = select.poll()
    for number in pipes:
        poll.register(number, 0)  # told of errors alone: the reader has closed its end
    poll.poll()
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for number in pipes:
        os.dup2(nowhere, number)

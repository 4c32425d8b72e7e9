"""Functions that tests compute in child processes."""

import os
import signal
import time
from typing import Any


def compute(task: dict[str, Any]) -> Any:
    """Do what the task names."""
    match task["do"]:
        case "square":
            return task["of"] ** 2
        case "session":
            return [os.getsid(0), os.getpgid(0)]
        case "spin":
            while True:
                pass
        case "native":  # a single operation, during which Python handles no signal
            return str(9 ** (9**9))[:3]
        case "sleep":
            time.sleep(600)
        case "fill":
            return len([bytearray(1 << 20) for _ in range(100_000)])
        case "reserve":
            return len(bytearray(1 << 45))
        case "crash":
            os.kill(os.getpid(), signal.SIGSEGV)
        case "variable":
            return os.environ.get(task["name"])
        case "pid":
            return os.getpid()
        case "fail":
            raise ValueError("no such square")
    return None

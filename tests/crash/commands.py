"""Commands that are run again and again, each time until a signal at a random time, and then to their end.

    python -m tests.crash.commands SIGNALS SEED LONGEST WORDS...

Prints an account as JSON. A process of its own, because the commands are forked: its imports would else take most of the time.
"""

import json
import os
import random
import signal
import sys
import time
from collections import Counter
from importlib import import_module

from regrade.cli import command_list
from regrade.cli.main import WORKER, main


def start(words: list[str], output: str) -> int:
    """Return the id of a process that runs a command as `regrade` does."""
    if pid := os.fork():
        return pid
    code = 1
    try:
        file = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(file, 1)
        os.dup2(file, 2)
        sys.argv = ["regrade", *words]
        main()
        code = 0
    except SystemExit as end:
        code = int(end.code or 0)
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def run() -> None:
    signals, seed, longest = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
    words = sys.argv[4:]
    assert words[0] != WORKER
    import_module(f"regrade.cli.{command_list.COMMANDS[words[0]].function.partition(':')[0]}")
    rng, hits, codes = random.Random(seed), 0, Counter[int]()
    output = os.environ["REGRADE_TEST_OUTPUT"]
    while hits < signals:
        pid = start(words, output)
        time.sleep(rng.uniform(0, longest))
        os.kill(pid, rng.choice([signal.SIGKILL, signal.SIGTERM]))
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        codes[code] += 1
        hits += code in (-signal.SIGKILL, 128 + signal.SIGTERM)
        if code == 0:
            break
    last = os.waitstatus_to_exitcode(os.waitpid(start(words, output), 0)[1])
    print(json.dumps({"signals": hits, "codes": dict(codes), "last": last}))  # noqa: T201


if __name__ == "__main__":
    run()

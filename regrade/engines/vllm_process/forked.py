"""Worker side: forks of a process that has imported vLLM, which takes seconds: to compute a value, and as vLLM's engine core."""

import multiprocessing
import os
from collections.abc import Callable
from multiprocessing import forkserver
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any, TypeVar, cast

_T = TypeVar("_T")
SECONDS = 300.0
"""Time limit of a computation."""


class ForkFailedError(Exception):
    """The computation raised an error, took too long, or its process crashed; see the text."""


def in_fork(compute: Callable[[], _T], *, seconds: float = SECONDS) -> _T:
    """Return the result of `compute`, computed in a fork.

    vLLM's classes keep state of the process: parallel groups, caches, and on a GPU a context with its memory. A fork shares
    the imported modules and takes all changes with it.

    Raises:
        ForkFailedError: If there is no result.
    """
    context = multiprocessing.get_context("fork")
    reader, writer = context.Pipe(duplex=False)
    fork = context.Process(target=_compute, args=(compute, writer))
    with reader:
        with writer:
            fork.start()
        try:
            if not reader.poll(seconds):
                raise ForkFailedError(f"no result within {seconds:.0f} s")
            result, error = reader.recv()
        except EOFError:
            raise ForkFailedError("the process crashed") from None
        finally:
            fork.kill()
            fork.join()
    if error is not None:
        raise ForkFailedError(error)
    return cast("_T", result)


def message_of(error: Exception) -> str:
    """Return the text of an error in one line, or its type if it has none."""
    return " ".join(str(error).split()) or type(error).__name__


def _compute(compute: Callable[[], object], writer: "Connection[Any, Any]") -> None:
    try:
        writer.send((compute(), None))
    except Exception as error:  # noqa: BLE001 - vLLM raises any kind; reported to the parent
        writer.send((None, message_of(error)))
    finally:
        # This does not flush buffers: another thread may have held their lock at the fork.
        os._exit(0)


# vLLM's engine core as a fork. Its parent has threads, of which a fork would inherit the locks. Python's fork server has none.
#
# Only on a CPU, where the core computes nothing: its workers, whose OpenMP is set up by the environment, are new processes.


def import_for_core() -> None:
    """Start a process of which the engine core will be a fork; it imports vLLM while this process does. Lower the priority before."""
    multiprocessing.set_forkserver_preload(["regrade.engines.vllm_process.internals"])
    forkserver.ensure_running()


class CoreContext:
    """Python's `multiprocessing` as vLLM uses it to start an engine core: in a fork, with the environment of this process."""

    def __init__(self) -> None:
        self._context = multiprocessing.get_context("forkserver")

    def Process(self, *, target: Callable[..., object], **options: Any) -> BaseProcess:  # noqa: N802, ANN401 - Python's names
        """Return a process that calls `target`."""
        return self._context.Process(target=_call, args=(_Environment(), target), **options)

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - as above
        return getattr(self._context, name)


class _Environment:
    """The environment of this process at its pickling, which is when vLLM starts the core: vLLM may set variables just before."""

    def __reduce__(self) -> tuple[type[dict[str, str]], tuple[dict[str, str]]]:
        return dict, (dict(os.environ),)


def _call(variables: dict[str, str], target: Callable[..., object], **arguments: object) -> None:
    os.environ.clear()
    os.environ.update(variables)
    target(**arguments)

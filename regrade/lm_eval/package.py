"""The installed lm_eval: its version, and its import without log lines.

Its internal names that regrade uses (`_process_results`, `TaskManager._index`) are those of `VERSION`; another version is
refused.
"""

import logging
import os
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from functools import cache, partialmethod
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from regrade.settings.errors import NotInstalledError, SettingsError

VERSION = "0.4.13"
"""Supported version of lm_eval; the extra `lm-eval` has the same."""
_INSTALL = "pip install 'regrade[lm-eval]'"


@cache
def check_installed() -> None:
    """Check that lm_eval is installed in the supported version.

    Raises:
        NotInstalledError: If it is not installed.
        SettingsError: If another version is installed.
    """
    try:
        found = version("lm_eval")
    except PackageNotFoundError as error:
        raise NotInstalledError("lm-evaluation-harness", _INSTALL) from error
    if found != VERSION:
        raise SettingsError(
            f"lm_eval {found} is installed, but regrade works with lm_eval {VERSION}, whose numbers it promises. "
            f"Install it with `{_INSTALL}`."
        )


def tasks_folder() -> Path:
    """Return the folder with the tasks of the installed lm_eval, without importing it."""
    check_installed()
    spec = find_spec("lm_eval")
    if spec is None or spec.origin is None:
        raise NotInstalledError("lm-evaluation-harness", _INSTALL)
    return Path(spec.origin).parent / "tasks"


_ALONE = threading.RLock()
"""Held while lm_eval works, because it and its tasks use the process's stdout, environment and random numbers."""


@contextmanager
def quiet() -> Iterator[None]:
    """Hide progress bars, printed lines, warnings and all but errors of lm_eval and of tasks while the block runs.

    Blocks of several threads run one after the other.
    """
    with _ALONE, _hidden():
        yield


@contextmanager
def _hidden() -> Iterator[None]:
    logger = logging.getLogger("lm_eval")
    level = logger.level
    logger.setLevel(logging.ERROR)
    bar: Any = import_module("tqdm").tqdm  # lm_eval's progress bars
    shown = bar.__init__
    bar.__init__ = partialmethod(shown, disable=True)
    try:
        with (
            warnings.catch_warnings(),
            open(os.devnull, "w", encoding="utf-8") as nowhere,  # noqa: PTH123 - a device
            redirect_stdout(nowhere),
        ):
            warnings.simplefilter("ignore")
            yield
    finally:
        bar.__init__ = shown
        logger.setLevel(level)

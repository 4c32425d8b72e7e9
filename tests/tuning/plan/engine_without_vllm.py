"""Environments for engines that lack vLLM, or something in it."""

import sys
from pathlib import Path

RUN = "runpy.run_module(sys.argv[1], run_name='__main__', alter_sys=False)"


def engine_after(folder: Path, code: str) -> str:
    """Return the path of a Python for `REGRADE_ENGINE_PYTHON` that runs this code before a worker."""
    python = folder / "python"
    code = f"import runpy, sys; sys.argv.pop(0); {code}; {RUN}"
    python.write_text(f'#!/bin/sh\nexec {sys.executable} -c "{code}" "$@"\n')
    python.chmod(0o755)
    return str(python)


def engine_without_vllm(folder: Path) -> str:
    """Return a Python whose environment has everything except vLLM."""
    return engine_after(folder, "sys.modules['vllm'] = None")

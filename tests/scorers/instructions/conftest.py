from collections.abc import Callable, Iterator
from contextlib import ExitStack, nullcontext
from pathlib import Path
from typing import Any

import pytest

from regrade.processes.limited import LimitedProcesses
from regrade.scorers.instructions import scorer
from regrade.scorers.instructions.resources import _digest
from tests.scorers.instructions.nltk_folder import write_nltk_data

Open = Callable[..., nullcontext[LimitedProcesses]]


@pytest.fixture(scope="session")
def nltk_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_nltk_data(tmp_path_factory.mktemp("nltk"))


@pytest.fixture(scope="module")
def kept_processes() -> Iterator[Open]:
    """One process, which imports for seconds, for all scorings with the same settings."""
    opened: dict[str, LimitedProcesses] = {}
    with ExitStack() as open_until_the_end:

        def processes(*given: Any, **named: Any) -> nullcontext[LimitedProcesses]:
            named["processes"] = 1
            key = repr((given, named))
            if key not in opened:
                opened[key] = open_until_the_end.enter_context(LimitedProcesses(*given, **named))
            return nullcontext(opened[key])

        yield processes


@pytest.fixture
def nltk_data(
    nltk_folder: Path, kept_processes: Open, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Path]:
    """NLTK finds its data here, and nowhere else."""
    monkeypatch.setattr("nltk.data.path", [str(nltk_folder)])
    monkeypatch.setattr(scorer, "LimitedProcesses", kept_processes)
    _digest.cache_clear()
    yield nltk_folder
    _digest.cache_clear()

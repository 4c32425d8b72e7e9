"""Score a repository where nothing is left but the repository: `python -m tests.lm_eval.score_elsewhere FOLDER`.

Without network, torch, vLLM, transformers and datasets to load.
"""

import socket
import sys
from pathlib import Path
from typing import Any


def _no(*_: object, **__: object) -> Any:
    raise AssertionError("the network, or a dataset, was used")


socket.socket.connect = socket.getaddrinfo = _no  # type: ignore[method-assign,assignment]
_MISSING = ("torch", "vllm", "transformers")


class _Without:
    """A finder of modules that does not find those of some packages."""

    def __init__(self, finder: Any) -> None:
        self._finder = finder

    def __getattr__(self, name: str) -> Any:
        return getattr(self._finder, name)

    def find_spec(self, name: str, *more: Any) -> Any:
        return None if name.partition(".")[0] in _MISSING else self._finder.find_spec(name, *more)


sys.meta_path[:] = [_Without(finder) for finder in sys.meta_path]


def main(folder: Path) -> None:
    import datasets

    from regrade.answers.local import LocalRepository
    from regrade.answers.publishing import publish_scores
    from regrade.answers.sets import list_sets
    from regrade.lm_eval import index, scoring
    from regrade.scoring.score import score_answers
    from regrade.settings import ScoringOptions
    from tests.lm_eval.comparing import ITERATIONS
    from tests.lm_eval.rows import tasks_of_folders

    datasets.load_dataset = datasets.load_dataset_builder = _no
    scoring.BOOTSTRAP_ITERATIONS = ITERATIONS
    tasks = tasks_of_folders()
    index._installed = lambda: tasks  # type: ignore[assignment]  # the whole index takes seconds to build
    repository = LocalRepository(folder)
    for answers in list_sets(repository, repository.head()):
        scored = score_answers(answers, "lm_eval", options=ScoringOptions(processes=1))
        assert scored.table is not None
        publish_scores(repository, [(answers, scored.file, scored.table)])
    assert not {name.partition(".")[0] for name in sys.modules} & set(_MISSING)


if __name__ == "__main__":
    main(Path(sys.argv[1]))

"""Tasks of lm_eval with the documents of a dataset, or with stored documents. Imports lm_eval."""

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from lm_eval.api.task import ConfigurableTask  # noqa: TID253 - functions import this file
from lm_eval.config.task import FewshotConfig  # noqa: TID253

from regrade.lm_eval.made import QuestionMaker, makes_questions
from regrade.lm_eval.package import quiet
from regrade.lm_eval.plan import not_loaded
from regrade.settings.errors import RegradeError

Document = Mapping[str, Any]
Datasets = Callable[[str, str | None, Mapping[str, Any]], Mapping[str, Any]]
"""Returns the splits of a dataset: of its path, its configuration and the other arguments of `load_dataset`."""
_STORED = "stored"


class DatasetTask(ConfigurableTask):  # type: ignore[misc]  # lm_eval has no types
    """A task whose dataset comes from a given function."""

    def __init__(
        self, config: Mapping[str, Any], datasets: Datasets, maker: QuestionMaker | None
    ) -> None:
        self._datasets, self._maker = datasets, maker
        copied = copy.deepcopy(dict(config))
        if callable(copied.get("process_docs")):
            copied["process_docs"] = _once(copied["process_docs"])
        super().__init__(config=copied)

    def download(self, dataset_kwargs: Mapping[str, Any] | None = None, **_: object) -> None:
        """Set the dataset."""
        config = self.config
        if self._maker is not None and makes_questions({"custom_dataset": config.custom_dataset}):
            given = {**(config.metadata or {}), **(config.dataset_kwargs or {})}
            self.dataset = self._maker.make(config.task, config.custom_dataset, given)
        else:
            self.dataset = self._datasets(
                self.DATASET_PATH, self.DATASET_NAME, dataset_kwargs or {}
            )


class StoredTask(ConfigurableTask):  # type: ignore[misc]  # lm_eval has no types
    """A task with stored documents, after `process_docs`. It is used only to score answers."""

    def __init__(self, config: Mapping[str, Any], documents: Sequence[Document]) -> None:
        self._documents = documents
        super().__init__(config=copy.deepcopy(dict(config)))

    def download(self, dataset_kwargs: Mapping[str, Any] | None = None, **_: object) -> None:  # noqa: ARG002
        """Set the documents as the only split, and leave out the worked examples."""
        config = self.config
        self.dataset = {_STORED: _Documents(self._documents)}
        config.test_split = _STORED
        config.validation_split = config.training_split = config.fewshot_split = None
        config.process_docs = None
        config.fewshot_config = self.fewshot_cfg = FewshotConfig(split=None, samples=[])


class _Documents(list[Document]):
    """Documents with the attributes of a `Dataset` that lm_eval reads."""

    def __init__(self, documents: Sequence[Document]) -> None:
        super().__init__(documents)
        self.features = dict.fromkeys(documents[0])


def _once(process: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return `process_docs` that processes a split only once.

    lm_eval calls it each time it reads a split. A function that draws random numbers (GPQA's shuffles the choices) would
    give other documents each time, were it not for the disk cache of `datasets`, which keeps the first result.
    """
    results: dict[int, tuple[Any, Any]] = {}

    def processed(split: Any) -> Any:  # noqa: ANN401 - a dataset
        if id(split) not in results:
            # The split is kept, so that no other object gets its id.
            results[id(split)] = (split, process(split))
        return results[id(split)][1]

    return processed


def open_dataset_task(
    config: Mapping[str, Any], datasets: Datasets, maker: QuestionMaker | None = None
) -> DatasetTask:
    """Return a task with its dataset.

    Args:
        config: Configuration of the task.
        datasets: Returns its dataset.
        maker: Makes the questions of a task that has a function for it; None: they are in `datasets`.

    Raises:
        SettingsError: If the task's own code fails.
        SourceError, HubError: If `datasets` raises it.
    """
    task: DatasetTask = _opened(config, lambda: DatasetTask(config, datasets, maker))
    return task


def open_stored_task(config: Mapping[str, Any], documents: Sequence[Document]) -> StoredTask:
    """Return a task with stored documents, at least one.

    Raises:
        SettingsError: If the task's own code fails.
    """
    task: StoredTask = _opened(config, lambda: StoredTask(config, documents))
    return task


def _opened(config: Mapping[str, Any], make: Callable[[], Any]) -> Any:  # noqa: ANN401 - one of two kinds
    with quiet():
        try:
            return make()
        except RegradeError:
            raise
        except Exception as error:
            raise not_loaded(str(config["task"]), error) from error

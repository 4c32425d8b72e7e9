"""Rows of several configurations of a dataset, such as one for each subject or language, as a single source."""

import hashlib
from abc import abstractmethod
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

from regrade.benchmarks.questions.reading import FILE_TYPES, Source
from regrade.benchmarks.questions.sources import LocalSource, open_hub

SUBSET = "subset"
"""Column with the subset of each row, added to the columns of the dataset."""


def open_configs(
    benchmark: str,
    repo_id: str,
    configs: Mapping[str, str],
    path: str | None,
    split: str,
    lacking: Mapping[str, Collection[str]] = MappingProxyType({}),
) -> Source:
    """Open several configurations.

    Args:
        benchmark: Name for messages.
        repo_id: Hub dataset, read if `path` is None.
        configs: Configurations, and the subset of each.
        path: Folder with a folder for each configuration, which holds a file for each split, or with a file for each.
        split: Split with the questions.
        lacking: Columns that some configurations do not have; None stands there.

    Raises:
        SourceError: If a folder or file is missing, or a configuration has several.
    """
    if path is None:
        return _HubConfigs(benchmark, repo_id, configs, lacking)
    return _LocalConfigs(benchmark, Path(path).expanduser().absolute(), configs, split, lacking)


class _Configs(Source):
    """A source made of one source for each configuration, with the rows in the order of the configurations."""

    _configs: Mapping[str, str]
    _lacking: Mapping[str, Collection[str]]

    @abstractmethod
    def _part(self, config: str) -> Source:
        """Return the source of a configuration."""

    def rows(
        self, split: str, columns: Sequence[str], head: int | None = None
    ) -> list[dict[str, Any]]:
        """Return the named columns and `SUBSET` of a split of all configurations."""
        empty = dict.fromkeys(columns)
        return [
            {**empty, **row, SUBSET: subset}
            for config, subset in self._configs.items()
            for row in self._part(config).rows(split, self._columns_of(config, columns), head)
        ]

    def _columns_of(self, config: str, columns: Sequence[str]) -> list[str]:
        lacking = {SUBSET, *self._lacking.get(config, ())}
        return [column for column in columns if column not in lacking]


class _HubConfigs(_Configs):
    def __init__(
        self,
        benchmark: str,
        repo_id: str,
        configs: Mapping[str, str],
        lacking: Mapping[str, Collection[str]],
    ) -> None:
        super().__init__(benchmark, repo_id, repo_id)
        self._configs, self._lacking = configs, lacking
        self._any = open_hub(benchmark, repo_id, None)

    def revision(self, splits: Sequence[str]) -> str:
        return self._any.revision(splits)

    def _part(self, config: str) -> Source:
        # All at one commit, which is resolved once.
        return open_hub(self._benchmark, self.name, config, self._any.revision(()))


class _LocalConfigs(_Configs):
    def __init__(
        self,
        benchmark: str,
        folder: Path,
        configs: Mapping[str, str],
        split: str,
        lacking: Mapping[str, Collection[str]],
    ) -> None:
        super().__init__(benchmark, "local", str(folder))
        self._configs, self._lacking = configs, lacking
        self._folder, self._split = folder, split
        self._places = {config: self._place(config) for config in configs}

    def revision(self, splits: Sequence[str]) -> str:
        digest = hashlib.sha256()
        for config in self._configs:
            digest.update(f"{config}\t{self._part(config).revision(splits)}\n".encode())
        return digest.hexdigest()

    def _part(self, config: str) -> Source:
        return LocalSource(self._benchmark, str(self._places[config]), self._split)

    def _place(self, config: str) -> Path:
        candidates = [config, *(f"{config}{ending}" for ending in FILE_TYPES)]
        found = [name for name in candidates if (self._folder / name).exists()]
        if not found:
            raise self.error(
                f"expected a folder with {len(self._configs)} folders or files, one for each configuration, such as "
                f"'{config}/{self._split}.jsonl' or '{config}.jsonl'; '{config}' is missing"
            )
        if len(found) > 1:
            names = ", ".join(f"'{name}'" for name in found)
            raise self.error(f"'{config}' could be any of {names}; keep only one of them")
        return self._folder / found[0]

"""Datasets that tasks of lm-evaluation-harness read, each pinned to a commit, or local files."""

import hashlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regrade.benchmarks.questions.reading import FILE_TYPES, UnreadableError, read_dataset
from regrade.benchmarks.questions.sources import open_hub
from regrade.settings.errors import SourceError
from regrade.settings.files import file_sha256

if TYPE_CHECKING:
    from datasets import Dataset

    from regrade.benchmarks.questions.hub_source import HubSource

Splits = Mapping[str, Any]
_BUILDERS = frozenset({"json", "csv", "parquet", "text"})
"""Values of `dataset_path` that read `data_files`, wherever these are."""
_HUB = "hf://datasets/"
_IGNORED = frozenset({"trust_remote_code", "streaming"})
"""Arguments of `load_dataset` that decide no row."""


class HarnessData:
    """Loads the datasets of tasks; `revisions` says which commits or files were read."""

    def __init__(self, benchmark: str, source: str | None = None) -> None:
        """Set up, without reading anything.

        Args:
            benchmark: Name for messages.
            source: Folder to read instead of all datasets: `<split>.parquet` (or .jsonl, .json, .csv), in a folder of the
                configuration's name if the task names one and the folder exists.

        Raises:
            SourceError: If the folder does not exist.
        """
        self._benchmark = benchmark
        self._root = None if source is None else Path(source).expanduser().absolute()
        if self._root is not None and not self._root.is_dir():
            raise SourceError(
                benchmark,
                str(self._root),
                "the folder does not exist; a task needs a folder with a file per split",
            )
        self.revisions: dict[str, str] = {}
        """Commit of each Hub dataset, or sha256 of each local file, by name."""
        self._asked: dict[str, str | None] = {}
        self._loaded: dict[str, Splits] = {}

    def splits(self, path: str, name: str | None, options: Mapping[str, Any]) -> Splits:
        """Return the splits of a dataset; loads it once.

        Args:
            path: `dataset_path` of a task.
            name: Its `dataset_name`.
            options: Its `dataset_kwargs`.

        Raises:
            SourceError: If it cannot be read.
            HubError: If the Hub failed.
        """
        options = {key: value for key, value in options.items() if key not in _IGNORED}
        key = repr((path, name, sorted(options.items())))
        if key not in self._loaded:
            self._loaded[key] = self._load(path, name, options)
        return self._loaded[key]

    @property
    def name(self) -> str | None:
        """`local` if a folder is read instead of the datasets."""
        return None if self._root is None else "local"

    @property
    def revision(self) -> str:
        """Commit of the only dataset, else sha256 over all revisions."""
        if len(self.revisions) == 1 and self._root is None:
            return next(iter(self.revisions.values()))
        lines = "".join(f"{name}\t{found}\n" for name, found in sorted(self.revisions.items()))
        return hashlib.sha256(lines.encode()).hexdigest()

    def _load(self, path: str, name: str | None, options: Mapping[str, Any]) -> Splits:
        if self._root is not None:
            folder = self._root / name if name and (self._root / name).is_dir() else self._root
            return _LocalSplits(self, folder, self._root)
        if path in _BUILDERS:
            return self._files(path, options)
        if Path(path).expanduser().is_dir():
            folder = Path(path).expanduser().absolute()
            return _LocalSplits(self, folder, folder)
        splits: Splits = self._hub_source(path, name, options).splits(options)
        return splits

    def _hub_source(self, path: str, name: str | None, options: Mapping[str, Any]) -> "HubSource":
        # All configurations of a dataset are read at one commit, unless tasks ask for several.
        asked = options.get("revision")
        known = path if self._asked.setdefault(path, asked) == asked else f"{path}@{asked or ''}"
        source = open_hub(self._benchmark, path, name, self.revisions.get(known, asked))
        self.revisions[known] = source.revision(())
        return source

    def _files(self, builder: str, options: Mapping[str, Any]) -> Splits:
        from datasets import load_dataset

        files = options.get("data_files")
        named = files if isinstance(files, dict) else {"train": files}
        pinned = {split: self._pinned(place) for split, place in named.items()}
        others = {key: value for key, value in options.items() if key != "data_files"}
        try:
            splits: Splits = load_dataset(builder, data_files=pinned, **others)
        except (OSError, ValueError) as error:
            raise self.error(str(files), f"it cannot be read: {error}") from error
        return splits

    def _pinned(self, files: object) -> Any:  # noqa: ANN401 - a text, or a list of texts
        if isinstance(files, list):
            return [self._pinned(file) for file in files]
        file = str(files)
        if file.startswith(_HUB):
            organisation, repository, inside = file.removeprefix(_HUB).split("/", 2)
            path = f"{organisation}/{repository.partition('@')[0]}"
            asked = {"revision": repository.partition("@")[2] or None}
            return f"{_HUB}{path}@{self._hub_source(path, None, asked).revision(())}/{inside}"
        if "://" in file:
            raise self.error(
                file, "no revision pins a file on a web server; save it, and name the local file"
            )
        local = Path(file).expanduser().absolute()
        if not local.is_file():
            raise self.error(file, "the file does not exist")
        self.note(local.name, local)
        return str(local)

    def note(self, name: str, file: Path) -> None:
        """Note the content of a file by its name; other files of this name have a number."""
        found, number = file_sha256(file), 1
        while self.revisions.setdefault(name, found) != found:
            number += 1
            name = f"{name.removesuffix(f' ({number - 1})')} ({number})"

    def error(self, source: str, problem: str) -> SourceError:
        """Return an error that names the benchmark and a source."""
        return SourceError(self._benchmark, source, problem)


class _LocalSplits(Mapping[str, "Dataset"]):
    """A folder with a file per split, read when a split is used."""

    def __init__(self, data: HarnessData, folder: Path, root: Path) -> None:
        self._data, self._folder, self._root = data, folder, root
        self._read: dict[str, Dataset] = {}

    def __getitem__(self, split: str) -> "Dataset":
        if split not in self._read:
            file = self._file(split)
            try:
                self._read[split] = read_dataset(file)
            except UnreadableError as error:
                raise self._data.error(str(file), str(error)) from error
            self._data.note(file.relative_to(self._root).as_posix(), file)
        return self._read[split]

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(f.stem for f in self._folder.iterdir() if f.suffix in FILE_TYPES))

    def __len__(self) -> int:
        return len(list(iter(self)))

    def _file(self, split: str) -> Path:
        for kind in FILE_TYPES:
            file = self._folder / f"{split}{kind}"
            if file.is_file():
                return file
        raise self._data.error(
            str(self._folder),
            f"the folder lacks a file '{split}' with ending {', '.join(FILE_TYPES)}; found {', '.join(self) or 'nothing'}",
        )

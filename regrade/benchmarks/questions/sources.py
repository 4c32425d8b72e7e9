"""Sources of a benchmark's rows: a local file, or a folder with a file per split."""

import hashlib
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regrade.benchmarks.questions.reading import FILE_TYPES, Source, UnreadableError, read_file
from regrade.settings.files import file_sha256

if TYPE_CHECKING:
    from regrade.benchmarks.questions.hub_source import HubSource

REPOSITORY_ID = re.compile(r"[A-Za-z0-9][\w.-]{0,95}/[\w.-]{1,96}")
"""Names of Hub datasets, `org/name`."""


def open_hub(
    benchmark: str, repo_id: str, config: str | None, revision: str | None = None
) -> "HubSource":
    """Open a dataset of the Hub; see `HubSource`."""
    # Imported here, because huggingface_hub takes 0.3 s to import and local files do not need it.
    from regrade.benchmarks.questions.hub_source import HubSource  # noqa: PLC0415

    return HubSource(benchmark, repo_id, config, revision)


class LocalSource(Source):
    """A file with the questions, or a folder with `<split>.parquet`, `.jsonl`, `.json` or `.csv` files.

    If the questions are a single file, other splits are files in the same folder, named after the split.
    """

    def __init__(
        self, benchmark: str, path: str, split: str, *, files: Mapping[str, str] | None = None
    ) -> None:
        """Check that the files exist, without reading them.

        Args:
            benchmark: Name for messages.
            path: File or folder.
            split: Split with the questions; a single file is this split.
            files: Files of other splits, by split.

        Raises:
            SourceError: If a file or the folder does not exist, or the type of a file is not supported.
        """
        self._split = split
        self._root = Path(path).expanduser().absolute()
        super().__init__(benchmark, "local", str(self._root))
        self._files = {name: Path(file).expanduser() for name, file in (files or {}).items()}
        if not self._root.exists():
            raise self.error("the file or folder does not exist")
        if not self._root.is_dir():
            self._files[split] = self._root
        for file in self._files.values():
            if not file.is_file():
                raise self.error(f"the file '{file}' does not exist")
            if file.suffix.lower() not in FILE_TYPES:
                raise self.error(
                    f"the type of '{file.name}' is not supported; expected {', '.join(FILE_TYPES)}"
                )

    def revision(self, splits: Sequence[str]) -> str:
        """Return the sha256 over the names of the splits and the content of their files."""
        digest = hashlib.sha256()
        for split in splits:
            try:
                content = file_sha256(self._file(split))
            except OSError as error:
                raise self.error(
                    f"'{self._file(split)}' cannot be read: {error.strerror}"
                ) from error
            digest.update(f"{split}\t{content}\n".encode())
        return digest.hexdigest()

    def rows(
        self, split: str, columns: Sequence[str], head: int | None = None
    ) -> list[dict[str, Any]]:
        """Return the named columns of a split, row by row."""
        file = self._file(split)
        try:
            return read_file(file, columns, head)
        except UnreadableError as error:
            raise self.error(f"file '{file.name}' (split '{split}'): {error}") from error

    def _file(self, split: str) -> Path:
        if split not in self._files:
            self._files[split] = self._find(split)
        file = self._files[split]
        if split != self._split and file.samefile(self._file(self._split)):
            raise self.error(
                f"the worked examples (split '{split}') would come from '{file.name}', which has the questions; "
                "give a folder with a file per split, or set `prompt.n_shots=0`"
            )
        return file

    def _find(self, split: str) -> Path:
        folder = self._root if self._root.is_dir() else self._root.parent
        files = [
            file
            for file in self._listed(folder)
            if file.stem == split and file.suffix.lower() in FILE_TYPES and file.is_file()
        ]
        if len(files) > 1:
            names = ", ".join(f"'{file.name}'" for file in files)
            raise self.error(f"split '{split}' could be any of {names}; keep only one of them")
        if not files:
            raise self.error(self._not_found(split, folder))
        return files[0]

    def _listed(self, folder: Path) -> list[Path]:
        try:
            return sorted(folder.iterdir())
        except OSError as error:
            raise self.error(f"'{folder}' cannot be listed: {error.strerror}") from error

    def _not_found(self, split: str, folder: Path) -> str:
        expected = f"a file '{split}' with ending {', '.join(FILE_TYPES)}"
        if split == self._split:
            names = [file.name for file in self._listed(folder)[:20]]
            return f"the folder lacks {expected}; found {', '.join(names) or 'nothing'}"
        return (
            f"the worked examples come from split '{split}', but '{folder}' lacks {expected}; add the file, give "
            "another folder, or set `prompt.n_shots=0`"
        )

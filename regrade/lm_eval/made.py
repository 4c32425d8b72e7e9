"""Questions that a function of a task makes (`custom_dataset`), as RULER's do, with a tokenizer.

No revision pins such questions: a hash over all of them does.
"""

import hashlib
import json
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from regrade.lm_eval.plan import cannot_run
from regrade.settings import HARNESS
from regrade.settings.errors import SettingsError

_NO_TOKENIZER = (
    " The model's tokenizer is not on this machine; if the task needs one, name a model that has it: "
    "`--lm-eval-tokenizer Qwen/Qwen3-0.6B`"
)
_LENGTHS = "max_seq_lengths"
SHORTEST = 1024
"""Smallest length of a question in tokens: below it, loops of RULER's `vt` and `cwe` never end."""


@dataclass(frozen=True, slots=True)
class Tokenizer:
    """A tokenizer in files."""

    files: tuple[Path, ...]
    """Files to load it from; those with settings of the model help to find its class."""
    sha256: str
    """Hash over names and contents of the files that are the tokenizer."""


@dataclass(slots=True)
class QuestionMaker:
    """Makes the questions of tasks by their functions."""

    arguments: Mapping[str, Any] = field(default_factory=dict)
    """Arguments by hand, which take precedence over those in a task's `metadata`."""
    tokenizer: Tokenizer | None = None
    """Tokenizer that a function gets as `pretrained`; None: there is none."""
    made: dict[str, str] = field(default_factory=dict)
    """sha256 over all questions of each task, by name."""
    measured: bool = False
    """The tokenizer was loaded."""
    _folder: str | None = None
    _loaded: dict[str, Any] = field(default_factory=dict)
    """Modules of functions that this block loaded, by name."""

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """Give the tokenizer to functions of tasks while the block runs. Code of a tokenizer is not run."""
        from transformers import AutoTokenizer

        auto: Any = AutoTokenizer
        # The harness keeps tokenizers by their path, so that each block has its own.
        with TemporaryDirectory(prefix="regrade-tokenizer-") as folder:
            if self.tokenizer is not None:
                self._folder = folder
                for file in self.tokenizer.files:
                    (Path(folder) / file.name).symlink_to(file.resolve())
            original = auto.__dict__["from_pretrained"]

            def load(name: object, *arguments: object, **options: object) -> object:
                self.measured |= str(name) == folder
                return original.__func__(
                    auto, name, *arguments, **{**options, "trust_remote_code": False}
                )

            auto.from_pretrained = load
            try:
                yield
            finally:
                auto.from_pretrained = original
                self._folder = None
                self._loaded.clear()

    def make(
        self, task: str, function: Callable[..., Mapping[str, Any]], arguments: Mapping[str, Any]
    ) -> Mapping[str, Any]:
        """Return the splits of a task.

        Args:
            task: Name of the task.
            function: Its function.
            arguments: Arguments in its yaml file.

        Raises:
            SettingsError: If the function fails.
        """
        given = {**arguments, **self.arguments}
        self._check_lengths(given.get(_LENGTHS))
        if self._folder is not None:
            given["pretrained"] = self._folder
        try:
            splits: Mapping[str, Any] = self._fresh(function)(**given)
        except Exception as error:
            lines = str(error).strip().splitlines() or [""]
            problem = f"{type(error).__name__}: {lines[0][:300].rstrip('.')}"
            address = _address(error)
            hint = _NO_TOKENIZER if self._folder is None else ""
            if address is not None or isinstance(error, ConnectionError):
                hint = (
                    f" The task reads {address or 'data'}, which this machine does not get; connect it, name its proxy in "
                    f"HTTPS_PROXY, or give questions made elsewhere: `--source {HARNESS}{task}=FOLDER`"
                )
            raise cannot_run(task, f"its questions cannot be made ({problem}).{hint}") from error
        self.made[task] = _sha256(splits)
        return splits

    def _fresh(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function in a module that this block loaded, since a module may hold random numbers that were drawn."""
        from lm_eval.tasks._yaml_loader import _load_module_with_cache

        module = sys.modules.get(getattr(function, "__module__", ""))
        file = getattr(module, "__file__", None)
        if module is None or file is None or not hasattr(module, function.__name__):
            return function
        if module.__name__ not in self._loaded:
            del sys.modules[module.__name__]
            self._loaded[module.__name__] = _load_module_with_cache(Path(file))
        fresh: Callable[..., Any] = getattr(self._loaded[module.__name__], function.__name__)
        return fresh

    def _check_lengths(self, lengths: object) -> None:
        for length in lengths if isinstance(lengths, list) else ():
            if isinstance(length, int) and length < SHORTEST:
                raise SettingsError(
                    f"`lm_eval.metadata`: {_LENGTHS} has {length}. Give at least {SHORTEST} tokens: some tasks never end below."
                )


def _address(error: BaseException | None) -> str | None:
    """Return the address whose request failed, as httpx and requests note it in their errors; None if none did."""
    while error is not None:
        with suppress(RuntimeError):  # httpx: an error without its request
            if (url := getattr(getattr(error, "request", None), "url", None)) is not None:
                return str(url)
        error = error.__cause__ or error.__context__
    return None


def makes_questions(config: Mapping[str, Any]) -> bool:
    """Return True if a function makes the questions of a task."""
    return callable(config.get("custom_dataset"))


def _sha256(splits: Mapping[str, Any]) -> str:
    digest = hashlib.sha256()
    for name in sorted(splits):
        for row in splits[name]:
            text = json.dumps(row, ensure_ascii=False, sort_keys=True, default=repr)
            digest.update(f"{name}\t{text}\n".encode())
    return digest.hexdigest()

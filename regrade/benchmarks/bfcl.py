"""BFCL: which functions a model calls, of those that it is offered; none is run.

Source:   Patil et al. 2025, The Berkeley Function Calling Leaderboard, https://gorilla.cs.berkeley.edu/leaderboard.html
Dataset:  https://huggingface.co/datasets/gorilla-llm/Berkeley-Function-Calling-Leaderboard (`BFCL_v3_*.json` with the questions and
          `possible_answer/BFCL_v3_*.json` with the right calls); the folder `bfcl_eval/data` of the package `bfcl-eval` has version 4.
          Of both versions the newer one is read. The newest commit is read, and recorded
Licence:  Apache-2.0

`bfcl` has the categories `simple` (Python), `multiple`, `parallel`, `parallel_multiple` and `irrelevance`, `bfcl_live` the same ones of
users' questions, each as a subset. The two files of a category are joined by the questions' ids. `irrelevance` has no file of right
calls: there none is right. The categories in other languages, with several turns, memory or a search are not read.

The functions are given as tools, as BFCL does for models that take them: with JSON schema's types, and `_` for the dots in names.
"""

import json
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regrade.benchmarks.questions.configs import SUBSET
from regrade.benchmarks.questions.reading import Source
from regrade.benchmarks.questions.samples import Question
from regrade.benchmarks.questions.sources import LocalSource, open_hub
from regrade.benchmarks.questions.standard import WrittenConversations
from regrade.benchmarks.questions.targets import RowError, turns_of
from regrade.benchmarks.questions.tools import expected_calls, tools_of
from regrade.records.tools import TOOLS
from regrade.settings import SamplingParams, ScorerName

if TYPE_CHECKING:
    from regrade.benchmarks.questions.hub_source import HubSource

VERSIONS = ("v4", "v3")
"""Versions of the files, the newest first."""
ANSWERS = "possible_answer"
"""Folder with the right calls."""
_CATEGORIES = ("simple", "multiple", "parallel", "parallel_multiple", "irrelevance")
_NEWER_NAMES = {"simple": "simple_python"}
"""Names of categories that version 4 has under another one."""


class Bfcl(WrittenConversations):
    """Questions with functions, in a chat."""

    name = "bfcl"
    description = "Calls of functions: one, one of several, several, or none (BFCL)."
    paper = "https://gorilla.cs.berkeley.edu/leaderboard.html"
    scorers: tuple[ScorerName, ...] = ("tool_calls",)
    hub_dataset, split = "gorilla-llm/Berkeley-Function-Calling-Leaderboard", "test"
    categories = _CATEGORIES
    columns = ("question", "function", "ground_truth", SUBSET)
    question_template = "{question}"
    sampling = SamplingParams(temperature=0.0, max_tokens=4096)

    def open_source(self, path: str | None) -> Source:
        """Return the Hub dataset, or the folder that replaces it."""
        files: HubSource | _Folder
        if path is None:
            files = open_hub(self.name, self.hub_dataset, None)
        else:
            files = _Folder(self.name, path, self.split)
        return _Joined(self.name, self.categories, files)

    def reason_left_out(self, row: Mapping[str, Any]) -> str | None:
        """Return the reason to leave a question out: it offers no function, so that nothing could be called."""
        return None if row["function"] else "they offer no function"

    def read_row(self, index: int, row: Mapping[str, Any]) -> Question:
        """Return a question with its functions, and the right calls as the target."""
        tools = tools_of(index, "function", row["function"])
        question = row["question"]
        if not isinstance(question, list) or len(question) != 1:
            raise RowError(
                index,
                f"the question is {str(question)[:100]!r}; expected a list with one list of messages: these categories have one turn",
            )
        turns = turns_of(index, "the question's turn", question[0])
        return Question(
            content={"question": turns},
            target=expected_calls(index, "ground_truth", row["ground_truth"], tools),
            fields={"turns": turns},
            subset=row[SUBSET],
            doc={TOOLS: list(tools)},
            tools=tools,
        )


class _Joined(Source):
    """The files of the categories, whose rows are joined with the right calls by their ids."""

    def __init__(
        self, benchmark: str, categories: Sequence[str], files: "HubSource | _Folder"
    ) -> None:
        super().__init__(benchmark, files.name, files.place)
        self._categories, self._files = categories, files
        if isinstance(files, _Folder):
            _ = self._paths  # a folder without them is refused on opening

    def revision(self, splits: Sequence[str]) -> str:
        """Return the revision of all files; see `Source.revision`."""
        if not isinstance(self._files, _Folder):
            return self._files.revision(splits)
        pairs = self._paths.values()
        return self._files.revision([path for pair in pairs for path in pair if path])

    def rows(
        self,
        split: str,  # noqa: ARG002 - there is one
        columns: Sequence[str],  # noqa: ARG002 - all are read
        head: int | None = None,
    ) -> list[dict[str, Any]]:
        """Return the rows of all categories, in their order."""
        rows = [
            {**question, "ground_truth": right, SUBSET: category}
            for category, paths in self._paths.items()
            for question, right in self._joined(*paths)
        ]
        return rows[:head]

    @cached_property
    def _paths(self) -> Mapping[str, tuple[str, str | None]]:
        """Return the files of each category: the questions, and the right calls if one can be right.

        Raises:
            SourceError: If a file is missing.
        """
        there = set(self._files.files())
        wanted = {version: self._names(version) for version in VERSIONS}
        for files in wanted.values():
            if {path for pair in files.values() for path in pair if path} <= there:
                return files
        missing = [
            path
            for pair in wanted[VERSIONS[-1]].values()
            for path in pair
            if path and path not in there
        ]
        raise self.error(
            f"expected the files of BFCL, such as 'BFCL_{VERSIONS[0]}_multiple.json' and '{ANSWERS}/BFCL_{VERSIONS[0]}_multiple.json'; of "
            f"version {VERSIONS[-1]}, {', '.join(missing[:3])} {'is' if len(missing) == 1 else 'are'} missing"
        )

    def _names(self, version: str) -> dict[str, tuple[str, str | None]]:
        newer = _NEWER_NAMES if version == VERSIONS[0] else {}
        files = {
            category: f"BFCL_{version}_{newer.get(category, category)}.json"
            for category in self._categories
        }
        return {
            category: (file, None if category.endswith("irrelevance") else f"{ANSWERS}/{file}")
            for category, file in files.items()
        }

    def _joined(self, questions: str, answers: str | None) -> list[tuple[dict[str, Any], Any]]:
        """Return each question with its right calls; [] if none can be right."""
        asked = self._lines(questions)
        if answers is None:
            return [(question, []) for question in asked]
        right = {line["id"]: line.get("ground_truth") for line in self._lines(answers)}
        lost = [question["id"] for question in asked if question["id"] not in right]
        if lost:
            raise self.error(f"'{answers}' has no right calls for the question '{lost[0]}'")
        return [(question, right[question["id"]]) for question in asked]

    def _lines(self, path: str) -> list[dict[str, Any]]:
        """Return the lines of a file as objects with an `id`."""
        lines = []
        try:
            for number, text in enumerate(self._files.file(path).read_text("utf-8").split("\n"), 1):
                if text.strip():
                    line = json.loads(text)
                    if not isinstance(line, dict) or not isinstance(line.get("id"), str):
                        raise self.error(f"line {number} of '{path}' is no object with an `id`")
                    lines.append(line)
        except (OSError, ValueError, RecursionError) as error:
            raise self.error(f"'{path}' cannot be read as lines of JSON: {error}") from error
        if not lines:
            raise self.error(f"'{path}' holds no rows; expected at least one")
        return lines


class _Folder(LocalSource):
    """A folder with the files of the categories, each of which is a split."""

    def files(self) -> Sequence[str]:
        return [
            str(file.relative_to(self._root))
            for place in (self._root, self._root / ANSWERS)
            for file in place.glob("BFCL_*.json")
        ]

    def file(self, path: str) -> Path:
        return self._root / path

    def _file(self, split: str) -> Path:
        return self.file(split)


def benchmark(name: str) -> type[Bfcl]:
    """Return BFCL, or its part with users' questions."""
    if name == Bfcl.name:
        return Bfcl
    members = {
        "__doc__": "BFCL's questions of users.",
        "name": name,
        "description": "Calls of functions that users asked for: one, one of several, several, or none (BFCL).",
        "categories": tuple(f"live_{category}" for category in _CATEGORIES),
    }
    return type("BfclLive", (Bfcl,), members)

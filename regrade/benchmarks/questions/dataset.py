"""Any dataset as a benchmark: on the Hub, or in parquet, jsonl, json or csv files.

`settings.DatasetBenchmark` gives the columns, the prompt's Jinja template and the scorer. The scorer's `targets`
decide the content of the target column:

- `number` (`number`, `number_strict`): a number, or a text that ends with `#### N`, which means N; thousands commas are
  dropped.
- `letter` (`choice_logprob`, `choice_letter`): the index (from 0), letter or text of the right choice, in the same way
  in all rows; the target becomes the letter. With `choice_logprob`, the model ranks the letters instead of generating.
- `text` (`exact`): a text or number, unchanged.
- `text` (`code`): tests in Python, or inputs and outputs (docs/code.md).
- `text` (`tool_calls`): the right calls, `[{"function": {"parameter": [alternatives]}}]`.
- `texts` (`text`): a text or number, or a list of accepted texts and numbers.

Sample ids depend on the columns that the prompt reads, not on its wording, so that prompts can be compared. A column of images
is printed as the images' marks (`regrade.records.images`), and enters the id as their hashes.
"""

import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import orjson

from regrade.benchmarks.questions.pictures import with_marks
from regrade.benchmarks.questions.problems import checked_doc
from regrade.benchmarks.questions.prompting import system_turn
from regrade.benchmarks.questions.reading import FILE_TYPES, Source
from regrade.benchmarks.questions.samples import Question, UserTurn
from regrade.benchmarks.questions.sources import REPOSITORY_ID, LocalSource, open_hub
from regrade.benchmarks.questions.standard import StandardBenchmark
from regrade.benchmarks.questions.targets import (
    RowError,
    choice_letters,
    choice_texts,
    listed,
    needed_text,
    number_target,
    text_target,
    turns_of,
)
from regrade.benchmarks.questions.templates import ROW, RowTemplate, TemplateValueError
from regrade.benchmarks.questions.tools import Tool, expected_calls, tools_of
from regrade.records import MESSAGES, Message, Sample
from regrade.records.specification import TURNS
from regrade.records.tools import TOOLS
from regrade.scorers import JUDGE, load_scorer, method_of
from regrade.scorers.base import TargetKind
from regrade.scorers.extraction.accepted import accepted_texts, stored_target
from regrade.settings import DatasetBenchmark, PromptSettings, SamplingParams
from regrade.settings.errors import SettingsError, SourceError

PLAIN_PROMPT = DatasetBenchmark.model_fields["prompt"].default
CHOICE_PROMPT = "{{ question }}\n{{ listed_choices }}\nAnswer:"
"""Default prompt for multiple choice, because `PLAIN_PROMPT` does not show the choices."""

CODE = "code"
"""Scorer whose target column holds tests or cases."""
TOOL_CALLS = "tool_calls"
"""Scorer whose target column holds the right calls."""
_CHOICE_NAMES = frozenset({"choices", "listed_choices"})
_SHOT_NAMES = frozenset({"target", "label"})


class DatasetQuestions(StandardBenchmark):
    """Benchmark from a dataset, as described by its settings."""

    version = 1
    paper = ""

    def __init__(
        self, settings: DatasetBenchmark, *, prompt: PromptSettings, limit: int | None
    ) -> None:
        """Open the dataset; see `open_dataset`."""
        self.name = settings.name
        self.description = f"Questions of the dataset '{Path(settings.path).name}'."
        self.split, self.shots_split = settings.split, settings.shots_split
        self.images_stay = settings.images_stay
        scorer = load_scorer(settings.scorer)
        self.scorers = (scorer.name,)
        self.method = method_of(scorer)
        self.sampling = settings.sampling
        if self.method == "rank":
            self.sampling = SamplingParams(temperature=0.0, max_tokens=1)
        self._settings = settings
        self._target_kind = scorer.targets
        has_choices = settings.choices_column is not None
        if self._target_kind == "letter" and not has_choices:
            raise SettingsError(
                f"Benchmark '{self.name}' is scored by '{settings.scorer}', which needs choices. "
                "Set `datasets.choices_column` to the column with the list of choices."
            )
        is_plain_choice = has_choices and settings.prompt == PLAIN_PROMPT
        self.question_template = CHOICE_PROMPT if is_plain_choice else settings.prompt
        self._prompt_template = RowTemplate("`datasets.prompt`", self.question_template)
        self._shot_template = RowTemplate("`datasets.shot_answer`", settings.shot_answer)
        system = prompt.system or settings.system
        self._system_source = system
        # What is given with `--system` is plain text.
        self._system_template = RowTemplate(
            "`datasets.system`", "" if prompt.system else system or ""
        )
        computed = _CHOICE_NAMES if has_choices else frozenset()
        if conversation := settings.messages_column or settings.turns_column:
            self._check_messages()
            self.question_template = f"{{{{ row['{conversation}'] }}}}"
            self._prompt_template = RowTemplate("`datasets.prompt`", "")
        if not settings.target_column and JUDGE not in self.scorers:
            raise SettingsError(
                f"Benchmark '{self.name}' has no `datasets.target_column`, without which only a judge can grade: set `datasets.scorer={JUDGE}`."
            )
        self._own_system = own_system = RowTemplate(
            "`datasets.system`", settings.system or ""
        )  # ids do not depend on `--system`
        self._prompt_columns = sorted(
            self._prompt_template.row_columns
            | own_system.row_columns
            | ((self._prompt_template.names | own_system.names) - computed)
            | ({conversation} if conversation else set())
        )
        named = (
            *(settings.target_column, settings.choices_column),
            *(settings.subset_column, settings.tools_column),
        )
        columns = (*self._prompt_columns, *filter(None, named), *settings.doc_columns)
        self.columns = tuple(dict.fromkeys(columns))
        self._shot_answer_columns = sorted(
            self._shot_template.row_columns | (self._shot_template.names - computed - _SHOT_NAMES)
        )
        super().__init__(
            _open_source(settings),
            prompt,
            limit,
            n_shots=settings.n_shots,
            prompt_format=settings.format,
        )
        if settings.tools_column is not None:
            self._check_tools()
        elif settings.scorer == TOOL_CALLS:
            raise SettingsError(
                f"Benchmark '{self.name}' is scored by '{TOOL_CALLS}', which needs the functions that may be called. Set "
                "`datasets.tools_column` to the column with them."
            )

    def _check_tools(self) -> None:
        if self.format == "completion":
            raise SettingsError(
                f"Benchmark '{self.name}' gives the model tools, which a chat template writes. Use `prompt.format=chat`."
            )
        if self.method == "rank" or self._settings.scorer == CODE:
            raise SettingsError(
                f"Benchmark '{self.name}' gives the model tools, which the scorer '{self._settings.scorer}' cannot take into "
                f"account. Use `{TOOL_CALLS}` or a scorer of texts."
            )

    def _check_messages(self) -> None:
        settings = self._settings
        column, turns = settings.messages_column, settings.turns_column
        if settings.prompt != PLAIN_PROMPT or settings.n_shots or self.method == "rank":
            raise SettingsError(
                f"Benchmark '{self.name}' sends the conversations in '{column or turns}' as they are: leave out `datasets.prompt` "
                "and `datasets.n_shots`, and use a scorer of texts."
            )
        if turns is None:
            return
        if column is not None:
            raise SettingsError(
                f"Benchmark '{self.name}' has conversations in '{column}' and turns in '{turns}'. Leave out `datasets.messages_column` or "
                "`datasets.turns_column`."
            )
        if settings.choices_column or settings.tools_column or settings.scorer == CODE:
            raise SettingsError(
                f"Benchmark '{self.name}' asks the turns in '{turns}', which can have neither choices, nor tools, nor the scorer "
                f"`{CODE}`. Leave them out."
            )

    @property
    def system_template(self) -> str | None:
        """Jinja template of the system message, or the text of `--system`."""
        return self._system_source

    def system(self, sample: Sample) -> str | None:
        """Return the system message of a question; None if it is blank."""
        if self._prompt.system:
            return self._prompt.system
        return self._system_template.render(self._values(sample)).strip() or None

    @property
    def parameters(self) -> dict[str, Any]:
        """Settings that decide the targets and, if used, the worked examples."""
        settings = self._settings
        parameters = {
            "target": self._target_kind,
            "target_column": settings.target_column or None,
            "choices_column": settings.choices_column,
            "subset_column": settings.subset_column,
        }
        for name in ("messages_column", "tools_column", "doc_columns"):
            if given := getattr(settings, name):
                parameters[name] = given
        if settings.turns_column is not None:
            parameters[TURNS] = settings.turns_column
        if self.n_shots:
            parameters |= {"shots_split": settings.shots_split, "shot_answer": settings.shot_answer}
        return parameters

    @property
    def shot_columns(self) -> tuple[str, ...]:
        """Columns of questions and of the answers of worked examples."""
        return tuple(dict.fromkeys([*self.columns, *self._shot_answer_columns]))

    def _read(self, split: str, columns: tuple[str, ...], head: int | None = None) -> list[Sample]:
        """Read as other benchmarks do; of a missing column, name the settings that ask for it."""
        try:
            return super()._read(split, columns, head)
        except SourceError as error:
            missing = getattr(error.__cause__, "missing", ())
            if not (asking := [f"`datasets.{name}`" for name in self._asking_for(missing)]):
                raise
            problem = f"{error.problem}, or change {' and '.join(asking)}"
            raise SourceError(error.benchmark, error.source, problem) from error

    def _asking_for(self, columns: Collection[str]) -> Iterator[str]:
        """Yield the settings that name one of the columns, or whose templates read it."""
        for name, value in self._settings:
            if name.endswith("_column") and value in columns:
                yield name
        if not {*columns}.isdisjoint(self._settings.doc_columns):
            yield "doc_columns"
        templates = {
            "prompt": self._prompt_template,
            "system": self._own_system,
            "shot_answer": self._shot_template,
        }
        for name, template in templates.items():
            if not {*columns}.isdisjoint(template.names | template.row_columns):
                yield name

    def read(self, rows: Sequence[Mapping[str, Any]]) -> list[Question]:
        """Return questions whose targets have the kind that the scorer compares with."""
        settings = self._settings
        target_column, messages = settings.target_column, settings.messages_column
        values = [row[target_column] if target_column else None for row in rows]
        if (turns := settings.turns_column) is not None:
            return self._conversations(rows, turns, values)
        column, offered = settings.choices_column, settings.tools_column
        choices = [
            () if column is None else choice_texts(index, row[column])
            for index, row in enumerate(rows)
        ]
        tools = [
            () if offered is None else tools_of(index, offered, row[offered])
            for index, row in enumerate(rows)
        ]
        targets = self._targets(values, choices, tools)
        questions = []
        for index, (row, target) in enumerate(zip(rows, targets, strict=True)):
            marked, images = with_marks(index, row, self._prompt_columns)
            content = {name: marked[name] for name in self._prompt_columns if name != column}
            doc = {name: row[name] for name in settings.doc_columns}
            _check_content(index, content | doc)
            if messages is not None:
                spoken = turns_of(index, f"column '{messages}'", row[messages])
                if len(spoken) > 1:
                    doc.setdefault(MESSAGES, spoken)
            if tools[index]:
                doc[TOOLS] = list(tools[index])
            questions.append(
                Question(
                    content=content,
                    target=target,
                    fields=marked,
                    subset=self._subset(index, row),
                    choices=choices[index],
                    doc=_task(index, values[index]) if settings.scorer == CODE else doc or None,
                    images=images,
                    tools=tools[index],
                )
            )
        return questions

    def _conversations(
        self, rows: Sequence[Mapping[str, Any]], column: str, values: Sequence[Any]
    ) -> list[Question]:
        """Return conversations, each with its turns as the field `TURNS`."""
        questions, named = [], self._settings.target_column
        for index, (row, value) in enumerate(zip(rows, values, strict=True)):
            turns = _texts(index, column, row[column])
            targets = [""] * len(turns)
            if named:
                if not isinstance(value, list) or len(value) != len(turns):
                    raise RowError(
                        index,
                        f"column '{named}' is {str(value)[:100]!r}; expected a list with a target for each of the {len(turns)} turns",
                    )
                targets = [self._target(index, item) for item in value]
            content = {name: row[name] for name in self._prompt_columns}
            doc = {name: row[name] for name in self._settings.doc_columns}
            _check_content(index, content | doc)
            asked = tuple(
                UserTurn(text, target, doc or None)
                for text, target in zip(turns, targets, strict=True)
            )
            questions.append(
                Question(
                    content=content,
                    target=orjson.dumps(targets).decode() if named else "",
                    fields={**row, TURNS: asked},
                    subset=self._subset(index, row),
                )
            )
        return questions

    def check(self, sample: Sample) -> None:
        """Reject a row whose prompt cannot be rendered or is blank."""
        try:
            self.system(sample)
            blank = not self.question(sample).strip()
        except TemplateValueError as error:
            raise RowError(sample.index, str(error)) from error
        if blank:
            raise RowError(sample.index, "the prompt is empty; expected a question")
        if sample.images and self.format != "chat":
            raise RowError(
                sample.index,
                "it shows an image, which a chat alone can hold; set `datasets.format=chat`",
            )

    def question(self, sample: Sample) -> str:
        """Return the question; for ranking without white space at the end, because labels begin with a space."""
        if self._settings.turns_column is not None:
            return sample.question or self.turns(sample)[0].text
        if column := self._settings.messages_column:
            turns = sample.fields[column]
            return "\n\n".join(turn["content"] for turn in turns if turn["role"] == "user")
        text = self._prompt_template.render(self._values(sample))
        return text.rstrip() if self.method == "rank" else text

    def prompt(self, sample: Sample) -> str | tuple[Message, ...]:
        """Return the prompt; of a conversation all of its turns, after the system message if there is one."""
        column = self._settings.messages_column
        if column is None:
            return super().prompt(sample)
        turns = turns_of(sample.index, f"column '{column}'", sample.fields[column])
        return (*system_turn(self.system(sample)), *turns)

    def answer(self, sample: Sample) -> str:
        """Return the answer of a worked example."""
        if sample.images:
            raise RowError(
                sample.index, "a worked example shows an image; set `datasets.n_shots=0`"
            )
        target = sample.target
        if self._target_kind == "texts":
            target = accepted_texts(target)[0]
        _check_content(
            sample.index, {name: sample.fields[name] for name in self._shot_answer_columns}
        )
        values = {**self._values(sample), "target": target}
        if self._target_kind == "letter":
            values["label"] = sample.target
        try:
            return self._shot_template.render(values)
        except TemplateValueError as error:
            raise RowError(sample.index, str(error)) from error

    def opening(self, subset: str) -> str:  # noqa: ARG002 - the Jinja template is the whole prompt
        """Return ""."""
        return ""

    def _values(self, sample: Sample) -> dict[str, Any]:
        values = {**sample.fields, ROW: sample.fields}
        if not sample.choices:
            return values
        choices = list(sample.choices)
        return {**values, "choices": choices, "listed_choices": listed(choices)}

    def _targets(
        self,
        values: Sequence[Any],
        choices: Sequence[Sequence[str]],
        tools: Sequence[Sequence[Tool]],
    ) -> list[str]:
        column = self._settings.target_column
        if self._settings.scorer == TOOL_CALLS:
            offered = enumerate(zip(values, tools, strict=True))
            return [expected_calls(index, column, value, of) for index, (value, of) in offered]
        if self._settings.scorer == CODE or not column:
            return [""] * len(values)
        if self._target_kind == "letter":
            return choice_letters(values, choices)
        return [self._target(index, value) for index, value in enumerate(values)]

    def _target(self, index: int, value: object) -> str:
        read, expected = _READERS[self._target_kind]
        target = read(value)
        if target is None:
            raise RowError(index, f"the target {value!r} is not {expected}")
        return target

    def _subset(self, index: int, row: Mapping[str, Any]) -> str:
        column = self._settings.subset_column
        if column is None:
            return ""
        return needed_text(index, f"the subset (column '{column}')", row[column])


def _texts(index: int, column: str, turns: object) -> list[str]:
    """Return the user's turns.

    Raises:
        RowError: If they are no list of texts.
    """
    texts = turns if isinstance(turns, list) else []
    if not texts or not all(isinstance(text, str) and text.strip() for text in texts):
        raise RowError(
            index,
            f"column '{column}' is {str(turns)[:100]!r}; expected a list of texts, one a turn",
        )
    return texts


def _task(index: int, value: object) -> Mapping[str, Any]:
    """Return the tests or cases that are a target, for the scorer `code`.

    Raises:
        RowError: If a value is neither tests, nor a list of them, nor a task (`regrade.scorers.programs.task.Task`).
    """
    task = value
    if isinstance(value, str) and value.lstrip().startswith("{"):
        with suppress(ValueError):  # tests that begin with a set or a dictionary
            task = json.loads(value)
    if isinstance(task, list) and task and all(isinstance(test, str) for test in task):
        task = "\n".join(task)
    if isinstance(task, str) and task.strip():
        task = {"tests": [{"source": task}]}
    if not isinstance(task, Mapping):
        raise RowError(
            index,
            f"the target {value!r} is neither tests in Python nor inputs and outputs (docs/code.md)",
        )
    return checked_doc(index, **{name: part for name, part in task.items() if part is not None})


def _texts_target(value: object) -> str | None:
    """Return the target of one or several accepted texts; None if one of them is not a text or number."""
    accepted = [text_target(text) for text in (value if isinstance(value, list) else [value])]
    known = [text for text in accepted if text is not None]
    return stored_target(known) if known and len(known) == len(accepted) else None


_READERS: Mapping[TargetKind, tuple[Callable[[Any], str | None], str]] = {
    "number": (number_target, "a number"),
    "text": (text_target, "a text or number"),
    "texts": (_texts_target, "a text or number, or a list of them"),
}
"""Target of a value, and the expected kind for the error message, by kind of target."""


def _check_content(index: int, content: Mapping[str, Any]) -> None:
    """Reject values that JSON cannot represent, such as bytes: neither prompts nor ids can use them."""
    for name, value in content.items():
        try:
            orjson.dumps(value)
        except orjson.JSONEncodeError as error:
            raise RowError(
                index,
                f"column '{name}' holds {_kind(value)}, which a prompt cannot use. Leave the column out of the template, or "
                "store images as `datasets` does (its feature `Image`: a struct of bytes and path)",
            ) from error


def _kind(value: object) -> str:
    """Return the kind of a value for messages."""
    if isinstance(value, list) and value:
        return f"a list of {_kind(value[0])}"
    content = value.get("bytes") if isinstance(value, Mapping) else value
    names = {base.__name__ for base in type(content).__mro__}
    if names & {"Image", "bytes"}:  # PIL's class, without importing PIL
        return "an image or other binary data"
    return f"a {type(value).__name__}"


def _open_source(settings: DatasetBenchmark) -> Source:
    path = settings.path
    if Path(path).expanduser().exists():
        if settings.revision is not None or settings.config is not None:
            raise SettingsError(
                f"Benchmark '{settings.name}' reads local files ('{path}'), which have no revision and no config. "
                "Remove these two settings."
            )
        files = {settings.shots_split: settings.shots_path} if settings.shots_path else None
        return LocalSource(settings.name, path, settings.split, files=files)
    if not REPOSITORY_ID.fullmatch(path) or path.lower().endswith(FILE_TYPES):
        raise SourceError(
            settings.name,
            path,
            "no file or folder has this path, and it is not the name of a Hub dataset (`org/name`). Correct `datasets.path`; "
            "in a `--config` file, a path that begins with `./` begins in the folder of the file",
        )
    if settings.shots_path is not None:
        raise SettingsError(
            f"Benchmark '{settings.name}' reads a Hub dataset, so its worked examples come from a split of that dataset. "
            "Set `datasets.shots_split` instead of `datasets.shots_path`."
        )
    return open_hub(settings.name, path, settings.config, settings.revision)

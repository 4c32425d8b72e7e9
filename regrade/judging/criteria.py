"""Criteria of the rubric `criteria`, from each question's stored document or from a file."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import orjson
from pydantic import Field, TypeAdapter, ValidationError

from regrade.judging.stored import JudgedAnswer
from regrade.settings import StrictModel
from regrade.settings.errors import SettingsError
from regrade.settings.files import at_home
from regrade.settings.problems import problem_text
from regrade.settings.yaml_text import read_yaml

COLUMNS = ("criteria", "rubrics", "rubric")
"""Names of the list in a question's document; HealthBench has `rubrics`."""
QUESTION_TAGS = ("tags", "example_tags")
"""Names of the question's own tags in its document."""


class Criterion(StrictModel):
    """A criterion."""

    criterion: str = Field(min_length=1)
    points: float = Field(ge=-1000, le=1000)
    """Points of an answer that meets it; negative for a fault."""
    tags: tuple[str, ...] = ()


Criteria = tuple[Criterion, ...]
_LIST = TypeAdapter(Criteria)


class CriteriaSource:
    """Criteria of questions: a file's list for all, a file's mapping by question, or those in the stored documents."""

    def __init__(self, path: str | None) -> None:
        """Read a file.

        Args:
            path: YAML or JSON file with a list of criteria for all questions, or a mapping from sample ids to lists. None: the
                criteria are in the stored questions.

        Raises:
            SettingsError: If it cannot be read.
        """
        self._path = path
        self._all: Criteria | None = None
        self._by_sample: Mapping[str, Any] = {}
        if path is None:
            return
        content = _read(Path(path))
        if isinstance(content, list):
            self._all = _checked(content, f"File '{path}'")
        elif isinstance(content, dict):
            self._by_sample = {str(name): value for name, value in content.items()}
        else:
            raise SettingsError(
                f"File '{path}' should hold a list of criteria such as `[{{criterion: ..., points: 5}}]`, or a mapping from "
                "sample ids to such lists."
            )

    def of(self, answer: JudgedAnswer) -> Criteria:
        """Return the criteria of an answer.

        Raises:
            SettingsError: If it has no criteria, or none with points above 0.
        """
        if self._all is not None:
            return self._all
        where = f"Sample '{answer.sample_id}'"
        if self._path is not None:
            if answer.sample_id not in self._by_sample:
                raise SettingsError(
                    f"{where} has no criteria in '{self._path}'. Add them under its id, or write a list for all questions."
                )
            return _checked(self._by_sample[answer.sample_id], f"{where} in '{self._path}'")
        document = answer.doc or {}
        name = next((column for column in COLUMNS if column in document), None)
        if name is None:
            raise SettingsError(
                f"{where} is stored without criteria (`{COLUMNS[0]}` in its document). Give them with `judge.criteria=FILE`."
            )
        return _checked(document[name], f"{where}, `{name}` of its document")


def points_text(criteria: Criteria) -> str:
    """Return the points of criteria as a list in JSON, as part of a judge run's identity."""
    return orjson.dumps([criterion.points for criterion in criteria]).decode()


def target_of(criteria: Criteria, answer: JudgedAnswer) -> str:
    """Return the points of criteria for the scorer, with the tags of the question and of each criterion if there are some."""
    document = answer.doc or {}
    own = next((document[name] for name in QUESTION_TAGS if document.get(name)), ())
    tags = [[str(tag) for tag in own]] if isinstance(own, list | tuple) else [[str(own)]]
    tags += [list(criterion.tags) for criterion in criteria]
    points = points_text(criteria)
    return f'{{"points":{points},"tags":{orjson.dumps(tags).decode()}}}' if any(tags) else points


def numbered(criteria: Iterable[Criterion]) -> str:
    """Return the texts of criteria as a numbered list, without their points."""
    return "\n".join(f"{number}. {c.criterion}" for number, c in enumerate(criteria, 1))


def _read(path: Path) -> Any:  # noqa: ANN401 - any YAML
    try:
        text = at_home(path).read_bytes()
    except OSError as error:
        raise SettingsError(f"Criteria '{path}' cannot be read: {error.strerror}.") from error
    try:
        return orjson.loads(text) if path.suffix == ".json" else read_yaml(text)
    except ValueError as error:
        raise SettingsError(
            f"Criteria '{path}' cannot be read as JSON or YAML: {error}."
        ) from error


def _checked(content: object, where: str) -> Criteria:
    try:
        criteria = _LIST.validate_python(content)
    except ValidationError as error:
        problem = error.errors()[0]
        reason = problem_text(problem, ".".join(map(str, problem["loc"])))
        raise SettingsError(
            f"{where}: the criteria are not a list of `criterion` and `points` ({reason})."
        ) from error
    if not any(criterion.points > 0 for criterion in criteria):
        raise SettingsError(
            f"{where}: no criterion has points above 0, so that there is no share of them."
        )
    return criteria

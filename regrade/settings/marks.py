"""Marks of fields of settings, in `Annotated[TYPE, MARK]`: what a field is, where it is declared."""

from collections.abc import Callable
from dataclasses import dataclass
from inspect import get_annotations
from typing import Annotated, Any

from pydantic import BaseModel, GetJsonSchemaHandler
from pydantic.fields import FieldInfo
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema


@dataclass(frozen=True, slots=True)
class SchemaMark:
    """A mark that the JSON schema of a field has too, so that a deployment tells it to those who start its runs."""

    key: str

    def __get_pydantic_json_schema__(
        self, core_schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        return {**handler(core_schema), self.key: True}


PATH = SchemaMark("x-path")
"""The value, or each of a list, may be a path on the machine where it is given."""


@dataclass(frozen=True, slots=True)
class Mark:
    """A mark by its name."""

    name: str


@dataclass(frozen=True, slots=True)
class Option:
    """Options of the command line for a field, if they are not `--` and its name."""

    names: tuple[str, ...] | None = None
    """Names; none if the field has no option."""
    group: str | None = None
    """Title in the help, if it is not that of the settings that have the field."""
    hint: str = ""
    """Sentence that its help adds to the description."""
    more: str | None = None
    """Field beside it that takes the second value and those after it."""


@dataclass(frozen=True, slots=True)
class OnWorker:
    """A check of the value if a worker started the run; it raises a `RefusedParameterError`."""

    check: Callable[[Any], None]


NO_OPTION = Option(())
NESTED = Mark("nested")
"""The fields of this group have options, although it stands in another group."""
VARIES = Mark("varies")
"""A sweep may vary it; of a group, each field that is not `FIXED`."""
FIXED = Mark("fixed")
NAME = Mark("name")
"""The value may also be a name, such as that of a model on the Hub."""
CODE = Mark("code")
"""The path has code that is run, or a rubric: of a worker without leave, only installed ones are used."""
SCORER = Mark("scorer")
"""The value names a scorer, perhaps with arguments: `number(last=true)`."""
FREE_TEXT = Mark("free text")
"""The value may hold commas."""
ABSENT = Mark("absent")
"""The job has a field of its base, but no such parameter."""
Absent = Annotated[None, ABSENT]
NOT_MEASURED = Mark("not measured")
"""Sweeps, tuning and the noise floor have no such parameter: they measure one model, on this machine, and give no verdict."""
FILTER = Mark("filter")
"""The value limits the stored answers that are scored."""
FIRST = Mark("first")
"""The parameter stands with the required ones at the beginning of a form."""
INDECISIVE = Mark("indecisive")
"""The value changes neither answers nor scores."""
SAME_ANSWERS = Mark("same answers")
"""The value says where answers are kept and how they are scored, and does not change them."""
DECIDES = Mark("decides")
"""The setting of an engine decides what a model computes: the model that gave answers reads them with the same value."""
DIVIDES = Mark("divides")
"""The setting of an engine divides a model among GPUs: the product of all is their number."""
NO_ARGUMENT = Mark("no argument")
"""The setting of an engine is not an argument of the same name of its software."""


def marked(model: type[BaseModel], mark: object) -> tuple[str, ...]:
    """Return the names of the fields that have a mark, in their order."""
    return tuple(name for name, field in model.model_fields.items() if mark in field.metadata)


def parameters_of(job: type[BaseModel]) -> dict[str, FieldInfo]:
    """Return the fields of a job that are parameters: required ones first, then its own `FIRST` ones, then its bases'."""
    own = get_annotations(job)

    def place(item: tuple[str, FieldInfo]) -> tuple[bool, bool, bool]:
        name, field = item
        is_first = FIRST in field.metadata
        return not field.is_required(), not is_first, is_first and name not in own

    lacking = {name for mark in (ABSENT, *getattr(job, "lacks", ())) for name in marked(job, mark)}
    shown = (item for item in job.model_fields.items() if item[0] not in lacking)
    return dict(sorted(shown, key=place))

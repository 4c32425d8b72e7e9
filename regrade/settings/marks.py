"""Marks of fields of settings, in `Annotated[TYPE, MARK]`: what a field is, where it is declared."""

from dataclasses import dataclass

from pydantic import GetJsonSchemaHandler
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

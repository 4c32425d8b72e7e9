"""Paths in the parameters of a flow that begin in another folder than the one where the flow runs."""

import operator
import os
from collections.abc import Callable, Iterator, Mapping
from functools import cache, reduce
from typing import Any

from pydantic import BaseModel

from regrade.settings.marks import PATH

Schema = Mapping[str, Any]


@cache
def schema_of(job: type[BaseModel]) -> Schema:
    """JSON schema of a job, made once: it takes a tenth of a second."""
    return job.model_json_schema()


def from_this_folder(
    chosen: Any,  # noqa: ANN401 - any JSON
    *schemas: Schema,
    root: Schema,
    change: Callable[[str], str] = os.path.abspath,
) -> Any:  # noqa: ANN401 - any JSON
    """Return parameters in which paths that begin with `./` or `../` are absolute: a worker runs in another folder.

    Args:
        chosen: Parameters, or a value in them.
        schemas: What the value may be, with the mark of paths.
        root: Schema of all parameters, which defines what `schemas` refer to.
        change: Returns what such a path becomes; links stay.
    """
    kinds = [kind for schema in schemas for kind in _kinds(schema, root)]
    is_path = any(kind.get(PATH.key) for kind in kinds)
    if isinstance(chosen, Mapping):
        fields = [kind["properties"] for kind in kinds if "properties" in kind]
        return {
            name: from_this_folder(
                value, *(field[name] for field in fields if name in field), root=root, change=change
            )
            for name, value in chosen.items()
        }
    if isinstance(chosen, list | tuple):
        members = [kind["items"] for kind in kinds if "items" in kind]
        members += [{PATH.key: True}] if is_path else []
        return [from_this_folder(value, *members, root=root, change=change) for value in chosen]
    if is_path and isinstance(chosen, str) and chosen.startswith(("./", "../")):
        return change(chosen)
    return chosen


def _kinds(schema: Schema, root: Schema) -> Iterator[Schema]:
    """Yield a schema, and those that it refers to or offers to choose from."""
    yield schema
    for choice in (*schema.get("anyOf", ()), *schema.get("oneOf", ()), *schema.get("allOf", ())):
        yield from _kinds(choice, root)
    if reference := schema.get("$ref"):
        target = reduce(operator.getitem, reference.removeprefix("#/").split("/"), root)
        yield from _kinds(target, root)

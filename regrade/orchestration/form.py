"""How a flow's parameters become the form in the Prefect UI.

Prefect derives the form from the flow's signature. Some of that is no help to a person. It is mended in a signature
that only `prefect deploy` reads; the function keeps its own, and so do the settings.

- `X | None = None` of a text, a number or a list becomes two buttons, `int` and `None`. Here it is one input that may
  stay empty: an empty one is not sent, and the default of the flow holds.
- A model that was opened to change one field is sent with the defaults of all its fields. Where these replace the
  benchmark's own values (`OVERRIDES`), its inputs are empty here, and only what was filled in is sent.
- A field that can have only one value, which tells models apart, is shown, and wrong values of other fields are then
  told as `kind: 'openai' was expected`. Here it may be sent, but is not shown. Of an engine of another package it is
  shown, as its fields may be those of an engine of ours.
- A parameter is titled with its name.
"""

import copy
import inspect
import types
from collections.abc import Callable, Mapping
from typing import Any, Literal, TypeGuard, TypeVar, Union, get_args, get_origin

from prefect import Flow
from prefect.utilities.callables import parameter_docstrings
from pydantic import MISSING, BaseModel, ConfigDict, Field, JsonValue, create_model
from pydantic.fields import FieldInfo

from regrade.orchestration.worker import set_up_if_under_worker
from regrade.settings import SamplingParams, Settings

OVERRIDES = (SamplingParams,)
_F = TypeVar("_F", bound=Flow[Any, Any])
_NONE = type(None)


def form(**more: Mapping[str, Any]) -> Callable[[_F], _F]:
    """Return a decorator for a flow that is started from a form.

    Args:
        more: What JSON schema is to say of a parameter beside its type, such as `title` or `minimum`.
    """
    set_up_if_under_worker()

    def shape(flow: _F) -> _F:
        own = inspect.signature(flow.fn, eval_str=True)
        said = parameter_docstrings(inspect.getdoc(flow.fn))
        shown = [
            _shown(one, more.get(one.name, {}), said.get(one.name))
            for one in own.parameters.values()
        ]
        flow.__signature__ = own.replace(parameters=shown)  # type: ignore[attr-defined]
        return flow

    return shape


def _shown(
    parameter: inspect.Parameter, more: Mapping[str, Any], description: str | None
) -> inspect.Parameter:
    required = parameter.default is parameter.empty
    annotation, may_stay_empty = _input_of(parameter.annotation, parameter.default)
    return parameter.replace(
        annotation=annotation,
        default=Field(
            default=... if required else MISSING if may_stay_empty else parameter.default,
            description=_when_empty(description) if may_stay_empty else description,
            json_schema_extra={"title": parameter.name.replace("_", " ").capitalize(), **more},
        ),
    )


def _input_of(annotation: object, default: object) -> tuple[object, bool]:
    """Return the type to show for a type, and whether it is one input that may stay empty."""
    some = _without_none(annotation) if default is None else None
    return (_shaped(annotation), False) if some is None else (_shaped(some), True)


def _without_none(annotation: object) -> object:
    """Return X of `X | None`; None where there are several, or a model, which the form folds away."""
    if get_origin(annotation) not in (Union, types.UnionType) or _NONE not in get_args(annotation):
        return None
    (first, *more) = [one for one in get_args(annotation) if one is not _NONE]
    return None if more or _is_model(first) else first


def _shaped(annotation: object) -> object:
    """Return a type with the models in it as the form shows them."""
    if _is_model(annotation):
        return _model(annotation)
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is tuple:
        return tuple[tuple(_shaped(one) for one in arguments)]  # type: ignore[misc]
    if origin in (Union, types.UnionType):
        return Union[tuple(_shaped(one) for one in arguments)]  # noqa: UP007 - their number is not known
    return annotation


def _model(model: type[BaseModel]) -> type[BaseModel]:
    fields: dict[str, Any] = {}
    fixed: dict[str, JsonValue] = {}
    for name, info in model.model_fields.items():
        if _is_fixed(info) and model.__module__.startswith("regrade."):
            fixed[f"^{name}$"] = {}
            continue
        annotation, may_stay_empty = _input_of(info.annotation, info.default)
        field: FieldInfo = copy.copy(info)
        if may_stay_empty or model in OVERRIDES or isinstance(info.default, OVERRIDES):
            field.default = MISSING
        if may_stay_empty:
            field.description = _when_empty(info.description)
        fields[name] = (annotation, field)

    class Base(Settings):
        # With the title that the button shows.
        model_config = ConfigDict(
            **{**model.model_config, "json_schema_extra": {"patternProperties": fixed}}
        )

    return create_model(model.__name__, __base__=Base, __doc__=model.__doc__, **fields)


def _is_fixed(info: FieldInfo) -> bool:
    return get_origin(info.annotation) is Literal and len(get_args(info.annotation)) == 1


def _when_empty(description: str | None) -> str | None:
    """Return a description in the words of a form, where there is no None to choose."""
    return description and description.replace("None: ", "Empty: ")


def _is_model(annotation: object) -> TypeGuard[type[BaseModel]]:
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)

"""Form of a flow's parameters in the Prefect UI.

Prefect derives the form from the flow's signature. `form` replaces that signature for `prefect deploy` only; the
function and the settings are not changed. The form of Prefect, and that of `form`:

- `X | None = None` becomes two buttons, `int` and `None`. `form`: an input that may stay empty; an empty input is not
  sent, so that the flow's default applies.
- A model is sent with the defaults of all its fields once any field is changed. `form`: for models that override a
  benchmark's values (`OVERRIDES`), the inputs are empty, and only filled inputs are sent.
- A `Literal` with one value, which discriminates a union, is shown, and errors of other fields then read
  `kind: 'openai' was expected`. `form`: it may be sent but is not shown, except for an engine of another package,
  whose fields may equal those of a built-in engine.
- A parameter has no title. `form`: its name is the title.
"""

import copy
import inspect
import types
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal, TypeGuard, TypeVar, Union, get_args, get_origin

from prefect import Flow
from prefect.utilities.callables import parameter_docstrings
from pydantic import MISSING, BaseModel, ConfigDict, Field, JsonValue, create_model
from pydantic.fields import FieldInfo

from regrade.orchestration.worker import set_up_if_under_worker
from regrade.settings import SamplingParams, SamplingSettings, Settings

OVERRIDES = (SamplingParams, SamplingSettings)
_F = TypeVar("_F", bound=Flow[Any, Any])
_NONE = type(None)


class Description:
    """Description of a parameter that several flows share, in `Annotated[TYPE, Description(...)]`."""

    def __init__(self, text: str, **more: JsonValue) -> None:
        """Describe a parameter.

        Args:
            text: Description, unless the flow's docstring has another.
            more: Additional JSON schema, such as `title` or `minimum`.
        """
        self.text, self.more = text, more


def form(**more: Mapping[str, Any]) -> Callable[[_F], _F]:
    """Return a decorator that gives a flow its form.

    Args:
        more: Additional JSON schema for each parameter, such as `title` or `minimum`.
    """
    set_up_if_under_worker()

    def shape(flow: _F) -> _F:
        signature = inspect.signature(flow.fn, eval_str=True)
        own = parameter_docstrings(inspect.getdoc(flow.fn))
        shown = []
        for name, parameter in signature.parameters.items():
            annotation, shared = _described(parameter.annotation)
            schema = {**shared.more, **more.get(name, {})}
            plain = parameter.replace(annotation=annotation)
            shown.append(_shown(plain, schema, own.get(name, shared.text)))
        flow.__signature__ = signature.replace(parameters=shown)  # type: ignore[attr-defined]
        return flow

    return shape


def _described(annotation: Any) -> tuple[object, Description]:  # noqa: ANN401 - any type
    """Return a type without its description, and the description."""
    if get_origin(annotation) is Annotated:
        for described in annotation.__metadata__:
            if isinstance(described, Description):
                return annotation.__origin__, described
    return annotation, Description("")


def _shown(
    parameter: inspect.Parameter, more: Mapping[str, Any], description: str
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
    """Return the type to show, and True if it is an input that may stay empty."""
    member = _without_none(annotation) if default is None else None
    return (_shaped(annotation), False) if member is None else (_shaped(member), True)


def _without_none(annotation: object) -> object:
    """Return X of `X | None`; None for other types and for models, which the form can fold."""
    if get_origin(annotation) not in (Union, types.UnionType) or _NONE not in get_args(annotation):
        return None
    (first, *more) = [member for member in get_args(annotation) if member is not _NONE]
    return None if more or _is_model(first) else first


def _shaped(annotation: object) -> object:
    """Return the type, with models replaced by the models of the form."""
    if _is_model(annotation):
        return _model(annotation)
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is tuple:
        return tuple[tuple(_shaped(member) for member in arguments)]  # type: ignore[misc]
    if origin in (Union, types.UnionType):
        return Union[tuple(_shaped(member) for member in arguments)]  # noqa: UP007 - the number of members varies
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
        # The title is the label of the button.
        model_config = ConfigDict(
            **{**model.model_config, "json_schema_extra": {"patternProperties": fixed}}
        )

    return create_model(model.__name__, __base__=Base, __doc__=model.__doc__, **fields)


def _is_fixed(info: FieldInfo) -> bool:
    return get_origin(info.annotation) is Literal and len(get_args(info.annotation)) == 1


def _when_empty(description: str | None) -> str | None:
    """Return a description that says `Empty` instead of `None`, which a form cannot send."""
    return description and description.replace("None: ", "Empty: ")


def _is_model(annotation: object) -> TypeGuard[type[BaseModel]]:
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)

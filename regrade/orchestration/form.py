"""A flow's parameters are the fields of its job: `takes` makes its signature of them, and `form` its form in the Prefect UI.

Prefect would derive the form from the signature. `form` replaces it for `prefect deploy` only; the function and the settings
are not changed. The form of Prefect, and that of `form`:

- `X | None = None` becomes two buttons, `int` and `None`. `form`: an input that may stay empty; an empty input is not
  sent, so that the job's default applies.
- A model is sent with the defaults of all its fields once any field is changed. `form`: for models that override a
  benchmark's values (`OVERRIDES`), the inputs are empty, and only filled inputs are sent.
- A `Literal` with one value, which discriminates a union, is shown, and errors of other fields then read
  `kind: 'openai' was expected`. `form`: it may be sent but is not shown, except for an engine of another package,
  whose fields may equal those of a built-in engine.
- A parameter has no title. `form`: that of the field, or its name.
- Examples are not shown. `form`: they end the description, such as the names of scorers, which may have arguments.
"""

import copy
import inspect
import types
from collections.abc import Callable
from functools import wraps
from typing import (
    Annotated,
    Any,
    Literal,
    Optional,
    TypeGuard,
    TypeVar,
    Union,
    get_args,
    get_origin,
)

from prefect import Flow
from prefect.utilities.callables import parameter_schema
from pydantic import MISSING, BaseModel, ConfigDict, Field, JsonValue, WithJsonSchema, create_model
from pydantic.fields import FieldInfo

from regrade.jobs.job import make_job
from regrade.orchestration.worker import set_up_if_under_worker
from regrade.settings import NoSwitches, SamplingParams, SamplingSettings, Settings
from regrade.settings.marks import parameters_of

OVERRIDES = (SamplingParams, SamplingSettings)
_F = TypeVar("_F", bound=Flow[Any, Any])
_Job = TypeVar("_Job", bound=Settings)
_R = TypeVar("_R")
_NONE = type(None)


def takes(job: type[_Job]) -> Callable[[Callable[[_Job], _R]], Callable[..., _R]]:
    """Return a decorator for the function of a flow, which gets a job: the flow's parameters are the job's fields.

    A parameter that is None, or not given, has the job's default.
    """
    parameters = [
        inspect.Parameter(
            name,
            inspect.Parameter.POSITIONAL_OR_KEYWORD,
            default=inspect.Parameter.empty if field.is_required() else None,
            annotation=Annotated[
                field.annotation if field.is_required() else Optional[field.annotation],  # noqa: UP045 - a value
                NoSwitches(),
            ],
        )
        for name, field in parameters_of(job).items()
    ]
    signature = inspect.Signature(parameters)

    def shape(function: Callable[[_Job], _R]) -> Callable[..., _R]:
        @wraps(function)
        def run(*places: object, **names: object) -> _R:
            return function(make_job(job, signature.bind(*places, **names).arguments))

        run.__signature__ = signature  # type: ignore[attr-defined]
        run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        run.job = job  # type: ignore[attr-defined]
        return run

    return shape


def form(flow: _F) -> _F:
    """Give a flow the form of its job."""
    set_up_if_under_worker()
    job: type[Settings] = flow.fn.job  # type: ignore[attr-defined]
    shown = [_shown(name, field) for name, field in parameters_of(job).items()]
    flow.__signature__ = inspect.Signature(shown)  # type: ignore[attr-defined]
    return flow


def form_schema(flow: Flow[Any, Any]) -> dict[str, Any]:
    """Return the JSON schema of a flow's form, with the conditions of its job on several parameters at once."""
    schema = parameter_schema(flow).model_dump_for_openapi()
    conditions = flow.fn.job.model_config.get("json_schema_extra") or {}  # type: ignore[attr-defined]
    return schema | conditions


def _shown(name: str, field: FieldInfo) -> inspect.Parameter:
    default = None if field.default_factory is not None else field.get_default()
    annotation: Any = field.annotation
    if isinstance(default, BaseModel):
        annotation, default = Optional[annotation], None  # noqa: UP045 - a value
    elif field.default_factory is not None:
        annotation = Optional[annotation]  # noqa: UP045
    annotation, may_stay_empty = _input_of(annotation, default)
    return inspect.Parameter(
        name,
        inspect.Parameter.KEYWORD_ONLY,
        annotation=Annotated[(annotation, *field.metadata)] if field.metadata else annotation,
        default=Field(
            default=... if field.is_required() else MISSING if may_stay_empty else default,
            description=_described(field, annotation),
            json_schema_extra={"title": field.title or name.replace("_", " ").capitalize()},
        ),
    )


def _described(field: FieldInfo, annotation: object) -> str | None:
    """Return the description of a field, with the examples of its type if it has some."""
    marks = (*field.metadata, *getattr(annotation, "__metadata__", ()))
    schemas = [mark.json_schema or {} for mark in marks if isinstance(mark, WithJsonSchema)]
    examples = ", ".join(name for schema in schemas for name in schema.get("examples", ()))
    return f"{field.description} For example: {examples}." if examples else field.description


def _input_of(annotation: object, default: object) -> tuple[object, bool]:
    """Return the type to show, and True if its input may stay empty."""
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
        field.description = _described(info, annotation)
        fields[name] = (annotation, field)

    class Base(Settings):
        # The title is the label of the button. The fields have their descriptions, which take long to find in source files.
        model_config = ConfigDict(
            **{
                **model.model_config,
                "json_schema_extra": {"patternProperties": fixed},
                "use_attribute_docstrings": False,
            }
        )

    return create_model(model.__name__, __base__=Base, __doc__=model.__doc__, **fields)


def _is_fixed(info: FieldInfo) -> bool:
    return get_origin(info.annotation) is Literal and len(get_args(info.annotation)) == 1


def _is_model(annotation: object) -> TypeGuard[type[BaseModel]]:
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)

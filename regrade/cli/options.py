"""Options that commands share, and the groups of options in the help."""

import itertools
from functools import cache
from typing import Annotated, Any

from cyclopts import Group, Parameter
from pydantic.fields import FieldInfo

from regrade.settings import Difference, SandboxName, ScoringOptions, settings

_numbers = itertools.count(1)


@cache
def help_group(title: str) -> Group:
    """Return the group of options with a title; groups stand in the help in the order in which they are first asked for."""
    return Group(title, sort_key=next(_numbers))


WHAT = help_group("What to evaluate")
for _title in ("What to score", "What to compare", "What to compare, and limits of the verdict"):
    help_group(_title)  # above the options of storage
WHERE = help_group("Storage and output")
_SEVERAL = "May be given several times."


def _option_of(kind: Any, group: Group | str, hint: str = "") -> Parameter:  # noqa: ANN401 - a field, or a type
    """Return the option of a command that has no job for a field of jobs; the hint ends its help."""
    field = kind if isinstance(kind, FieldInfo) else FieldInfo.from_annotation(kind)
    return Parameter(group=group, help=f"{field.description} {hint}".strip())


Answers = Annotated[str | None, _option_of(settings.Answers, WHERE)]
SeveralAnswers = Annotated[tuple[str, ...], _option_of(settings.Answers, WHERE, _SEVERAL)]
TrackingUri = Annotated[str | None, _option_of(settings.TrackingUri, WHERE)]
Sandbox = Annotated[
    SandboxName | None, _option_of(ScoringOptions.model_fields["sandbox"], "Parameters")
]
Benchmarks = Annotated[tuple[str, ...], Parameter(help=f"Only this benchmark. {_SEVERAL}")]
MetricsPort = Annotated[
    int | None,
    Parameter(
        group=WHERE,
        help="Serve metrics of the evaluation for Prometheus on this port of 127.0.0.1 (docs/monitoring.md). Default: "
        "REGRADE_METRICS_PORT, else none.",
    ),
]
Allow = Annotated[
    tuple[Difference, ...],
    Parameter(help=f"Difference between the two sides to allow; others are refused. {_SEVERAL}"),
]


def scoring_options(sandbox: SandboxName | None) -> ScoringOptions:
    """Return the options of scoring with a sandbox, or the default one."""
    return ScoringOptions() if sandbox is None else ScoringOptions(sandbox=sandbox)

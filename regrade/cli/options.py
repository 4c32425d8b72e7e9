"""Options that commands share, and the groups of options in the help."""

import itertools
from functools import cache
from typing import Annotated

from cyclopts import Group, Parameter

from regrade.settings import Difference, SandboxName, ScoringOptions

_numbers = itertools.count(1)


@cache
def help_group(title: str) -> Group:
    """Return the group of options with a title; groups stand in the help in the order in which they are first asked for."""
    return Group(title, sort_key=next(_numbers))


WHAT = help_group("What to evaluate")
for _title in ("What to score", "What to compare", "What to compare, and limits of the verdict"):
    help_group(_title)  # above the options of storage
WHERE = help_group("Storage and output")

Answers = Annotated[
    str | None,
    Parameter(
        group=WHERE,
        help="Answer repository: `hf://datasets/ORG/NAME` or a folder. Default: REGRADE_ANSWERS, else `./answers`.",
    ),
]
TrackingUri = Annotated[
    str | None,
    Parameter(
        group=WHERE,
        help="MLflow server or database. Default: MLFLOW_TRACKING_URI, else SQLite beside the answers.",
    ),
]
Sandbox = Annotated[
    SandboxName | None,
    Parameter(
        help="Sandbox of programs in answers (scorer `code`): `bwrap`, the default, needs bubblewrap and namespaces; "
        "`landlock` needs neither and isolates less (docs/code.md).",
    ),
]
Benchmarks = Annotated[
    tuple[str, ...], Parameter(help="Only this benchmark. May be given several times.")
]
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
    Parameter(
        help="Difference between the two sides to allow; others are refused. May be given several times."
    ),
]


def scoring_options(sandbox: SandboxName | None) -> ScoringOptions:
    """Return the options of scoring with a sandbox, or the default one."""
    return ScoringOptions() if sandbox is None else ScoringOptions(sandbox=sandbox)

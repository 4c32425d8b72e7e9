"""Options of `regrade trigger` for following a run."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from cyclopts import Group, Parameter

from regrade.cli.options import WHERE

RUN = Group("The run", sort_key=0)


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class Following:
    """Options for waiting, and report files."""

    wait: Annotated[
        bool,
        Parameter(group=RUN, help="Follow the run until it ends; the exit code is the verdict."),
    ] = False
    start_timeout: Annotated[
        float,
        Parameter(
            group=RUN,
            help="Seconds to wait for a worker to start the run, before it is cancelled.",
        ),
    ] = 3600.0
    timeout: Annotated[
        float | None,
        Parameter(group=RUN, help="Seconds to wait for the run to end, before it is cancelled."),
    ] = None
    patience: Annotated[
        float, Parameter(group=RUN, help="Seconds for which the Prefect server may be down.")
    ] = 180.0
    id_file: Annotated[
        Path | None,
        Parameter(group=RUN, help="File for the flow run's id, written when the run is created."),
    ] = None
    markdown: Annotated[
        Path | None, Parameter(group=WHERE, help="File for the report as markdown.")
    ] = None
    junit: Annotated[
        Path | None, Parameter(group=WHERE, help="File for the report as JUnit XML.")
    ] = None
    html: Annotated[
        Path | None,
        Parameter(
            group=WHERE,
            help="File for a report to hand on, as `regrade report` writes it, if there is a verdict and this machine may "
            "read the answers.",
        ),
    ] = None

"""Options of `regrade trigger` that say how a run is followed."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from cyclopts import Group, Parameter

from regrade.cli.options import WHERE

RUN = Group("The run", sort_key=0)


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class Following:
    """How a run is followed, and where its reports go."""

    wait: Annotated[
        bool,
        Parameter(
            negative="", group=RUN, help="Follow the run to its end; the exit code is its verdict."
        ),
    ] = False
    start_timeout: Annotated[
        float,
        Parameter(
            group=RUN,
            help="Seconds until a worker has to have taken the run; it is cancelled then.",
        ),
    ] = 3600.0
    timeout: Annotated[
        float | None,
        Parameter(group=RUN, help="Seconds until the run has to have ended; it is cancelled then."),
    ] = None
    patience: Annotated[
        float, Parameter(group=RUN, help="Seconds for which the Prefect server may be away.")
    ] = 180.0
    id_file: Annotated[
        Path | None,
        Parameter(group=RUN, help="File for the flow run's id, written when it exists."),
    ] = None
    markdown: Annotated[
        Path | None, Parameter(group=WHERE, help="File for the report as markdown.")
    ] = None
    junit: Annotated[
        Path | None, Parameter(group=WHERE, help="File for the report as JUnit XML.")
    ] = None

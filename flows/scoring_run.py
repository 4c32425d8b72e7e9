"""Name and final state of a flow run that scores stored answers."""

from typing import Any

from prefect.client.schemas.objects import State
from prefect.runtime import flow_run

from flows.gating import completed
from regrade.jobs.job import FILTERS
from regrade.orchestration.artifacts import name_run
from regrade.results.results import Evaluation
from regrade.results.tables import headline

NAMED = 3
"""Answer sets whose results are the name of a run; more are only counted."""


def run_name() -> str:
    """Name of the flow run: `score <filters>`."""
    parameters = flow_run.parameters
    filters = [parameters.get(name) for name in (*FILTERS, "scorer")]
    unfiltered = "stale scores" if parameters.get("stale") else "all answers"
    return "score " + (", ".join(str(value) for value in filters if value) or unfiltered)


def scored(evaluation: Evaluation) -> State[Any]:
    """Final state of a flow run that scored, with the results of a few answer sets as its message."""
    sets = evaluation.answer_sets
    if not sets:
        return completed("nothing to score", evaluation)
    if len(sets) > NAMED:
        return completed(f"{len(sets)} answer sets scored", evaluation)
    name_run(evaluation)
    return completed(headline(evaluation), evaluation)

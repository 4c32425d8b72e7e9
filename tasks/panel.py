"""Several judges of the same answers: combine their verdicts, and track the result."""

import logging
from collections.abc import Mapping, Sequence

from regrade.answers.base import Repository
from regrade.answers.sets import AnswerSet
from regrade.judging.labels.panels import calibrated_panel
from regrade.judging.panel import panels_at
from regrade.judging.panel_result import PanelResult, panel_result
from regrade.judging.panel_text import agreement_table, judge_table
from regrade.records.rubrics.facts import judge_run
from regrade.text.markdown import markdown
from regrade.tracking.process import call_in_process
from regrade.tracking.sweep import PanelRun, track_panel
from tasks.step import DELAYS, step

logger = logging.getLogger("regrade.judge")


@step("combine judges", delays=DELAYS)
def combine_judges(
    repository: Repository, revision: str, sets: Sequence[AnswerSet]
) -> list[PanelResult]:
    """Combine the verdicts of all judges of the answers that these judge runs are about; none if each has one judge.

    Raises:
        DamagedAnswersError: If verdicts or labels of another judge are damaged.
        HubError: If they cannot be read from the Hub.
    """
    return [
        panel_result(panel, calibrated_panel(panel, chosen))
        for panel, chosen in panels_at(repository, revision, sets)
    ]


@step("track judges", delays=DELAYS)
def track_panels(
    uri: str, results: Sequence[PanelResult], sets: Sequence[AnswerSet], parents: Mapping[str, str]
) -> list[PanelResult]:
    """Track each panel as an MLflow run below the evaluation of the judged model, and return the panels with their runs.

    Args:
        uri: MLflow server or database.
        results: The panels.
        sets: Judge runs of the panels; other answer sets do no harm.
        parents: MLflow run of the evaluation below which an answer set is tracked, by its id.

    Raises:
        TrackingError: If MLflow cannot be reached or rejects a run.
    """
    evaluations = {}
    for answers in sets:
        judge = judge_run(answers.manifest.specification)
        parent = parents.get(answers.manifest.answer_set_id)
        if judge is not None and judge.judged is not None and parent is not None:
            evaluations[judge.judged.answer_set_id] = parent
    tracked = []
    for result in results:
        if result.answer_set_id not in evaluations:  # none of its judges could be scored now
            tracked.append(result)
            continue
        uri_of_answers = sets[0].repository.uri
        run = _run_of(result, evaluations[result.answer_set_id], uri_of_answers)
        run_id = call_in_process(track_panel, uri, run)
        tracked.append(result.model_copy(update={"mlflow_run_id": run_id}))
    return tracked


def _run_of(result: PanelResult, parent: str, repository: str) -> PanelRun:
    parts = (result.answer_set_id, result.rubric_sha256, result.baseline, result.criteria)
    tables = {"judges": judge_table(result), "agreement": agreement_table(result)}
    metrics: dict[str, float | None] = {"unanimous": result.unanimous, "answers": result.answers}
    for combined in result.combined:
        rule = combined.rule
        metrics |= {rule: combined.mean, f"{rule}_stderr": combined.stderr, f"{rule}_n": combined.n}
        figures = combined.calibrated.figures
        metrics |= {f"{rule}_{name}": value for name, value in figures.items()}
    return PanelRun(
        identity="/".join(part[:16] for part in parts if part),
        name=f"{len(result.judges)} judges, {result.rubric} on {result.benchmark}",
        parent_run_id=parent,
        tags={
            "regrade.benchmark": result.benchmark,
            "regrade.rubric": result.rubric,
            "regrade.answer_set": result.answer_set_id,
            "regrade.model": result.model,
            "regrade.judges": ", ".join(judge.judge for judge in result.judges),
            "regrade.repository": repository,
        },
        metrics={name: value for name, value in metrics.items() if value is not None},
        agreement={found.judges: found.equal for found in result.agreement},
        tables={
            name: {"columns": list(table.columns), "data": [list(row) for row in table.rows]}
            for name, table in tables.items()
        },
        note=markdown([tables["judges"]]),
    )

"""`regrade panel`: several judges of the same answers, combined."""

from typing import Any

from regrade.cli.command_list import command
from regrade.cli.options import Answers
from regrade.cli.output import TABLE, Output, open_set
from regrade.judging.labels.calibrated import Calibrated
from regrade.judging.labels.panels import calibrated_panel
from regrade.judging.panel import Panel, one_run_each, panel
from regrade.judging.panel_result import panel_result
from regrade.judging.panel_text import answers_json, blocks
from regrade.settings.errors import SettingsError


@command(group="Grade and read", name="panel", noun="judges")
def show_panel(
    answer_set: str,
    /,
    *,
    rubric: str | None = None,
    without: tuple[str, ...] = (),
    answers: Answers = None,
    output: Output = TABLE,
) -> None:
    """Combine the verdicts of several judges on the same answers, and show how far they agree.

    Args:
        answer_set: The judged answers: id of an answer set (the first digits are enough), model or alias.
        rubric: Only judges with this rubric; needed if there are runs with several.
        without: Judge to leave out, by the name of its model. May be given several times.

    Examples:
        panel 1f0c6a2b
        panel 1f0c6a2b --without org/judge-32b
    """
    found, calibrations = _panel(answer_set, rubric, without, answers)
    result = panel_result(found, calibrations)
    document = {**result.model_dump(mode="json"), "rows": answers_json(found)}
    output.show(document, lambda: blocks(result))


def _panel(
    answer_set: str, rubric: str | None, without: tuple[str, ...], answers: str | None
) -> tuple[Panel, dict[str, Calibrated]]:
    from regrade.judging.readings import judge_sets_of, run_of  # noqa: PLC0415 - after the options are checked

    judged = open_set(answers, answer_set)
    set_id = judged.manifest.answer_set_id
    runs = judge_sets_of(judged.repository, judged.revision, set_id)
    by_rubric: dict[str, list[Any]] = {}
    for run in runs:
        by_rubric.setdefault(run_of(run).rubric.name, []).append(run)
    if rubric is None and len(by_rubric) > 1:
        raise SettingsError(
            f"The answers were judged by several rubrics ({', '.join(sorted(by_rubric))}): choose one with `--rubric`."
        )
    name = rubric or next(iter(by_rubric), "")
    if name not in by_rubric:
        raise SettingsError(
            f"Answer set '{set_id}' has no verdicts{f' by rubric {name!r}' if name else ''}. `regrade judge {set_id} --judge MODEL` "
            "makes some."
        )
    chosen = one_run_each(by_rubric[name], judged)
    if not chosen:
        raise SettingsError(
            f"Answer set '{set_id}' was changed since it was judged. `regrade judge {set_id} --judge MODEL` judges it again."
        )
    combined = panel(chosen, without=without)
    return combined, calibrated_panel(combined, chosen)

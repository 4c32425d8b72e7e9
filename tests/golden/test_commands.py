"""Each command that needs no engine and no server: its document for programs, and its page of 80 columns for people."""

import pytest

from tests.golden.conftest import Door

COMMANDS = {
    "list": "list --answers {answers}",
    "list-judged": "list --answers {judged}",
    "list-of-a-model": "list --answers {answers} --model cand --sort accuracy",
    "show": "show {candidate} --answers {answers} --limit 2",
    "show-incomplete": "show {unfinished} --answers {answers} --limit 1",
    "show-wrong": "show {candidate} --answers {answers} --verdict unparsed",
    "show-worse": "show {candidate} --answers {answers} --against {base} --change worse --limit 1",
    "show-verdicts": "show {a-strict} --answers {judged} --limit 1",
    "diff": "diff {older} --answers {answers} --examples 1",
    "compare": "compare org/base org/candidate --answers {answers} --examples 1",
    "compare-judged": "compare {a-strict} {b-strict} --answers {judged} --examples 1",
    "compare-refused": "compare org/base org/sampled --answers {answers}",
    "gate-pass": "gate org/slow --baseline org/fast --answers {answers} --max-drop 25",
    "gate-regression": "gate org/candidate --baseline org/base --answers {answers} --max-drop 10 --error-rate 40",
    "gate-cannot-tell": "gate org/candidate --baseline org/base --answers {answers} --max-drop 25 --max-unparsed 1",
    "gate-refused": "gate org/sampled --baseline org/base --answers {answers} --max-drop 25",
    "gate-too-few": "gate org/candidate --baseline org/base --answers {answers}",
    "chart-seconds": "chart --answers {answers} --benchmark sums",
    "chart-money": "chart --answers {answers} --benchmark sums --over money --gpu-hour 2.50",
    "panel": "panel {a} --answers {judged}",
    "label-none": "label {a-strict} --answers {judged} --report",
    "verify": "verify --answers {answers}",
    "promote": "promote org/base --answers {answers}",
    "benchmarks": "benchmarks gsm8k",
    "scorers": "scorers",
    "report": "report {candidate} {folder}/new/report.md --answers {answers} --examples 0",
    "export": "export {candidate} {folder}/exported --answers {answers} --format inspect",
    "export-tables": "export {candidate} {folder}/exported --answers {answers} --format every-eval-ever --organization org",
    "error": "show nothing --answers {answers}",
    "error-usage": "list --sort size",
    "error-gate": "gate",
    "error-job": "evaluate --model org/model --benchmark gsm8k --limit 0",
    "publish-nothing": "publish",
}


@pytest.mark.parametrize("name", COMMANDS)
def test_programs_and_people_are_told_the_same_as_ever(name: str, door: Door):
    door.both(name, COMMANDS[name])

"""Results that flows and commands show in several places: the terminal, Prefect, MLflow, files for CI, reports."""

import json
import re
import sqlite3
import sys
from collections import defaultdict
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple
from uuid import UUID

import pytest
from prefect.settings import PREFECT_UI_ENABLED, temporary_settings

from flows import gating, plan_model, run_harness
from regrade.cli import flow_run, plan
from regrade.cli.command_list import COMMANDS
from regrade.cli.output import Output, json_text
from regrade.cli.terminal import TerminalDisplay
from regrade.comparing import noise_text
from regrade.comparing import replay as comparing
from regrade.comparing.gate_report import GateReport
from regrade.comparing.models import Comparisons
from regrade.comparing.replay import Replay, compared
from regrade.exchange.importing.importer import Imports
from regrade.orchestration import artifacts
from regrade.orchestration.deployment import deploy
from regrade.orchestration.deployment.apply import Deployed
from regrade.orchestration.remote.outcome import Outcome
from regrade.results.results import Evaluation, Gated
from regrade.scoring.diff import Diff
from regrade.text.markdown import markdown
from regrade.tracking import track
from regrade.tracking.process import call_in_process
from regrade.tuning.plan.plan import MemoryPlan
from regrade.tuning.search import result as tuning
from tasks import sweep_page as sweeps
from tasks.gate import show_baseline, show_comparisons, show_verdict
from tasks.sweep import track_in_mlflow
from tests.command_line import DEMO
from tests.comparing.test_replay import Stored
from tests.golden.conftest import Door
from tests.golden.golden import FILES, WRITE
from tests.golden.inputs import (
    imported,
    judged,
    label,
    measured_noise,
    of_an_engine,
    planned,
    swept,
    tuned,
    unscored,
)
from tests.stored import tracked_as

VERDICTS = {
    "regression": "gate org/candidate --baseline org/base --answers {answers} --max-drop 10 --error-rate 40",
    "cannot-tell": "gate org/candidate --baseline last-good --answers {answers} --max-drop 25 --max-unparsed 1",
    "labelled": "gate {b-kind} --baseline {a-kind} --answers {judged}",
}
WITHOUT = {
    "view": "serves pages until it is stopped",
    "worker": "runs the flows of a server until it is stopped",
    "completion": "prints a script that cyclopts makes",
}
"""Commands that have no golden files, and why."""


@pytest.fixture
def prefect(door: Door, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The artifacts that were made, as Prefect gets them."""
    made: list[str] = []

    def page(text: str, *, key: str, description: str) -> None:
        made.append(f"-- {key}: {description}\n{text}")

    def table(rows: Any, *, key: str, description: str) -> None:
        made.append(f"-- {key}: {description}\n{json.dumps(rows, indent=1)}")

    monkeypatch.setattr(artifacts, "create_markdown_artifact", page)
    monkeypatch.setattr(artifacts, "create_table_artifact", table)
    for drawing in (artifacts, sweeps):
        monkeypatch.setattr(drawing, "call_in_process", lambda *_: b"a picture")
    return made


def read_labels(door: Door) -> None:
    door.run("label {a-kind} --answers {judged} --sample 24 --out {folder}/labels.csv")
    label(door.folder / "labels.csv", 0, 3, 6, 9, 12)
    door.run("label {a-kind} --answers {judged} --read {folder}/labels.csv --rater ana")


def tracked(database: Path, names: str = "%") -> str:
    """The runs of MLflow with such names: notes, tags, parameters and metrics."""
    parts = []
    with closing(sqlite3.connect(database)) as stored:

        def values(table: str, run: str) -> dict[str, Any]:
            query = f"select key, value from {table} where run_uuid = ? order by key"
            return dict(stored.execute(query, (run,)).fetchall())

        for run, name in stored.execute(
            "select run_uuid, name from runs where name like ?", (names,)
        ).fetchall():
            tags = values("tags", run)
            note = tags.pop("mlflow.note.content", "")
            for of_this_machine in ("mlflow.user", "mlflow.source.name"):
                tags.pop(of_this_machine, None)
            metrics = {
                key: "<seconds>" if key in ("seconds/score", "seconds/track") else value
                for key, value in values("latest_metrics", run).items()
            }
            document = {"tags": tags, "parameters": values("params", run), "metrics": metrics}
            parts.append(f"-- {name}\n{note}\n{json.dumps(document, indent=1, ensure_ascii=False)}")
    return "\n\n".join(sorted(parts))


def test_a_scoring_is_the_same_everywhere(door: Door, prefect: list[str]):
    read_labels(door)
    uri = f"--tracking-uri sqlite:///{door.folder / 'mlflow.db'}"
    scored = door.json("score", f"score --answers {{answers}} --model org/sampled --force {uri}")
    door.run(f"score --answers {{answers}} --stale {uri}")
    judged = door.json("score-judged", f"score --answers {{judged}} --answer-set {{a-kind}} {uri}")
    where = f"--answers {{answers}} {uri}"
    door.run(f"gate org/older --baseline org/base --max-drop 25 {where}")
    door.run(f"promote org/older --alias release {where}")
    door.matches("score.mlflow.txt", tracked(door.folder / "mlflow.db"))
    door.screen("score", f"score --answers {{answers}} {uri}")
    door.screen("score-judged", f"score --answers {{judged}} {uri}")

    for name, ran in {"score": scored, "score-judged": judged}.items():
        document = ran.document
        for answers in document["answer_sets"]:
            answers["seconds"] = dict.fromkeys(answers["seconds"], 0.25)
        artifacts.report(Evaluation.model_validate(document))
        door.matches(f"{name}.prefect.md", "\n".join(prefect))
        prefect.clear()


def test_a_training_in_mlflow(door: Door):
    uri = f"sqlite:///{door.folder / 'mlflow.db'}"
    answers = door.sets["base"]
    (file,) = answers.scores_and_damage()[0]
    for step in (100, 200):
        specified = answers.manifest.specification
        model = specified.model.model_copy(update={"name": f"run/checkpoint-{step}"})
        changes = {"specification": specified.model_copy(update={"model": model})}
        scoring = tracked_as(answers, file, manifest=answers.manifest.model_copy(update=changes))
        call_in_process(track, uri, [scoring])
    stored = tracked(door.folder / "mlflow.db", "%(all checkpoints)")
    door.matches("training.mlflow.txt", stored)


def evaluated(door: Door) -> Evaluation:
    """An evaluation, beside a panel of judges."""
    document = of_an_engine(door.run("score --answers {answers} --model org/fast --json").document)
    return Evaluation.model_validate(document | {"panels": [panel(door)]})


def panel(door: Door) -> dict[str, Any]:
    found = door.run("panel {a} --answers {judged} --json").document
    del found["rows"]
    return found


def followed(found: Evaluation, output: Output) -> Evaluation:
    """Print two models that came, of which the second failed, as their flow does."""
    display = TerminalDisplay(quiet=output.quiet)
    display.report = partial(flow_run._print_followed, output, sys.stdout)
    for model, error in (("org/fast", None), ("org/gone", "The engine ended.")):
        display.came(model, ended=False)
        if error is None:
            display.finished(found)
        display.came(model, error, ended=True)
    return found


def refused(_: Door) -> Evaluation:
    return Evaluation(answer_sets=(), repository="/answers", gate=REGRESSION)


def replayed(door: Door) -> Replay:
    stored = Stored(door.folder / "replayed")
    greedy = stored.logprobs > -2.5
    own = stored.replay(stored.noisy(0.001), stored.noisy(0.001))
    failed = {"error": "Too long.", "error_permanent": True, "token_ids": None}
    other = stored.replay(
        stored.noisy(0.03) - 0.02, model="org/other", greedy=greedy, **{"7": failed}
    )
    found = compared(stored.answers, own, other)
    assert isinstance(found, Replay)
    return found


def harness_page(found: Imports) -> None:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(run_harness.harness, "run_harness", lambda *_: found)
        run_harness.run_and_import.fn(None)


class Flow(NamedTuple):
    """A command whose flow needs an engine, and a result that needed none."""

    command: str
    found: Callable[[Door], Any]
    """Makes the result."""
    page: Callable[[Any], str | None] | None = None
    """Makes the result's artifacts in Prefect, or returns the text of one. None: another case has them."""


REGRESSION = Gated(verdict="regression", summary="regression: sums: -25.00 points, at best -2.61.")
MODEL = DEMO / "regrade-demo"
ASKED = f"--model {MODEL} --benchmark gsm8k --answers {{answers}}"
FLOWS = {
    "evaluate": Flow(f"evaluate {ASKED}", evaluated, artifacts.report),
    "evaluate-regression": Flow(f"evaluate {ASKED} --baseline org/base --max-drop 10", refused),
    "generate": Flow(f"generate {ASKED}", lambda door: unscored(door.folder), artifacts.report),
    "judge": Flow(
        "judge --judge org/judge --answers {judged}",
        lambda door: judged(door.folder, door.sets, panel(door)),
        artifacts.report,
    ),
    "harness": Flow(
        f"harness {MODEL} --answers {{answers}} -- agent {{{{output}}}}",
        lambda door: imported(door.folder),
        harness_page,
    ),
    "sweep": Flow(
        f"sweep {ASKED} --in-flight 1,4", lambda door: swept(door.folder), sweeps.report_sweep
    ),
    "tune": Flow(
        f"tune {ASKED}",
        lambda door: tuned(door.folder),
        lambda found: markdown(tuning.blocks(found)),
    ),
    "noise": Flow(
        f"noise {MODEL} --benchmark gsm8k --answers {{answers}}",
        lambda door: measured_noise(door.folder),
        lambda found: markdown(noise_text.blocks(found)),
    ),
    "replay": Flow(
        "replay {base} --model org/other --answers {answers}",
        replayed,
        lambda found: markdown(comparing.blocks(found)),
    ),
}


@pytest.mark.parametrize("name", FLOWS)
def test_the_result_of_a_flow_is_the_same_everywhere(name: str, door: Door, prefect: list[str]):
    flow = FLOWS[name]
    found = flow.found(door)
    door.of_flow(name, flow.command, found)
    if flow.page is not None:
        page = flow.page(found) or "\n".join(prefect)
        door.matches(f"{name}.prefect.md", page)


def test_each_model_that_comes_is_printed_when_it_is_done(door: Door):
    found = evaluated(door).model_copy(update={"panels": (), "gate": REGRESSION})
    door.of_flow("evaluate-follow", f"evaluate {ASKED} --follow 0", partial(followed, found))


def test_a_page_that_nobody_sees_has_no_plot(door: Door, prefect: list[str]):
    evaluation = judged(door.folder, door.sets, panel(door))
    artifacts.report(evaluation)
    seen = "\n".join(prefect)
    prefect.clear()
    with temporary_settings({PREFECT_UI_ENABLED: False}):  # as of a temporary server
        artifacts.report(evaluation)
    assert "\n".join(prefect) == re.sub(r"!\[accuracy\]\(data:.*\)\n+", "", seen)


def test_a_first_evaluation_creates_the_baseline(
    door: Door, prefect: list[str], monkeypatch: pytest.MonkeyPatch
):
    files = {kind: door.folder / f"first.{kind}" for kind in ("markdown", "junit", "html")}
    options = " ".join(f"--{kind} {path}" for kind, path in files.items())
    nothing = Evaluation(answer_sets=(), repository="/answers")
    door.of_flow("evaluate-first", f"evaluate {ASKED} --max-drop 3 --promote {options}", nothing)
    door.matches("evaluate-first.md", files["markdown"].read_text())
    door.matches("evaluate-first.xml", files["junit"].read_text())
    assert not files["html"].exists()

    monkeypatch.setattr(gating, "show_baseline", show_baseline.fn)
    gating.promote([door.sets["base"]], "last-good", None, first=True)
    door.matches("evaluate-first.prefect.md", "\n".join(prefect))


@pytest.mark.parametrize("name", VERDICTS)
def test_a_verdict_is_the_same_everywhere(name: str, door: Door, prefect: list[str]):
    read_labels(door)
    door.run("promote org/base --alias last-good --answers {answers}")
    files = {kind: door.folder / f"verdict.{kind}" for kind in ("markdown", "junit", "report")}
    options = " ".join(f"--{kind} {path}" for kind, path in files.items())
    ran = door.run(f"{VERDICTS[name]} {options} --examples 1 --json")
    assert files["report"].read_text() == ran.out
    door.matches(f"verdict-{name}.md", files["markdown"].read_text())
    door.matches(f"verdict-{name}.xml", files["junit"].read_text())

    report = GateReport.model_validate(ran.document)
    show_verdict.fn(report)
    door.matches(f"verdict-{name}.prefect.md", "\n".join(prefect))
    matches_trigger(door, name, exit_code=ran.code, gate=report)


def matches_trigger(door: Door, name: str, **fields: Any) -> None:
    """Compare what `regrade trigger` prints and writes for a flow run."""
    run: dict[str, Any] = {
        "deployment": "evaluate-model",
        "flow_run_id": UUID(int=1),
        "name": "happy-fox",
    }
    outcome = Outcome(**run, state="Completed", **fields)
    door.matches(f"trigger-{name}.json", json_text(outcome.document()))
    door.matches(f"trigger-{name}.txt", f"{outcome.markdown()}\n-- \n{outcome.junit()}")


def test_a_flow_run_without_a_verdict(door: Door):
    matches_trigger(door, "failed", exit_code=3, problem="It crashed.")
    created = "baseline created: alias baseline names org/new now"
    matches_trigger(door, "created", exit_code=0, created=created)
    metrics = [{"benchmark": "sums", "accuracy": 0.5}]
    matches_trigger(door, "done", exit_code=0, result="The page.", metrics=metrics)


def test_a_comparison_is_the_same_everywhere(door: Door, prefect: list[str]):
    read_labels(door)
    for name, sides in {
        "compare": "org/base org/candidate --answers {answers}",
        "compare-judged": "{a-kind} {b-kind} --answers {judged}",
    }.items():
        page = door.folder / "comparison.md"
        ran = door.run(f"compare {sides} --examples 1 --markdown {page} --json")
        door.matches(f"{name}.md", page.read_text())
        show_comparisons.fn(Comparisons.model_validate(ran.document))
        door.matches(f"{name}.prefect.md", "\n".join(prefect))
        prefect.clear()


def test_a_diff_of_scorings_in_prefect(door: Door, prefect: list[str]):
    ran = door.run("diff {older} --answers {answers} --examples 1 --json")
    artifacts.report_diffs([Diff.model_validate(ran.document)])
    door.matches("diff.prefect.md", "\n".join(prefect))


def test_a_verdict_to_hand_on(door: Door):
    by_its_id = VERDICTS["regression"].replace("org/candidate", "{candidate}")
    door.run(f"{by_its_id} --examples 1 --html {{folder}}/verdict.html")
    door.matches("verdict-regression.html", (door.folder / "verdict.html").read_text())


@pytest.mark.parametrize("kind", ["md", "html"])
@pytest.mark.parametrize(
    ("name", "what"),
    [
        ("report", "{candidate} {folder}/REPORT --base org/base --examples 3 --answers {answers}"),
        ("report-of-all", "{folder}/REPORT --examples 0 --answers {answers}"),
        (
            "report-judged",
            "{b-kind} {folder}/REPORT --base {a-kind} --examples 1 --answers {judged}",
        ),
    ],
)
def test_a_report_to_hand_on(name: str, what: str, kind: str, door: Door):
    ran = door.run(f"report {what.replace('REPORT', f'report.{kind}')}")
    assert ran.code == 0, ran.err
    door.matches(f"{name}.{kind}", (door.folder / f"report.{kind}").read_text())


def test_a_sweep_in_its_folder_and_in_mlflow(door: Door, prefect: list[str]):
    found = swept(door.folder)
    sweeps.report_sweep(found)
    door.matches("sweep.md", (door.folder / "sweeps" / "sweep.md").read_text())
    uri = f"sqlite:///{door.folder / 'mlflow.db'}"
    track_in_mlflow.fn(uri, found, "org/tiny", str(door.folder / "answers"))
    door.matches("sweep.mlflow.txt", tracked(door.folder / "mlflow.db"))


@pytest.mark.parametrize("fits", [True, False])
def test_a_plan_is_the_same_everywhere(
    fits: bool, door: Door, prefect: list[str], monkeypatch: pytest.MonkeyPatch
):
    found: MemoryPlan = planned(fits=fits)
    for planner in (plan, plan_model):
        monkeypatch.setattr(planner, "make_memory_plan", lambda *_, **__: found)
    name = "plan" if fits else "plan-nothing-fits"
    door.both(name, f"plan {MODEL} --max-model-len 512")
    plan_model.plan_memory.fn(None)
    door.matches(f"{name}.prefect.md", "\n".join(prefect))


def test_what_was_deployed(door: Door, monkeypatch: pytest.MonkeyPatch):
    deployed = (
        Deployed("pool", "gpu", "created", "Concurrent flow runs: 4."),
        Deployed("deployment", "score-answers/score-answers", "updated", changed=["tags", "path"]),
        Deployed("automation", "score published answers", "unchanged"),
    )
    monkeypatch.setattr(deploy, "deploy_project", lambda tell, force: [*map(tell, deployed)])
    monkeypatch.setattr("regrade.cli.deploy.project_folder", lambda: door.folder)
    door.both("deploy", "deploy")


@pytest.mark.skipif(WRITE, reason="not all are written yet")
def test_every_command_has_golden_files():
    kept = defaultdict(set)
    for file in FILES.iterdir():
        names = [name for name in COMMANDS if re.match(f"{name}[-.]", file.name)]
        if names:  # `publish-results.json` is not of `publish`
            kept[max(names, key=len)].add(file.suffix)
    lacking = {name for name in COMMANDS if not {".json", ".txt"} <= kept[name]}
    assert lacking == WITHOUT.keys()

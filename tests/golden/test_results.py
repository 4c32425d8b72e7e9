"""Results that flows and commands show in several places: the terminal, Prefect, MLflow, files for CI, reports."""

import json
import re
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from prefect.settings import PREFECT_UI_ENABLED, temporary_settings

from regrade.cli import noise, plan, replay, sweep, tune
from regrade.cli.terminal import print_blocks
from regrade.comparing import replay as comparing
from regrade.comparing.gate_report import GateReport
from regrade.comparing.models import Comparisons
from regrade.comparing.replay import Replay, compared
from regrade.orchestration import artifacts
from regrade.orchestration.remote.outcome import Outcome
from regrade.results.page import blocks
from regrade.results.results import Evaluation
from regrade.scoring.diff import Diff
from regrade.text.markdown import markdown
from regrade.tuning.plan.plan import MemoryPlan
from regrade.tuning.search import result as tuning
from tasks import plan_memory
from tasks import sweep_page as sweeps
from tasks.gate import show_comparisons, show_verdict
from tasks.sweep import track_in_mlflow
from tests.command_line import DEMO
from tests.comparing.test_replay import Stored
from tests.golden.conftest import Door
from tests.golden.inputs import label, measured_noise, of_an_engine, planned, swept, tuned

VERDICTS = {
    "regression": "gate org/candidate --baseline org/base --answers {answers} --max-drop 10 --error-rate 40",
    "cannot-tell": "gate org/candidate --baseline org/base --answers {answers} --max-drop 25 --max-unparsed 1",
    "labelled": "gate {b-kind} --baseline {a-kind} --answers {judged}",
}


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


def tracked(database: Path) -> str:
    """The runs of MLflow: notes, tags, parameters and metrics."""
    parts = []
    with closing(sqlite3.connect(database)) as stored:

        def values(table: str, run: str) -> dict[str, Any]:
            query = f"select key, value from {table} where run_uuid = ? order by key"
            return dict(stored.execute(query, (run,)).fetchall())

        for run, name in stored.execute("select run_uuid, name from runs").fetchall():
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


def test_an_evaluation_is_the_same_everywhere(door: Door, prefect: list[str]):
    document = of_an_engine(door.run("score --answers {answers} --model org/fast --json").document)
    panel = door.run("panel {a} --answers {judged} --json").document
    del panel["rows"]
    evaluation = Evaluation.model_validate(document | {"panels": [panel]})

    with door.on_screen():
        print_blocks(blocks(evaluation))
    door.matches("evaluation.txt", "\n-- stderr\n".join(door.capfd.readouterr()))
    artifacts.report(evaluation)
    door.matches("evaluation.prefect.md", "\n".join(prefect))

    seen = "\n".join(prefect)
    prefect.clear()
    with temporary_settings(
        {PREFECT_UI_ENABLED: False}
    ):  # as a temporary server: nobody sees its pages
        artifacts.report(evaluation)
    assert "\n".join(prefect) == re.sub(r"!\[accuracy\]\(data:.*\)\n+", "", seen)


@pytest.mark.parametrize("name", VERDICTS)
def test_a_verdict_is_the_same_everywhere(name: str, door: Door, prefect: list[str]):
    read_labels(door)
    files = {kind: door.folder / f"verdict.{kind}" for kind in ("markdown", "junit", "report")}
    options = " ".join(f"--{kind} {path}" for kind, path in files.items())
    ran = door.run(f"{VERDICTS[name]} {options} --examples 1 --json")
    assert files["report"].read_text() == ran.out
    door.matches(f"verdict-{name}.md", files["markdown"].read_text())
    door.matches(f"verdict-{name}.xml", files["junit"].read_text())

    report = GateReport.model_validate(ran.document)
    show_verdict.fn(report)
    door.matches(f"verdict-{name}.prefect.md", "\n".join(prefect))
    door.matches(f"trigger-{name}.txt", triggered(exit_code=ran.code, gate=report))


def triggered(**fields: Any) -> str:
    """What `regrade trigger` prints and writes for a flow run."""
    outcome = Outcome(
        deployment="evaluate-model",
        flow_run_id=UUID(int=1),
        name="happy-fox",
        state="Completed",
        **fields,
    )
    document = json.dumps(outcome.document(), indent=1)
    return "\n-- \n".join([document, outcome.markdown(), outcome.junit()])


def test_a_flow_run_that_could_not_be_run_and_one_without_a_gate(door: Door):
    door.matches("trigger-failed.txt", triggered(exit_code=3, problem="It crashed."))
    metrics = [{"benchmark": "sums", "accuracy": 0.5}]
    door.matches("trigger-done.txt", triggered(exit_code=0, result="The page.", metrics=metrics))


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
    door.run(f"{VERDICTS['regression']} --examples 1 --html {{folder}}/verdict.html")
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


def test_a_sweep_is_the_same_everywhere(
    door: Door, prefect: list[str], monkeypatch: pytest.MonkeyPatch
):
    found = swept(door.folder)
    monkeypatch.setattr(sweep, "run_flow", lambda *_, **__: found)
    where = (
        f"--model {DEMO / 'regrade-demo'} --benchmark gsm8k --in-flight 1,4 --answers {{answers}}"
    )
    door.json("sweep", f"sweep {where}")
    door.screen("sweep", f"sweep {where}")
    sweeps.report_sweep(found)
    door.matches("sweep.prefect.md", "\n".join(prefect))
    uri = f"sqlite:///{door.folder / 'mlflow.db'}"
    track_in_mlflow.fn(uri, found, "org/tiny", str(door.folder / "answers"))
    door.matches("sweep.mlflow.txt", tracked(door.folder / "mlflow.db"))
    door.matches("sweep.md", (door.folder / "sweeps" / "sweep.md").read_text())


def test_a_tuning_is_the_same_everywhere(door: Door, monkeypatch: pytest.MonkeyPatch):
    found = tuned(door.folder)
    monkeypatch.setattr(tune, "run_flow", lambda *_, **__: found)
    where = f"--model {DEMO / 'regrade-demo'} --benchmark gsm8k --answers {{answers}}"
    door.json("tune", f"tune {where}")
    door.screen("tune", f"tune {where}")
    door.matches("tune.prefect.md", markdown(tuning.blocks(found)))


def test_a_noise_floor_is_the_same_everywhere(door: Door, monkeypatch: pytest.MonkeyPatch):
    found = measured_noise(door.folder)
    monkeypatch.setattr(noise, "run_flow", lambda *_, **__: found)
    where = f"noise {DEMO / 'regrade-demo'} --benchmark gsm8k --answers {{answers}}"
    door.json("noise", where)
    door.screen("noise", where)
    door.matches("noise.prefect.md", markdown(noise.blocks(found)))


@pytest.mark.parametrize("fits", [True, False])
def test_a_plan_is_the_same_everywhere(
    fits: bool, door: Door, prefect: list[str], monkeypatch: pytest.MonkeyPatch
):
    found: MemoryPlan = planned(fits=fits)
    for planner in (plan, plan_memory):
        monkeypatch.setattr(planner, "make_memory_plan", lambda *_, **__: found)
    name = "plan" if fits else "plan-nothing-fits"
    where = f"plan {DEMO / 'regrade-demo'} --max-model-len 512"
    door.json(name, where)
    door.screen(name, where)
    plan_memory.plan_memory.fn(None)
    door.matches(f"{name}.prefect.md", "\n".join(prefect))


def test_a_replay_is_the_same_everywhere(door: Door, monkeypatch: pytest.MonkeyPatch):
    stored = Stored(door.folder / "replayed")
    greedy = stored.logprobs > -2.5
    own = stored.replay(stored.noisy(0.001), stored.noisy(0.001))
    failed = {"error": "Too long.", "error_permanent": True, "token_ids": None}
    other = stored.replay(
        stored.noisy(0.03) - 0.02, model="org/other", greedy=greedy, **{"7": failed}
    )
    found = compared(stored.answers, own, other)
    assert isinstance(found, Replay)
    monkeypatch.setattr(replay, "run_flow", lambda *_, **__: found)
    where = f"replay {found.answer_set_id} --model org/other --answers {stored.repository.uri}"
    door.json("replay", where)
    door.screen("replay", where)
    door.matches("replay.prefect.md", markdown(comparing.blocks(found)))

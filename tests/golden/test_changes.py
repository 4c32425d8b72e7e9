"""Commands that change a repository: import, label, promote, publish, score, verify."""

import json
import zipfile
from pathlib import Path

import pytest

from regrade.exchange.exporting.hub_results import TAKING_PART, TakingPart
from tests.exchange.exporting.test_hub_results import Team
from tests.exchange.importing.test_lm_eval import TIME
from tests.golden.conftest import Door
from tests.golden.inputs import label, leave_in_the_spool, of_lm_eval
from tests.hub_server.fixtures import Hub
from tests.stored import commit_manifest


def test_what_was_imported_and_what_was_not(door: Door):
    folder = of_lm_eval(door.folder / "lm_eval")
    (folder / f"samples_other_{TIME}.jsonl").write_text("{broken\n")

    door.json("import", "import {folder}/lm_eval --answers {folder}/imported")
    door.screen("import", "import {folder}/lm_eval --answers {folder}/imported-elsewhere")
    door.both("import-again", "import {folder}/lm_eval --answers {folder}/imported")
    door.both("list-imported", "list --answers {folder}/imported")


def test_labels_correct_the_figure_of_a_judge_everywhere(door: Door):
    door.screen(
        "label-out", "label {a-kind} --answers {judged} --sample 24 --out {folder}/labels.csv"
    )
    label(door.folder / "labels.csv", 0, 3, 6, 9, 12)
    door.screen(
        "label-read", "label {a-kind} --answers {judged} --read {folder}/labels.csv --rater ana"
    )
    door.json("label", "label {a-kind} --answers {judged} --report")
    for name, command in {
        "list-labelled": "list --answers {judged} --model kind",
        "panel-labelled": "panel {a} --answers {judged}",
        "compare-labelled": "compare {a-kind} {b-kind} --answers {judged} --examples 0",
        "gate-labelled": "gate {b-kind} --baseline {a-kind} --answers {judged} --examples 0",
    }.items():
        door.screen(name, command)


def test_what_earlier_runs_left_is_published(door: Door):
    leave_in_the_spool(door.folder)
    door.json("publish", "publish --answers {answers}")
    leave_in_the_spool(door.folder, model="org/left-again")
    door.screen("publish", "publish --answers {answers}")


def test_damaged_answers_are_named(door: Door):
    folder = door.sets["candidate"].folder
    (shard,) = (door.folder / "answers" / folder).glob("*.parquet")
    shard.write_bytes(b"damaged")
    for name, command in {
        "verify-damaged": "verify --answers {answers}",
        "score-damaged": "score --answers {answers} --answer-set {candidate} --force",
        "gate-damaged": "gate org/candidate --baseline org/base --answers {answers} --max-drop 25",
    }.items():
        door.both(name, command)


def test_a_list_leaves_out_what_is_damaged(door: Door):
    base, candidate, slow = (door.sets[name] for name in ("base", "candidate", "slow"))
    repository = base.repository
    (shard,) = candidate.manifest.shards
    (door.folder / "answers" / candidate.folder / shard.name).unlink()
    commit_manifest(base, rows=99)
    (scoring,) = slow.scores()
    damaged = {f"{slow.scores_folder}/{scoring.label}.json": b"{}", "aliases/odd.json": b"{"}
    repository.commit(damaged, "damage", parent=repository.head())
    door.screen("list-damaged", "list --answers {answers}")
    door.json("list-damaged", "list --answers {answers} --model org/slow")


def test_the_card_of_a_repository(door: Door):
    door.matches("card.md", (door.folder / "answers" / "README.md").read_text())
    door.matches("card-judged.md", (door.folder / "judged" / "README.md").read_text())


def test_exported_files(door: Door):
    where = "export {candidate} {folder}/exported --answers {answers} --format"
    tables = door.run(f"{where} every-eval-ever --organization org")
    for path in map(Path, tables.out.split()):
        door.matches(f"export-every-eval-ever{path.suffix}", path.read_text())
    log = Path(door.run(f"{where} inspect").out.strip())
    with zipfile.ZipFile(log) as members:
        named = {
            "header": "header.json",
            "sample": min(n for n in members.namelist() if "samples/" in n),
        }
        for name, member in named.items():
            text = json.dumps(json.loads(members.read(member)), indent=1)
            door.matches(f"export-inspect-{name}.json", text)


def test_results_for_the_page_of_a_model(door: Door, hub: Hub, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(TAKING_PART, "gsm8k", TakingPart("openai/gsm8k", "gsm8k", 100.0, 40))
    team = Team(hub, monkeypatch)
    replaced = {hub.endpoint: "<hub>", hub.user: "<user>", team.evaluate(): "<answer set>"}
    for name, options in {
        "publish-results.json": "--json",
        "publish-results.txt": "",
        "publish-results-committed.json": "--json --commit",
    }.items():
        with door.on_screen():
            text = door.run(f"publish-results {team.model} {options}").out
        for found, placeholder in replaced.items():
            text = text.replace(found, placeholder)
        door.matches(name, text)

from pathlib import Path

import pytest

from regrade.answers.local import LocalRepository
from regrade.answers.sets import AnswerSet
from regrade.comparing.gate import gate
from regrade.comparing.gate_report import tag_candidate
from regrade.scoring.score import score_answers
from regrade.settings import GateSettings
from regrade.tracking import track
from regrade.tracking.connection import connect
from regrade.tracking.labels import move_alias_tag
from regrade.tracking.runs import NOTE
from tests.comparing.sides import answer
from tests.stored import tracked_as

pytestmark = pytest.mark.usefixtures("mlflow_database")


@pytest.fixture
def uri(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'mlflow.db'}"


def tracked(uri: str, answers: AnswerSet) -> AnswerSet:
    file = score_answers(answers, "number").file
    scoring = tracked_as(answers, file)
    track(uri, [scoring])
    return answers


def tags(uri: str, kind: str, model: str) -> dict[str, str]:
    with connect(uri) as client:
        experiment = client.get_experiment_by_name("regrade")
        assert experiment is not None
        where = f"tags.`regrade.kind` = '{kind}' and tags.`regrade.model` LIKE '{model}%'"
        (run,) = client.search_runs([experiment.experiment_id], where)
        return dict(run.data.tags)


def test_a_verdict_stays_where_it_is_and_an_alias_moves(uri: str, tmp_path: Path) -> None:
    repository = LocalRepository(tmp_path / "answers")
    good, bad = (
        tracked(uri, answer(repository, name, right=right))
        for name, right in (("org/good", 400), ("org/bad", 300))
    )
    report = gate("org/bad", GateSettings(baseline="org/good"), answers=repository.uri)

    assert tag_candidate(uri, report) == 1

    assert "regrade.gate" not in tags(uri, "scoring", "org/good")
    assert tag_candidate(uri, report) == 1
    tracked(uri, bad)  # the same numbers
    note = tags(uri, "evaluation", "org/bad")[NOTE]
    assert note.startswith("**Gate:** against org/good: regression")
    assert note.count("**Gate:**") == 1

    assert move_alias_tag(uri, "baseline", {"sums": bad.manifest.answer_set_id}) == 1
    assert move_alias_tag(uri, "baseline", {"sums": good.manifest.answer_set_id}) == 1
    assert tags(uri, "scoring", "org/good")["regrade.alias.baseline"] == "true"
    assert "regrade.alias.baseline" not in tags(uri, "scoring", "org/bad")


def test_without_runs_nothing_is_tagged_and_no_experiment_made(uri: str) -> None:
    assert move_alias_tag(uri, "baseline", {"sums": "0" * 16}) == 0
    with connect(uri) as client:
        assert client.get_experiment_by_name("regrade") is None

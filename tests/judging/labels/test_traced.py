"""Answers as traces on a real MLflow server, and people's feedback on them as labels."""

import json
from pathlib import Path
from typing import Any

import httpx
import pytest

from regrade.answers.labelfile import label_files
from regrade.answers.local import LocalRepository
from regrade.answers.sets import AnswerSet
from regrade.cli.main import run
from regrade.tracking.connection import connect
from regrade.tracking.traces import read_traces
from tests.comparing.sides import answer
from tests.stored import again, score

pytest_plugins = ["tests.mlflow_fixtures"]


@pytest.fixture
def answers(tmp_path: Path, spool_home: Path) -> AnswerSet:
    name = tmp_path.name.replace("_", "-")  # other answers, because the server is shared
    found = answer(LocalRepository(tmp_path / "answers"), f"org/{name}", right=15, total=20)
    score(found)
    return again(found)


class Labelling:
    """`regrade label` of one answer set, and people on MLflow's pages."""

    def __init__(self, server: str, answers: AnswerSet, capfd: pytest.CaptureFixture[str]) -> None:
        self.server, self.answers, self._capfd = server, answers, capfd
        self.set_id = answers.manifest.answer_set_id

    def label(self, *arguments: str) -> tuple[int, str, str]:
        where = ("--answers", self.answers.repository.uri, "--tracking-uri", self.server)
        code = run(["label", self.set_id, *where, *arguments])
        said = self._capfd.readouterr()
        return code, said.out, said.err

    def traces(self) -> list[Any]:
        with connect(self.server) as client:
            experiment = client.get_experiment_by_name("regrade")
            query = f"tags.`regrade.answer_set` = '{self.set_id}'"
            found = client.search_traces(
                locations=[experiment.experiment_id], filter_string=query, max_results=500
            )
            return sorted(found, key=lambda trace: str(trace.info.tags["regrade.sample"]))

    def say(self, trace: Any, value: object, person: str, name: str = "label") -> None:
        """Give feedback as MLflow's page does: by its REST interface."""
        body = {
            "assessment": {
                "assessment_name": name,
                "source": {"source_type": "HUMAN", "source_id": person},
                "feedback": {"value": value},
            }
        }
        path = f"/ajax-api/3.0/mlflow/traces/{trace.info.trace_id}/assessments"
        httpx.post(f"{self.server}{path}", json=body, timeout=60).raise_for_status()


@pytest.fixture
def labelling(
    mlflow_server: str, answers: AnswerSet, capfd: pytest.CaptureFixture[str]
) -> Labelling:
    return Labelling(mlflow_server, answers, capfd)


def test_answers_go_out_as_traces_once_and_feedback_comes_back_as_labels_once(
    labelling: Labelling,
) -> None:
    code, said, _ = labelling.label("--to-mlflow", "--sample", "12")
    assert code == 0
    assert "12 new traces" in said
    traces = labelling.traces()
    assert len(traces) == 12
    (span,) = traces[0].data.spans
    assert span.inputs["question"]
    assert span.outputs["answer"].startswith("It is ")
    named = {(given.name, given.source.source_type) for given in traces[0].info.assessments}
    assert named == {("target", "CODE")}  # the verdict is hidden
    assert labelling.label("--to-mlflow", "--sample", "12")[1].startswith("0 new traces")
    assert labelling.label("--to-mlflow", "--sample", "16")[1].startswith("4 new traces")

    for trace in traces:
        labelling.say(trace, "right", "anna")
    labelling.say(traces[0], False, "ben")
    labelling.say(traces[1], "a comment", "ben", name="remark")
    code, said, err = labelling.label("--from-mlflow", "--json")
    assert code == 0, err
    assert "13 new labels of 13" in err
    document = json.loads(said)
    assert (document["labelled"], document["raters"], document["method"]) == (12, 2, "PPI++")
    [record] = label_files(again(labelling.answers))
    assert record.raters == ("anna", "ben")
    assert (record.sample.seed, record.sample.size, record.sample.population) == (0, 16, 20)

    assert "0 new labels of 13" in labelling.label("--from-mlflow")[2]
    assert len(list(label_files(again(labelling.answers)))) == 1


def test_the_verdict_is_an_assessment_if_it_is_asked_for(labelling: Labelling) -> None:
    assert labelling.label("--to-mlflow", "--sample", "2", "--show-verdict")[0] == 0
    assessed = {
        assessment.name: assessment for assessment in labelling.traces()[0].info.assessments
    }
    given = assessed[labelling.answers.manifest.scorers[0]]
    assert given.source.source_type == "CODE"
    assert given.feedback.value in (0.0, 1.0)


def test_what_is_no_label_or_nobodys_is_named_and_none_is_stored(labelling: Labelling) -> None:
    assert labelling.label("--to-mlflow", "--sample", "3")[0] == 0
    first, second, _ = labelling.traces()
    labelling.say(first, "perhaps", "anna")
    labelling.say(second, "right", "default")

    code, _, err = labelling.label("--from-mlflow")

    assert code == 2
    assert "'perhaps' is no label here: expected" in err
    assert "name the person with `--rater`" in err
    assert not list(label_files(again(labelling.answers)))


def test_feedback_that_was_changed_counts_by_its_newest_value(labelling: Labelling) -> None:
    assert labelling.label("--to-mlflow", "--sample", "1")[0] == 0
    (trace,) = labelling.traces()
    labelling.say(trace, "wrong", "anna")
    labelling.say(trace, "right", "anna")

    found = read_traces(labelling.server, labelling.set_id)

    assert [(given.person, given.value) for given in found.given] == [("anna", "right")]


@pytest.mark.parametrize("value", ["x", "-1", "9" * 5000, "\u0661"])
def test_a_tag_that_somebody_changed_is_named(labelling: Labelling, value: str) -> None:
    from mlflow import MlflowClient

    assert labelling.label("--to-mlflow", "--sample", "1")[0] == 0
    (trace,) = labelling.traces()
    MlflowClient(tracking_uri=labelling.server).set_trace_tag(
        trace.info.trace_id, "regrade.place", value
    )
    code, _, err = labelling.label("--from-mlflow")
    assert code != 0
    assert f"trace '{trace.info.trace_id}' has the tag `regrade.place`" in err.replace("\n", " ")


def test_another_seed_or_a_set_without_traces_is_an_error(labelling: Labelling) -> None:
    assert "has no traces of answer set" in labelling.label("--from-mlflow")[2]
    assert labelling.label("--to-mlflow", "--sample", "2", "--seed", "7")[0] == 0
    code, _, err = labelling.label("--to-mlflow", "--sample", "4")
    assert code != 0
    assert "drawn with seed 7" in err


def test_a_sample_that_is_too_large_for_a_page_is_refused(
    labelling: Labelling, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("regrade.judging.labels.traced.MOST", 3)
    code, _, err = labelling.label("--to-mlflow", "--sample", "4")
    assert code == 2
    assert "`--sample 4` should be at most 3" in err

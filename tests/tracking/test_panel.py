import math
from pathlib import Path

import pytest

from regrade.answers.local import LocalRepository
from regrade.scoring.score import score_answers
from regrade.tracking import track
from regrade.tracking.connection import connect
from regrade.tracking.sweep import PanelRun, track_panel
from tests.comparing.sides import answer
from tests.stored import tracked_as


@pytest.mark.slow
def test_a_figure_that_there_is_no_longer_becomes_nan_and_is_logged_once(tmp_path: Path):
    uri = f"sqlite:///{tmp_path / 'mlflow.db'}"
    answers = answer(LocalRepository(tmp_path / "answers"), "org/candidate", right=3, total=6)
    scoring = tracked_as(answers, score_answers(answers, "number").file)
    parent = track(uri, [scoring]).parent_run_id

    def tracked(**metrics: float) -> str:
        return track_panel(uri, PanelRun("one", "two judges", parent, {}, metrics, {}, {}, ""))

    first = tracked(majority=0.5, mean=0.6)
    assert tracked(mean=0.7) == tracked(mean=0.7) == first

    with connect(uri) as client:
        history = [point.value for point in client.get_metric_history(first, "majority")]
        assert client.get_run(first).data.metrics["mean"] == 0.7
    assert history[0] == 0.5
    assert [math.isnan(value) for value in history[1:]] == [True]

"""`evaluate-model` with a test engine, and real flow, tasks, spool, repository and MLflow."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from threading import Event
from typing import Any

import pytest

import tasks.score
from flows.evaluate_model import evaluate_model
from regrade.answers.sets import AnswerSet
from regrade.engines.vllm import VllmEngine
from regrade.records import Completion, Request
from regrade.results.results import Evaluation
from regrade.scoring.score import score_answers
from regrade.settings.errors import SettingsError
from tests.flows.test_fresh_engine import MortalEngine
from tests.limited_engine import demo_asked

pytestmark = [
    pytest.mark.usefixtures("mlflow_database"),
    pytest.mark.prefect,
    pytest.mark.timeout(300),
]
ROWS = 6


@pytest.fixture
def evaluate(
    flows_on_server: str, spool_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Any:
    def run(*engines: MortalEngine, names: tuple[str, ...] = ("one", "two")) -> Evaluation:
        waiting = iter(engines)
        monkeypatch.setattr(VllmEngine, "open", lambda *_, **__: next(waiting))
        found = evaluate_model(
            **demo_asked(tmp_path, ROWS, *names), tracking_uri=f"sqlite:///{tmp_path / 'mlflow.db'}"
        )
        assert isinstance(found, Evaluation)
        return found

    return run


def test_what_is_missing_is_generated_published_scored_tracked_and_reported(evaluate: Any) -> None:
    first = evaluate(MortalEngine(ROWS + 1), names=("one",))
    again = evaluate(MortalEngine(2), MortalEngine(ROWS + 1))

    (one,) = first.answer_sets
    assert (one.generated, one.rows, one.expected_rows) == (ROWS, ROWS, ROWS)
    assert list(one.seconds) == ["load", "generate", "publish", "score", "track"]
    assert one.seconds["publish"] > 0
    old, new = again.answer_sets
    assert (old.benchmark, old.generated, old.rows) == ("one", 0, ROWS)
    assert (new.benchmark, new.generated, new.rows) == ("two", ROWS, ROWS)  # by both engines
    assert old.mlflow_run_id == one.mlflow_run_id is not None
    assert old.revision == new.revision != one.revision  # all scores in one commit
    for result in (one, old, new):
        (score,) = result.scores
        assert score.metrics["accuracy"] == 1.0
        assert score.mlflow_run_id == result.mlflow_run_id


class Waiting(MortalEngine):
    """Goes on after the first set only when its answers are published and scored."""

    def __init__(self, scored: Event) -> None:
        super().__init__(2 * ROWS + 1)
        self._scored, self.waited = scored, False

    def generate(self, requests: Iterable[Request]) -> Iterator[list[Completion]]:
        for number, batch in enumerate(super().generate(requests)):
            if number == ROWS:
                self.waited = self._scored.wait(120)
            yield batch


def test_a_set_is_published_and_scored_once_while_the_engine_answers_another(
    evaluate: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    scored, rows, score = Event(), [], score_answers

    def seen(answers: AnswerSet, *args: Any, **kwargs: Any) -> Any:
        result = score(answers, *args, **kwargs)
        rows.append((answers.manifest.specification.benchmark.name, answers.manifest.rows))
        scored.set()
        return result

    monkeypatch.setattr(tasks.score, "score_answers", seen)
    monkeypatch.setattr(MortalEngine, "opened", [])
    engine = Waiting(scored)

    results = evaluate(engine).answer_sets

    assert engine.waited
    assert rows == [("one", ROWS), ("two", ROWS)]
    assert [len(result.scores) for result in results] == [1, 1]
    assert len(MortalEngine.opened) == 1


def test_a_benchmark_that_is_asked_for_twice_is_refused(evaluate: Any) -> None:
    with pytest.raises(SettingsError, match="given twice"):
        evaluate(names=("one", "one"))

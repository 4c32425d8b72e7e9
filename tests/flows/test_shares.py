"""Several machines evaluate together: who scores, and what the others say. Real flows, spool and repository."""

import threading
from collections.abc import Iterable, Iterator
from pathlib import Path
from time import sleep
from typing import Any

import pytest

import flows.generate_answers as generating
import flows.generating as opening
from flows.evaluate_model import evaluate_model
from flows.generate_answers import generate_answers
from regrade.answers.sets import AnswerSet
from regrade.answers.spool import Spool
from regrade.engines.vllm import VllmEngine
from regrade.jobs.job import GenerationJob, make_job
from regrade.records import Completion, Request
from regrade.results.results import Evaluation, SomeUnansweredError
from tasks.generate import generate_missing
from tasks.plan import find_missing, plan_answers
from tasks.publish import publish_answers
from tests.flows.test_fresh_engine import MortalEngine
from tests.limited_engine import demo_asked
from tests.stored import sets_in

pytestmark = [
    pytest.mark.usefixtures("mlflow_database"),
    pytest.mark.prefect,
    pytest.mark.timeout(300),
]
ROWS = 12


class Joined(MortalEngine):
    """An engine that calls `meanwhile` after some answers."""

    def __init__(self, after: int, meanwhile: Any) -> None:
        super().__init__(ROWS + 1)
        self.after, self.meanwhile = after, meanwhile

    def generate(self, requests: Iterable[Request]) -> Iterator[list[Completion]]:
        for batch in super().generate(requests):
            yield batch
            if len(self.asked) == self.after:
                self.meanwhile()


class Failing(MortalEngine):
    """An engine that fails the requests of its second half."""

    def generate(self, requests: Iterable[Request]) -> Iterator[list[Completion]]:
        for number, batch in enumerate(super().generate(requests)):
            failed = [Completion(batch[0].key, batch[0].prompt, error="500")]
            yield failed if number >= ROWS // 2 else batch


@pytest.fixture
def parameters(
    flows_on_server: str, spool_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> dict[str, Any]:
    monkeypatch.setenv("REGRADE_PUBLISH_SECONDS", "0.05")
    return demo_asked(tmp_path, ROWS, "one")


@pytest.fixture
def evaluate(parameters: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    def run(share: str | None, engine: MortalEngine) -> Evaluation:
        monkeypatch.setattr(VllmEngine, "open", lambda *_, **__: engine)
        found = evaluate_model(
            **parameters, share=share, tracking_uri=f"sqlite:///{tmp_path / 'mlflow.db'}"
        )
        assert isinstance(found, Evaluation)
        return found

    return run


def another_machine(parameters: dict[str, Any], share: str, rows: int = ROWS) -> None:
    """Generate and publish what is missing, or some rows of it, as a machine with another share does."""
    (work,) = plan_answers.fn(make_job(GenerationJob, {**parameters, "share": share}))
    with work.spool:
        find_missing(work)
        work.requests.rows = work.requests.rows[:rows]
        generate_missing.fn([work], MortalEngine(ROWS + 1), VllmEngine())
        publish_answers.fn(work)


def stored(parameters: dict[str, Any]) -> AnswerSet:
    (found,) = sets_in(Path(parameters["answers"]))
    return found


def test_a_share_that_is_alone_makes_all_answers_and_scores_them(
    evaluate: Any, parameters: dict[str, Any]
):
    (first,) = evaluate("2/2", engine := MortalEngine(ROWS + 1)).answer_sets
    assert (first.generated, first.rows, len(first.scores)) == (ROWS, ROWS, 1)
    assert [str(prompt).count(f"{ROWS // 2}?") for prompt in engine.asked[:1]] == [1]

    (late,) = evaluate("1/2", MortalEngine(0)).answer_sets
    assert (late.generated, late.rows) == (0, ROWS)
    assert late.scores[0].metrics == first.scores[0].metrics
    assert len(stored(parameters).scores()) == 1


def test_a_machine_whose_set_another_one_completes_says_so_and_scores_nothing(
    evaluate: Any, parameters: dict[str, Any], caplog: pytest.LogCaptureFixture
):
    caplog.set_level("INFO", logger="regrade")
    engine = Joined(3, lambda: another_machine(parameters, "2/2"))

    (result,) = evaluate("1/2", engine).answer_sets

    assert (result.rows, result.expected_rows) == (ROWS, ROWS)
    assert result.scores == ()
    assert "The machine whose answers completed it scores it" in caplog.text
    answers = stored(parameters)
    assert answers.manifest.state == "complete"
    assert answers.scores() == []
    rows = [row for batch in answers.batches(["sample_id"]) for row in batch.to_pylist()]
    assert len(rows) == ROWS == len({row["sample_id"] for row in rows})


def test_a_machine_that_completes_the_set_of_several_scores_it(
    evaluate: Any, parameters: dict[str, Any]
):
    another_machine(parameters, "1/2", rows=3)

    (result,) = evaluate("2/2", MortalEngine(ROWS + 1)).answer_sets
    assert (result.generated, result.rows, len(result.scores)) == (ROWS - 3, ROWS, 1)
    assert len(stored(parameters).manifest.sessions) == 2


def test_an_incomplete_set_of_several_machines_is_not_scored(
    evaluate: Any, parameters: dict[str, Any], caplog: pytest.LogCaptureFixture
):
    told = (
        rf"6 of {ROWS} answers missing \(6 failed\)\. The same command sends their requests again\."
    )
    with pytest.raises(SomeUnansweredError, match=told):
        evaluate("1/2", Failing(ROWS + 1))
    assert "the first request that failed: 500" in caplog.text
    answers = stored(parameters)
    assert answers.manifest.state == "incomplete"
    assert answers.scores() == []

    (result,) = evaluate("2/2", MortalEngine(ROWS + 1)).answer_sets  # asks for them again
    assert (result.generated, result.failed, len(result.scores)) == (ROWS // 2, 0, 1)


def test_a_machine_waits_for_another_one_of_this_host_that_publishes_what_it_left(
    evaluate: Any, parameters: dict[str, Any], monkeypatch: pytest.MonkeyPatch
):
    """Tasks of an array that are requeued begin together, and each publishes what it finds in the spools of the others."""
    monkeypatch.setattr(opening, "SPOOL_POLL", 0.1)
    (work,) = plan_answers.fn(make_job(GenerationJob, {**parameters, "share": "1/2"}))
    held, published = threading.Event(), threading.Event()

    def publish() -> None:
        with Spool(work.spool.folder, only_publishes=True):
            held.set()
            sleep(2)
            published.set()

    other = threading.Thread(target=publish)
    other.start()
    assert held.wait(30)
    (result,) = evaluate("1/2", MortalEngine(ROWS + 1)).answer_sets
    other.join()
    assert published.is_set()
    assert (result.generated, result.rows) == (ROWS, ROWS)


def test_only_the_machine_that_completes_a_set_announces_it(
    parameters: dict[str, Any], monkeypatch: pytest.MonkeyPatch
):
    announced: list[int] = []
    monkeypatch.setattr(generating, "answers_published", lambda sets: announced.append(len(sets)))

    def run(share: str, engine: MortalEngine) -> None:
        monkeypatch.setattr(VllmEngine, "open", lambda *_, **__: engine)
        generate_answers(**parameters, share=share)

    run("1/2", Joined(2, lambda: another_machine(parameters, "2/2")))
    assert announced == [0]
    run("1/2", MortalEngine(0))  # complete before: announced again, which scores nothing twice
    assert announced == [0, 1]

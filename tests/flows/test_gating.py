"""`compare-models`, and the gate of `evaluate-model` without generating, with a real Prefect server."""

import logging
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from prefect.client.orchestration import SyncPrefectClient
from prefect.client.schemas.filters import ArtifactFilter, ArtifactFilterFlowRunId
from prefect.client.schemas.objects import State
from pydantic import ValidationError

from flows.compare_models import compare_models
from flows.evaluate_model import evaluate_model
from flows.gating import announce, judge_answers, promote
from flows.scoring import Scorings
from regrade.answers.aliases import move_alias, read_alias
from regrade.answers.local import LocalRepository
from regrade.answers.sets import AnswerSet
from regrade.comparing.beforehand import check_baseline, check_planned, is_first
from regrade.comparing.gate_report import GateReport
from regrade.comparing.models import Comparisons
from regrade.orchestration.artifacts import COMPARISON_KEY, read_report
from regrade.results.results import Evaluation
from regrade.settings import DatasetBenchmark, GateSettings
from regrade.settings.errors import RepositoryError, SettingsError
from tests.comparing.sides import answer
from tests.server_process import free_port
from tests.stored import score

pytestmark = pytest.mark.usefixtures("mlflow_database")
Evaluate = Callable[..., State[Any]]


def test_a_regression_is_a_completed_run_whose_message_names_it(
    repository: LocalRepository, prefect_client: SyncPrefectClient
) -> None:
    answer(repository, "org/good", right=400)
    answer(repository, "org/bad", right=300)

    state = compare_models(
        "org/good", "org/bad", answers=repository.uri, gate=GateSettings(), return_state=True
    )

    assert state.is_completed()
    assert state.message is not None
    assert state.message.startswith("regression: sums: -25.00 points")
    report = state.result()
    assert isinstance(report, GateReport)
    run_id = state.state_details.flow_run_id
    assert run_id is not None
    assert read_report(prefect_client, run_id) == report
    run = prefect_client.read_flow_run(run_id)
    assert run.name == "org/bad against org/good"
    assert run.state is not None
    assert run.state.message == state.message
    of_run = ArtifactFilter(flow_run_id=ArtifactFilterFlowRunId(any_=[run_id]))
    keys = {artifact.key for artifact in prefect_client.read_artifacts(artifact_filter=of_run)}
    assert {COMPARISON_KEY, "gate", "gate-report"} <= keys


def test_without_a_gate_it_compares_and_gives_no_verdict(
    repository: LocalRepository, prefect_client: SyncPrefectClient
) -> None:
    answer(repository, "org/one", right=40)
    answer(repository, "org/other", right=39)

    found = compare_models("one", "other", answers=repository.uri)

    assert isinstance(found, Comparisons)
    assert [comparison.right_to_wrong for comparison in found.compared] == [1]
    answer(repository, "org/third", right=5, benchmark="products")
    with pytest.raises(SettingsError, match="benchmark name: 'sums' against 'products'"):
        compare_models("one", "third", answers=repository.uri)


def test_what_was_just_graded_is_gated_and_not_what_is_newest(
    repository: LocalRepository, prefect_client: SyncPrefectClient, tmp_path: Path
) -> None:
    from prefect import flow

    base = answer(repository, "org/base", right=400)
    move_alias(repository, "baseline", [base])
    scored = answer(repository, "org/new", right=400)
    score(scored)
    answer(repository, "org/new", right=100, n_shots=3)  # newer, with another specification

    @flow
    def gated() -> GateReport:
        uri = f"sqlite:///{tmp_path / 'none.db'}"
        found = judge_answers([scored], GateSettings(), {})
        announce(found, repository.uri, uri)
        return found

    report = gated()

    assert report.verdict == "pass"
    assert not (tmp_path / "none.db").exists()


@pytest.fixture
def evaluated(
    repository: LocalRepository,
    prefect_client: SyncPrefectClient,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> Evaluate:
    """Evaluate a model whose answers are stored: generating needs an engine and does not depend on the gate."""

    def run(
        answers: AnswerSet,
        meanwhile: Callable[[], object] = lambda: None,
        tracking_uri: str = f"sqlite:///{tmp_path / 'mlflow.db'}",
        **gate: Any,
    ) -> State[Any]:
        def generated(_: object) -> list[AnswerSet]:
            meanwhile()
            return [answers]

        monkeypatch.setattr("flows.generating.plan", lambda _: nullcontext([]))
        monkeypatch.setattr("flows.generating.generate", lambda *_, **__: None)
        monkeypatch.setattr("flows.evaluate_model.is_to_be_scored", lambda *_: True)
        monkeypatch.setattr("flows.generating.publish", generated)
        return evaluate_model(
            answers.manifest.specification.model.name,
            datasets=(DatasetBenchmark(name="sums", path="unused"),),
            answers=repository.uri,
            gate=GateSettings.model_validate({"baseline": "last-good", "promote": True, **gate}),
            tracking_uri=tracking_uri,
            return_state=True,
        )

    return run


def against_the_baseline(
    evaluated: Evaluate, repository: LocalRepository, **run: Any
) -> State[Any]:
    """Evaluate a bad model against the alias of a good one, which it does not move."""
    move_alias(repository, "baseline", [answer(repository, "org/good", right=400)])
    bad = answer(repository, "org/bad", right=300)
    return evaluated(bad, baseline="baseline", promote=False, **run)


def test_an_evaluation_with_a_gate_ends_with_the_verdict(
    evaluated: Evaluate, repository: LocalRepository, prefect_client: SyncPrefectClient
) -> None:
    state = against_the_baseline(evaluated, repository)

    assert state.is_completed()
    assert str(state.message).startswith("regression: sums: -25.00 points")
    evaluation = state.result()
    assert isinstance(evaluation, Evaluation)
    assert evaluation.answer_sets[0].scores[0].metrics["accuracy"] == 0.75
    assert _exit_code(prefect_client, state) == 1


def aliased(repository: LocalRepository) -> str | None:
    head = repository.head()
    assert head is not None
    alias = read_alias(repository, head, "last-good")
    return None if alias is None else alias.answer_sets["sums"]


@pytest.mark.slow
def test_the_alias_follows_models_that_pass_and_no_others(
    evaluated: Evaluate, repository: LocalRepository, prefect_client: SyncPrefectClient
) -> None:
    first = answer(repository, "org/first", right=400)
    state = evaluated(first)
    assert str(state.message).endswith("alias last-good names org/first now")
    assert aliased(repository) == first.manifest.answer_set_id

    state = evaluated(first)  # the same job, and an unchanged model
    assert str(state.message) == (
        "pass: sums: The baseline is these answers of org/first: there was nothing to compare; "
        "alias last-good names org/first already"
    )
    assert _exit_code(prefect_client, state) == 0

    worse = answer(repository, "org/worse", right=300)
    state = evaluated(worse)
    assert str(state.message).startswith("regression")
    assert aliased(repository) == first.manifest.answer_set_id

    equal = answer(repository, "org/equal", right=400)
    state = evaluated(equal)
    assert str(state.message).endswith("alias last-good names org/equal now")
    assert aliased(repository) == equal.manifest.answer_set_id

    state = evaluated(first)  # a run that ends late
    assert str(state.message).startswith("pass")
    assert "it names newer answers" in str(state.message)
    assert aliased(repository) == equal.manifest.answer_set_id


def test_of_two_first_models_the_later_one_is_judged(
    evaluated: Evaluate, repository: LocalRepository
) -> None:
    first = answer(repository, "org/first", right=400)
    worse = answer(repository, "org/worse", right=300)

    state = evaluated(worse, lambda: move_alias(repository, "last-good", [first]))

    assert str(state.message).startswith("regression")
    assert aliased(repository) == first.manifest.answer_set_id


def test_of_two_first_models_that_end_at_once_only_one_becomes_the_alias_without_a_verdict(
    evaluated: Evaluate, repository: LocalRepository, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = answer(repository, "org/first", right=400)
    worse = answer(repository, "org/worse", right=300)
    reports: list[tuple[str | None, str | None]] = []
    looks: list[bool] = []

    def look(*given: Any) -> bool:
        looks.append(is_first(*given))
        if len(looks) == 2:  # after the alias was looked up for the last time
            move_alias(repository, "last-good", [first])
        return looks[-1]

    def handed_on(
        scorings: Scorings, uri: str | None, gate: GateSettings | None, verdict: GateReport | None
    ) -> None:
        reports.append((gate and gate.baseline, verdict and verdict.verdict))

    for place in ("regrade.comparing.checking", "flows.evaluate_model"):
        monkeypatch.setattr(f"{place}.is_first", look)
    monkeypatch.setattr("flows.evaluate_model.hand_on", handed_on)
    state = evaluated(worse)

    assert str(state.message).startswith("regression")
    assert aliased(repository) == first.manifest.answer_set_id
    assert looks == [True, True]
    assert reports == [("last-good", "regression")]


def test_an_alias_that_newer_answers_take_meanwhile_is_not_taken_back(
    repository: LocalRepository, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    older = answer(repository, "org/older", right=400)
    newer = answer(repository, "org/newer", right=400)
    commit = repository.commit

    def late(*changes: Any, **options: Any) -> str:
        monkeypatch.setattr(repository, "commit", commit)
        move_alias(repository, "last-good", [newer])
        return commit(*changes, **options)

    monkeypatch.setattr(repository, "commit", late)
    sentence = promote([older], "last-good", f"sqlite:///{tmp_path / 'mlflow.db'}")

    assert "it names newer answers" in sentence
    assert aliased(repository) == newer.manifest.answer_set_id


def test_incomplete_answers_never_become_the_alias(
    evaluated: Evaluate, repository: LocalRepository, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "regrade.gate")
    part = answer(repository, "org/part", right=10, total=10, declared=400)

    evaluated(part)

    assert "alias last-good not moved" in caplog.text
    assert "is incomplete" in caplog.text
    assert aliased(repository) is None


@pytest.mark.parametrize(
    ("gate", "message"),
    [
        ({"baseline": "org/model"}, "cannot be one"),
        ({"base_answers": "/elsewhere"}, "leave `gate.base_answers` empty"),
    ],
)
def test_an_alias_that_cannot_be_moved_is_refused(gate: dict[str, str], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        GateSettings.model_validate({"promote": True, **gate})


@pytest.mark.slow  # retries to reach MLflow
def test_an_mlflow_that_is_gone_costs_no_verdict(
    evaluated: Evaluate, repository: LocalRepository, prefect_client: SyncPrefectClient
) -> None:
    gone = f"http://127.0.0.1:{free_port()}"
    state = against_the_baseline(evaluated, repository, tracking_uri=gone)

    assert state.is_failed()
    assert _exit_code(prefect_client, state) == 1


def _exit_code(prefect_client: SyncPrefectClient, state: State[Any]) -> int | None:
    assert state.state_details.flow_run_id is not None
    report = read_report(prefect_client, state.state_details.flow_run_id)
    return report and report.exit_code


def test_a_baseline_that_is_not_there_is_told_before_anything_begins(
    repository: LocalRepository,
) -> None:
    answer(repository, "org/base", right=4)

    with pytest.raises(RepositoryError, match="regrade promote"):
        check_baseline(GateSettings(), repository.uri, ["sums"])
    with pytest.raises(RepositoryError, match="no complete answers to gsm8k, only to sums"):
        check_baseline(GateSettings(baseline="org/base"), repository.uri, ["gsm8k"])
    loose = GateSettings(baseline="org/base", max_drop=60)
    check_baseline(loose, repository.uri, ["sums", "gsm8k"])


def test_before_anything_is_stored_no_folder_is_blamed(repository: LocalRepository) -> None:
    with pytest.raises(
        SettingsError, match="no baseline 'baseline' yet: nothing is stored"
    ) as told:
        check_baseline(GateSettings(), repository.uri, ["sums"])
    assert "`gate.promote`" in str(told.value)
    with pytest.raises(RepositoryError, match="no such folder"):
        check_baseline(GateSettings(base_answers=repository.uri), repository.uri, ["sums"])


def test_a_gate_that_no_unchanged_model_passes_is_refused_before_anything_begins(
    repository: LocalRepository,
) -> None:
    answer(repository, "org/base", right=400)

    with pytest.raises(SettingsError, match="50 questions cannot show") as told:
        check_baseline(GateSettings(baseline="org/base"), repository.uri, ["sums"], 50)
    assert "at least 299 questions, or accept 6 points" in str(told.value)
    check_baseline(GateSettings(baseline="org/base", max_drop=6), repository.uri, ["sums"], 50)
    check_baseline(GateSettings(baseline="org/base"), repository.uri, ["sums"])
    check_baseline(GateSettings(baseline="org/base", max_drop=0), repository.uri, ["sums"])


def test_what_the_planned_questions_can_show_is_said_or_refused_before_an_engine_starts(
    repository: LocalRepository,
) -> None:
    answer(repository, "org/base", right=400)
    whole = answer(repository, "org/new", right=400).manifest
    few = answer(repository, "org/few", right=50, total=50).manifest
    settings = GateSettings(baseline="org/base", allow=("overlap",))

    (said,) = check_planned(settings, repository.uri, [whole])
    assert "at least 2.8 or 5.5 points while 5 or 20 % of its answers change" in said
    with pytest.raises(SettingsError, match="50 questions cannot show"):
        check_planned(settings, repository.uri, [few])
    # The gate of the runs after the first one would be the same.
    with pytest.raises(SettingsError, match="accept 6 points"):
        check_planned(GateSettings(promote=True), repository.uri, [few], first=True)
    check_planned(GateSettings(promote=True, max_drop=6), repository.uri, [few], first=True)


def test_a_benchmark_that_the_baseline_lacks_is_a_first_run_of_it(
    repository: LocalRepository,
) -> None:
    settings = GateSettings(promote=True)
    assert is_first(settings, repository.uri, ["sums"])
    move_alias(repository, "baseline", [answer(repository, "org/base", right=4)])
    assert not is_first(settings, repository.uri, ["sums"])
    assert not is_first(settings, repository.uri, ["sums", "gsm8k"])
    assert is_first(settings, repository.uri, ["gsm8k"])
    assert not is_first(GateSettings(), repository.uri, ["gsm8k"])

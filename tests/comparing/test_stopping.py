"""A watch on answers while they come: which of them count, when the verdict is sure, and what it refuses."""

from datetime import UTC, datetime
from typing import Any

import pytest

from regrade.answers.local import LocalRepository
from regrade.answers.manifest import Manifest, Stopped
from regrade.answers.sets import AnswerSet
from regrade.comparing.gate import gate
from regrade.comparing.likeness import NotComparableError
from regrade.comparing.sides import Side
from regrade.comparing.stopping import Baseline, Watch
from regrade.records.specification import PromptIdentity
from regrade.settings import GateSettings, SamplingParams, ScoringOptions
from regrade.settings.errors import SettingsError
from tests.builders import description, row
from tests.comparing.sides import TOTAL, answer

SETTINGS = GateSettings(stop_when_sure=True)


def candidate(**changes: Any) -> Manifest:
    """The manifest of a candidate without answers."""
    prompt = PromptIdentity(format="chat", template="{{ question }}", n_shots=0)
    given = {"prompt": prompt, "sampling": SamplingParams(temperature=0.0), **changes}
    described = description(TOTAL, model="org/new", **given)
    return described.manifest((), (), datetime(2026, 1, 1, tzinfo=UTC))


def watch(
    base: AnswerSet, settings: GateSettings = SETTINGS, tests: int = 1, **changes: Any
) -> tuple[Watch, list[dict[str, Any]]]:
    """A watch, and the candidate's rows, all wrong, in the random order."""
    manifest = candidate(**changes)
    found = [row(n, f"#### {n + 1}") for n in range(TOTAL)]
    ids = [entry["sample_id"] for entry in found]
    options = ScoringOptions()
    baseline = Baseline.read(base, manifest, ids, settings, options)
    watching = Watch(baseline, manifest, ids, settings, options, tests=tests)
    by_id = {entry["sample_id"]: entry for entry in found}
    return watching, [by_id[key] for key in watching._order]


def test_answers_count_once_all_before_them_in_the_random_order_are_there(
    repository: LocalRepository,
) -> None:
    watching, rows = watch(answer(repository, "org/base", right=TOTAL))

    watching.add(rows[1:])
    assert watching.look() is None
    watching.add(rows[:1])
    stopped = watching.look()

    assert (stopped.verdict, stopped.of) == ("regression", TOTAL)
    assert stopped.questions < 20


def test_the_number_of_questions_does_not_depend_on_when_one_looks(
    repository: LocalRepository,
) -> None:
    base = answer(repository, "org/base", right=TOTAL)
    at_once, rows = watch(base)
    at_once.add(rows)
    often, _ = watch(base)
    stops = []
    for answered in rows:
        often.add([answered])
        if (stopped := often.look()) is not None:
            stops.append(stopped.questions)
            break

    found = at_once.look()
    assert stops == [found.questions]


def test_more_benchmarks_need_more_evidence_for_a_regression(repository: LocalRepository) -> None:
    base = answer(repository, "org/base", right=TOTAL)
    needed = []
    for tests in (1, 20):
        watching, rows = watch(base, tests=tests)
        watching.add(rows)
        stopped = watching.look()
        needed.append(stopped.questions)

    assert needed[0] < needed[1]


def test_a_rest_that_cannot_change_the_verdict_is_not_asked(repository: LocalRepository) -> None:
    """With a baseline that is nearly always wrong, nothing can be lost."""
    watching, rows = watch(answer(repository, "org/base", right=0))
    watching.add(rows[:1])

    stopped = watching.look()

    assert (stopped.verdict, stopped.questions) == ("pass", 1)


def test_failed_answers_leave_no_pair_and_too_many_of_them_no_verdict(
    repository: LocalRepository,
) -> None:
    watching, rows = watch(answer(repository, "org/base", right=TOTAL))
    failed = [{**kept, "text": None, "error": "500"} for kept in rows[:100]]

    watching.add([*failed, *rows[100:200]])

    assert watching.look() is None  # half of the questions have a value on both sides


def test_repeats_are_waited_for(repository: LocalRepository) -> None:
    base = answer(repository, "org/base", right=TOTAL)
    settings = GateSettings(stop_when_sure=True, allow=("sampling",))
    watching, rows = watch(base, settings, repeats=2)

    watching.add(rows)
    assert watching.look() is None
    watching.add([{**first, "repeat": 1} for first in rows])
    assert watching.look() is not None


def test_what_differs_in_more_than_the_model_is_refused(repository: LocalRepository) -> None:
    base = answer(repository, "org/base", right=TOTAL, n_shots=3)

    with pytest.raises(NotComparableError, match="--allow few_shot"):
        watch(base)


def test_other_questions_than_the_baselines_are_refused(repository: LocalRepository) -> None:
    base = answer(repository, "org/base", right=TOTAL, start=100)

    with pytest.raises(SettingsError, match="300 of its 400 questions by their ids"):
        watch(base)


@pytest.mark.parametrize(
    ("scorer", "says"),
    [("judge", "a judge model grades"), ("lm_eval", "needs all answers of a subset at once")],
)
def test_scorers_of_whole_sets_are_refused(
    repository: LocalRepository, scorer: str, says: str
) -> None:
    base = answer(repository, "org/base", right=TOTAL)
    manifest = candidate(scorers=(scorer,))
    ids = [row(number)["sample_id"] for number in range(TOTAL)]
    known = Baseline(base.manifest.answer_set_id, dict.fromkeys(ids, 1.0), scorer)

    with pytest.raises(SettingsError, match=says):
        Watch(known, manifest, ids, SETTINGS, ScoringOptions(), tests=1)


def test_the_gate_gives_an_early_verdict_and_judges_the_others_with_the_rest_of_the_error_rate(
    repository: LocalRepository,
) -> None:
    """3 losses and no gain of 400 at a drop of 0: p is 1/8. With 5 losses it is 1/32, between half of 5 % and 5 %."""
    base = answer(repository, "org/base", right=TOTAL)
    answer(repository, "org/base", right=TOTAL, benchmark="products")
    new = answer(repository, "org/new", right=TOTAL - 5)
    early = Stopped(verdict="pass", questions=120, of=TOTAL, baseline=base.manifest.answer_set_id)
    side = Side("org/new", {"sums": new}, one_set=False)

    def verdicts(stopped: dict[str, Stopped], **changes: Any) -> dict[str, str]:
        settings = GateSettings(baseline="org/base", max_drop=0, **changes)
        report = gate(side, settings, answers=repository.uri, stopped=stopped)
        return {judged.benchmark: judged.verdict for judged in report.benchmarks}

    assert verdicts({})["sums"] == "regression"
    assert verdicts({}, stop_when_sure=True)["sums"] == "cannot tell"
    assert verdicts({"products": early}, stop_when_sure=True) == {
        "sums": "cannot tell",
        "products": "pass",
    }

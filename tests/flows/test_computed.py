"""Answers that an engine computes otherwise than those before them."""

from collections.abc import Iterable, Iterator
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import pytest

import tasks.generate
from regrade.answers.local import LocalRepository
from regrade.answers.spool import Spool
from regrade.engines.base import EngineInfo
from regrade.jobs.plan import Plan
from regrade.records import Completion, Request
from regrade.records.computed import Computed, Fingerprint
from regrade.settings import Reuse
from regrade.settings.errors import EngineError, SettingsError
from tasks.plan import find_missing
from tasks.publish import publish_answers
from tasks.work import Work, check_computed
from tests.builders import session
from tests.crash.machines import NoArtifact
from tests.sums import SERVER, Answering, plan_of

INFO = EngineInfo("vllm", "0.32.0", "GPU", "bfloat16", 512, None, 1.0)
BEFORE = Computed(dtype="bfloat16", layers=("Fp8LinearMethod",), runner="V2", variables={})


def work(folder: Path, *, mix: bool = False, dtype: str = "bfloat16", known: bool = True) -> Work:
    plan: Plan = plan_of(2)
    made = Work(plan, LocalRepository(folder / "answers"), Spool(folder / "spool"), Reuse(mix=mix))
    made.sessions = (session(computed=BEFORE if known else None, dtype=dtype),)
    return made


def info(**changes: object) -> EngineInfo:
    return replace(INFO, computed=BEFORE.model_copy(update=changes))


def test_answers_computed_otherwise_are_refused_with_the_difference(tmp_path: Path):
    a100 = info(layers=("Fp8LinearMethod, 16-bit activations",))

    with pytest.raises(SettingsError, match="16-bit activations of this engine.*--mix"):
        check_computed(a100, [work(tmp_path)])


def test_they_are_continued_if_asked_for_and_the_difference_is_kept(tmp_path: Path):
    routed = {"VLLM_MOE_ROUTING_SIMULATION_STRATEGY": "uniform_random"}
    mixed = work(tmp_path, mix=True)
    check_computed(info(variables=routed), [mixed])

    assert mixed.mixed == ("VLLM_MOE_ROUTING_SIMULATION_STRATEGY: not set against uniform_random",)


class Learning(Answering):
    """An engine that knows only with the first answer what it computes, as a client of a server does."""

    computed: Computed | None = None

    def generate(self, requests: Iterable[Request]) -> Iterator[list[Completion]]:
        for completions in super().generate(requests):
            self.info = replace(self.info, computed=self.computed)
            yield completions


@pytest.mark.parametrize("learned", [False, True], ids=["before", "with the first answer"])
def test_the_session_that_continued_them_keeps_the_difference(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, learned: bool
):
    monkeypatch.setattr(tasks.generate, "ProgressArtifact", NoArtifact)
    published = []
    for layers, lose in ("Fp8LinearMethod", 2), ("MarlinLinearMethod", 0):
        engine = Learning(lose=lose)
        engine.computed = BEFORE.model_copy(update={"layers": (layers,)})
        engine.info = replace(INFO, computed=None if learned else engine.computed)
        plan, repository = plan_of(4), LocalRepository(tmp_path / "answers")
        with Spool(tmp_path / "spool") as spool:
            made = Work(plan, repository, spool, Reuse(mix=True))
            find_missing(made)
            check_computed(engine.info, [made])
            with pytest.raises(EngineError, match="2 of 4") if lose else nullcontext():
                tasks.generate.generate_missing.fn([made], engine, SERVER)
            publish_answers.fn(made)
        published.append(made.published)

    assert published[-1] is not None
    assert [kept.mixed for kept in published[-1].manifest.sessions] == [
        (),
        ("layers: Fp8LinearMethod against MarlinLinearMethod",),
    ]


def test_what_rounds_otherwise_is_logged_and_continued(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    same = work(tmp_path)
    check_computed(info(runner="V1"), [same])

    assert same.mixed == ()
    assert "computed otherwise than before: runner: V2 against V1" in caplog.text


def test_of_sessions_before_it_was_recorded_the_precision_is_compared(tmp_path: Path):
    check_computed(info(), [work(tmp_path, known=False)])
    with pytest.raises(SettingsError, match="dtype: float32 against bfloat16"):
        check_computed(info(), [work(tmp_path, known=False, dtype="float32")])


def answers_of(logprob: float) -> Fingerprint:
    return (((" 391", logprob), (".", -0.1)),) * 4


def test_a_complete_set_of_a_server_that_answers_otherwise_now_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(tasks.generate, "ProgressArtifact", NoArtifact)

    def planned(fingerprint: Fingerprint, *, mix: bool = False) -> Work:
        plan = plan_of(4)
        plan = replace(plan, model=replace(plan.model, fingerprint=fingerprint))
        spool, repository = Spool(tmp_path / "spool"), LocalRepository(tmp_path / "answers")
        return Work(plan, repository, spool, Reuse(mix=mix))

    first, again = planned(answers_of(-0.2)), planned(answers_of(-0.21))
    with first.spool:
        find_missing(first)
        engine = Answering()
        engine.info = replace(INFO, computed=Computed(fingerprint=answers_of(-0.2)))
        tasks.generate.generate_missing.fn([first], engine, SERVER)
        publish_answers.fn(first)
    with again.spool:
        find_missing(again)
    assert again.published is not None

    overwritten = planned(answers_of(-0.9))
    with overwritten.spool, pytest.raises(SettingsError, match="answers to fixed prompts: those"):
        find_missing(overwritten)
    accepted = planned(answers_of(-0.9), mix=True)
    with accepted.spool:
        find_missing(accepted)
    assert accepted.published is not None

"""Answers that an engine computes otherwise than those before them."""

from dataclasses import replace
from pathlib import Path

import pytest

from regrade.answers.local import LocalRepository
from regrade.answers.spool import Spool
from regrade.engines.base import EngineInfo
from regrade.jobs.plan import Plan
from regrade.records.computed import Computed
from regrade.settings import Reuse
from regrade.settings.errors import SettingsError
from tasks.work import Work, check_computed
from tests.builders import session
from tests.sums import plan_of

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

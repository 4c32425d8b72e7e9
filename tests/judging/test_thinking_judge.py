"""Real vLLM as a judge that thinks: the thought is free, what follows is a verdict. The demo model is no judge: mechanics."""

from pathlib import Path
from typing import Any

import pytest

from regrade.answers.local import LocalRepository
from regrade.answers.origin import begin_session
from regrade.answers.publishing import publish_answers
from regrade.answers.sets import AnswerSet
from regrade.answers.spool import Spool
from regrade.engines.base import Engine, PromptRendering
from regrade.jobs.generate import generate, session_of
from regrade.jobs.plan import Plan, make_plan
from regrade.judging.choosing import judged
from regrade.judging.questions import JudgeQuestions
from regrade.models.base import ResolvedModel
from regrade.records.columns import GENERATION_SCHEMA
from regrade.records.rubrics import open_rubric
from regrade.settings import PromptSettings, SamplingSettings
from tests.engine_fixtures import FAST
from tests.judging.running import verdicts
from tests.judging.scripted import candidates
from tests.reasoning_model import reasoning_model

pytestmark = [pytest.mark.vllm, pytest.mark.slow]
RUBRIC = """---
name: mechanics-%d
verdicts: {yes: 1, no: 0}
explanation: %d
---
Is it so?
{{ answer }}
"""
BUDGET = 6
"""Tokens of a thought; the demo model would not end it by itself."""


def planned(answers: AnswerSet, model: ResolvedModel, folder: Path, explanation: int) -> Plan:
    file = folder / f"rubric-{explanation}.jinja"
    file.write_text(RUBRIC % (explanation, explanation))
    benchmark = JudgeQuestions(judged(answers), open_rubric(str(file)), prompt=PromptSettings())
    sampling = SamplingSettings(thinking_token_budget=BUDGET, max_tokens=200)
    return make_plan(benchmark, model, FAST, sampling=sampling, prompt=PromptSettings(), repeats=1)


def judge(plan: Plan, engine: Engine, repository: LocalRepository, folder: Path) -> AnswerSet:
    with Spool(folder) as spool:
        begin_session(spool, repository.uri, plan.description, session_of(engine, FAST))
        generate(plan.requests(plan.missing(set())), engine, spool, lambda _: None)
        return publish_answers(repository, spool, plan.description)


def test_a_judge_that_thinks_does_so_freely_and_then_gives_a_verdict(
    demo_model: Path, tmp_path: Path
):
    model = FAST.resolve(str(reasoning_model(demo_model, tmp_path / "model", temperature=0.7)))
    repository = LocalRepository(tmp_path / "answers")
    answers = candidates(repository, ["It is 1.", "It is 5.", "It is </think> 3."])
    plans = [planned(answers, model, tmp_path, explanation) for explanation in (0, 30)]
    requests = [plan.requests(plan.missing(set())) for plan in plans]

    with FAST.open(
        model, requests=requests, rendering=PromptRendering(), log=tmp_path / "vllm.log"
    ) as engine:
        sets = [
            judge(plan, engine, repository, tmp_path / f"spool-{number}")
            for number, plan in enumerate(plans)
        ]

    assert all(plan.reasons for plan in plans)
    for judge_set in sets:
        [session] = judge_set.manifest.sessions
        assert str(session.structured_outputs).startswith("xgrammar")
        assert session.reasoning_parser == "qwen3"
        check(judge_set)
    bare, explained = ([row["text"] for row in closed(answer_set)] for answer_set in sets)
    assert set(bare) <= {"yes", "no"}
    assert all(text.startswith('{"explanation": "') for text in explained)


def rows_of(judge_set: AnswerSet) -> list[dict[str, Any]]:
    batches = judge_set.batches(GENERATION_SCHEMA.names)
    return [row for batch in batches for row in batch.to_pylist()]


def closed(judge_set: AnswerSet) -> list[dict[str, Any]]:
    """Rows whose thought ends; the demo model may end its reply within one."""
    return [row for row in rows_of(judge_set) if not row["reasoning_open"]]


def check(judge_set: AnswerSet) -> None:
    """Every reply with a whole thought is a verdict, and one that ends within its thought is none."""
    found = {v.sample_id: v for v in verdicts(judge_set)}
    assert len(closed(judge_set)) >= 2
    for row in rows_of(judge_set):
        verdict = found[row["sample_id"]]
        assert row["reasoning"]
        if row["reasoning_open"]:
            assert (verdict.outcome, verdict.label) == ("truncated", None)
        else:
            assert (verdict.outcome, verdict.label in ("yes", "no")) == ("scored", True)

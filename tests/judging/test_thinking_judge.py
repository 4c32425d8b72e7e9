"""Real vLLM as a judge that thinks: the thought is free, what follows is a verdict. The demo model is no judge: mechanics."""

from pathlib import Path

import pytest

from regrade.answer_plan import Plan, make_plan
from regrade.answers.local import LocalRepository
from regrade.answers.origin import begin_session
from regrade.answers.publishing import publish_answers
from regrade.answers.sets import AnswerSet
from regrade.answers.spool import Spool
from regrade.engines.base import Engine, PromptRendering
from regrade.generation import generate, session_of
from regrade.judging.choosing import judged
from regrade.judging.questions import JudgedAnswers
from regrade.judging.readings import verdicts
from regrade.models import ResolvedModel
from regrade.records import GENERATION_SCHEMA
from regrade.rubrics import open_rubric
from regrade.settings import PromptSettings, SamplingSettings
from tests.engine_fixtures import FAST
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
    benchmark = JudgedAnswers(judged(answers), open_rubric(str(file)), prompt=PromptSettings())
    sampling = SamplingSettings(thinking_token_budget=BUDGET, max_tokens=200)
    return make_plan(benchmark, model, FAST, sampling=sampling, prompt=PromptSettings(), repeats=1)


def judge(plan: Plan, engine: Engine, repository: LocalRepository, folder: Path) -> AnswerSet:
    with Spool(folder) as spool:
        begin_session(spool, repository.uri, plan.description, session_of(engine, FAST))
        generate(plan.requests(plan.missing(set())), engine, spool, lambda _: None)
        judge_set = publish_answers(repository, spool, plan.description)
    assert judge_set is not None
    return judge_set


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
        found = verdicts(judge_set)
        assert [v.outcome for v in found] == ["scored"] * 3
        assert {v.label for v in found} <= {"yes", "no"}
        columns = GENERATION_SCHEMA.names
        rows = [row for batch in judge_set.batches(columns) for row in batch.to_pylist()]
        assert all(row["reasoning"] and not row["reasoning_open"] for row in rows)
    bare, explained = (
        [row["text"] for batch in one.batches(GENERATION_SCHEMA.names) for row in batch.to_pylist()]
        for one in sets
    )
    assert set(bare) <= {"yes", "no"}
    assert all(text.startswith('{"explanation": "') for text in explained)

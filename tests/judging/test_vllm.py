"""Real vLLM as a judge: the demo model is no judge, but each of its replies is a verdict."""

from pathlib import Path

import pytest

from regrade.answers.local import LocalRepository
from regrade.answers.origin import begin_session
from regrade.answers.publishing import publish_answers
from regrade.answers.spool import Spool
from regrade.engines.base import Engine
from regrade.jobs.generate import generate, session_of
from regrade.jobs.plan import make_plan
from regrade.judging.choosing import judged
from regrade.judging.questions import JudgeQuestions
from regrade.models.base import ResolvedModel
from regrade.records.rubrics import open_rubric
from regrade.settings import PromptSettings
from tests.engine_fixtures import FAST
from tests.judging.running import verdicts
from tests.judging.scripted import candidates

pytestmark = pytest.mark.vllm
RUBRIC = """---
name: mechanics
verdicts: {yes: 1, no: 0}
explanation: %d
---
%s is it?
{{ answer }}
"""


@pytest.mark.parametrize("explanation", [0, 30])
def test_every_reply_of_a_constrained_judge_is_a_verdict(
    vllm_engine: Engine, resolved_model: ResolvedModel, tmp_path: Path, explanation: int
):
    file = tmp_path / "rubric.jinja"
    file.write_text(RUBRIC % (explanation, "What"))
    answers = candidates(tmp_path / "answers", ["It is 1.", "It is 5.", "long " * 600])
    benchmark = JudgeQuestions(judged(answers), open_rubric(str(file)), prompt=PromptSettings())
    plan = make_plan(
        benchmark, resolved_model, FAST, sampling=None, prompt=PromptSettings(), repeats=1
    )
    repository = LocalRepository(tmp_path / "answers")
    with Spool(tmp_path / "spool") as spool:
        requests = plan.requests(plan.missing(set()))
        begin_session(spool, repository.uri, plan.description, session_of(vllm_engine, FAST))
        generate(requests, vllm_engine, spool, lambda _: None)
        judge_set = publish_answers(repository, spool, plan.description)

    found = {v.sample_id: (v.outcome, v.label) for v in verdicts(judge_set)}

    assert {label for _, label in found.values()} <= {"yes", "no", None}
    assert found["sample-00001"][0] == found["sample-00002"][0] == "scored"
    assert found["sample-00003"] == ("failed", None)  # longer than the engine's context: never cut

"""Answers of a form by real vLLM, with a model that would write something else."""

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from regrade.engines.base import Engine
from regrade.records import Request, Structure
from regrade.records.rubrics import open_rubric
from regrade.records.rubrics.facts import rubric_facts
from regrade.records.rubrics.forms import structure_of
from regrade.records.rubrics.reading import read_verdict
from regrade.settings import SamplingParams
from tests.engine_fixtures import FAST
from tests.engines.vllm_process.asking import ask, opened

pytestmark = pytest.mark.vllm
QUESTION = ({"role": "user", "content": "What is 2 plus 3?"},)
SCHEMA = {
    "type": "object",
    "properties": {
        "why": {"type": "string", "minLength": 1, "maxLength": 20},
        "verdict": {"enum": ["A", "B"]},
    },
    "required": ["why", "verdict"],
    "additionalProperties": False,
}
CORRECT = open_rubric("correct")
SHORT = replace(CORRECT, fields=(replace(CORRECT.fields[0], explained=100),))  # fits max_tokens
FORMS = (
    None,
    Structure({}, choice=("yes", "not attempted")),
    Structure({}, regex=r"Verdict: (A|B|C)"),
    Structure(SCHEMA),
    structure_of(SHORT),
)


def requests(*forms: Structure | None) -> list[Request]:
    sampling = SamplingParams(max_tokens=350)
    return [Request(key, QUESTION, sampling, structure=form) for key, form in enumerate(forms)]


def texts(engine: Engine, *forms: Structure | None) -> list[str]:
    answers = ask(engine, requests(*forms))
    assert [answer.error for answer in answers] == [None] * len(forms)
    return [str(answer.text) for answer in answers]


def test_an_answer_keeps_to_its_form_and_others_are_free(vllm_engine: Engine):
    free, choice, regex, document, verdict = texts(vllm_engine, *FORMS)

    assert free not in ("yes", "not attempted")
    assert choice in ("yes", "not attempted")
    assert re.fullmatch(r"Verdict: (A|B|C)", regex)
    read = json.loads(document)
    assert list(read) == ["why", "verdict"]
    assert len(document) < 80  # no white space around the members
    assert read_verdict(verdict, rubric_facts(SHORT)) is not None


def test_a_form_that_vllm_refuses_fails_alone(vllm_engine: Engine):
    bad = Structure({}, regex="(")
    refused, fine = ask(vllm_engine, requests(bad, FORMS[2]))

    assert refused.error is not None
    assert fine.error is None


@pytest.mark.slow
def test_the_backend_is_recorded(demo_model: Path, tmp_path: Path):
    planned = requests(FORMS[1])
    with opened(demo_model, tmp_path / "vllm.log", FAST, planned) as engine:
        assert re.fullmatch(r"xgrammar \d+\.\d+\S*", str(engine.info.structured_outputs))
        [answer] = ask(engine, planned)
    assert answer.text in ("yes", "not attempted")

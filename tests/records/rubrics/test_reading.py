"""Verdicts in replies: what counts, and what does not."""

import json
import re
from typing import Any

import pytest

from regrade.records import Structure
from regrade.records.rubrics import RUBRICS, open_rubric
from regrade.records.rubrics.base import Rubric, VerdictField
from regrade.records.rubrics.facts import RubricFacts, rubric_facts
from regrade.records.rubrics.forms import most_tokens, structure_of
from regrade.records.rubrics.reading import read_verdict

CORRECT = rubric_facts(open_rubric("correct"))


def label(reply: str, rubric: RubricFacts = CORRECT) -> str | None:
    reading = read_verdict(reply, rubric)
    return None if reading is None else reading.labels[0]


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        ('{"explanation": "Same year.", "verdict": "A"}', "A"),
        ('```json\n{"explanation": "x", "verdict": "B"}\n```', "B"),
        ("C", "C"),
        (" **B** \n", "B"),
        ("The years differ.\nVerdict: B", "B"),
        ("The years differ.\n**Grade: [C]**", "C"),
        ("CORRECT", "A"),
        ('["A"]', "A"),
        ("INCORRECT", "B"),
        ("not attempted", "C"),
        ('{"explanation": "Someone wrote \\"verdict\\": \\"A\\".", "verdict": "B"}', "B"),
    ],
)
def test_a_verdict_is_read(reply: str, expected: str):
    assert label(reply) == expected


@pytest.mark.parametrize(
    "reply",
    [
        "",
        "CORRECTLY said",
        "A or B",
        "The answer is A bit vague.",
        "D",
        '{"verdict": "D"}',
        '{"verdict": ["A"]}',
        '{"verdict": true}',
        '{"explanation": "verdict: A"}',
        '{"verdict": "A"',
        '["A", "B"]',
        "Verdict: A\nBut on the other hand it may be wrong.",
        "Verdict: A or B",
    ],
)
def test_nothing_else_is_a_verdict(reply: str):
    assert label(reply) is None


PUNCTUATED = rubric_facts(
    Rubric("own", "", "", (VerdictField("verdict", {"[[A]]": 1, "{B}": 0, "-1": -1, "1": 1}),))
)


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        ("[[A]]", "[[A]]"),
        ("**[[A]]**", "[[A]]"),
        ("The years agree.\nVerdict: [[A]]", "[[A]]"),
        ("**Verdict: [[A]]**", "[[A]]"),
        ('{"explanation": "x", "verdict": "[[A]]"}', "[[A]]"),
        ("{B}", "{B}"),
        ("Verdict: -1", "-1"),
        ("Verdict: (-1)", "-1"),
        ("Verdict: (1)!", "1"),
        ("A", None),
        ("{A}", None),
    ],
)
def test_punctuation_of_a_label_belongs_to_it(reply: str, expected: str | None):
    assert label(reply, PUNCTUATED) == expected


def test_all_fields_are_needed():
    facts = rubric_facts(open_rubric("accuracy_style"))
    whole = {"accuracy_explanation": "x", "accuracy": "2", "style_explanation": "y", "style": 3}
    read = read_verdict(json.dumps(whole), facts)
    assert read is not None
    assert read.labels == ("2", "3")
    assert read.explanations == ("x", "y")
    del whole["style"]
    assert read_verdict(json.dumps(whole), facts) is None
    assert read_verdict("2", facts) is None


def test_criteria_must_be_as_many_as_asked():
    facts = rubric_facts(open_rubric("criteria"))
    met = [{"explanation": "x", "met": True}, {"explanation": "y", "met": False}]
    read = read_verdict(json.dumps({"criteria": met}), facts, 2)
    assert read is not None
    assert read.labels == ("true", "false")
    assert read_verdict(json.dumps({"criteria": met}), facts, 3) is None
    assert read_verdict(json.dumps({"criteria": [{"met": "yes"}, {"met": True}]}), facts, 2) is None


def written(structure: Structure, **values: Any) -> str:
    """A reply with all properties of a schema."""

    def member(schema: dict[str, Any], name: str) -> Any:
        if name in values:
            return values[name]
        if schema["type"] == "object":
            return {key: member(inner, key) for key, inner in schema["properties"].items()}
        if schema["type"] == "array":
            return [member(schema["items"], name) for _ in range(schema["minItems"])]
        if schema["type"] == "boolean":
            return True
        return schema["enum"][-1] if "enum" in schema else "Because."

    return json.dumps(member(dict(structure.schema), ""))


@pytest.mark.parametrize("name", RUBRICS)
def test_the_pattern_and_the_schema_of_a_form_allow_the_same_reply(name: str):
    rubric = open_rubric(name)
    count = 3 if rubric.kind == "criteria" else 0
    structure = structure_of(rubric, count)
    reply = written(structure)
    assert re.fullmatch(structure.regex, reply)
    assert read_verdict(reply, rubric_facts(rubric), count) is not None


@pytest.mark.parametrize(
    ("explanation", "fits"),
    [
        ("Because.", True),
        ('It says "B" \\ here, then é 漢.', True),
        ("It says\nB", False),
        ('""""""""" nine', False),
        ('x"' + "x" * 150, True),
        ('x"' + "x" * 151, False),
        ("x" * 600, True),
        ("x" * 601, False),
        ("", False),
        ("   blank first", False),
    ],
)
def test_an_explanation_is_bounded_and_never_blank(explanation: str, fits: bool):
    structure = structure_of(open_rubric("correct"))
    reply = json.dumps({"explanation": explanation, "verdict": "A"}, ensure_ascii=False)
    assert bool(re.fullmatch(structure.regex, reply)) is fits


def test_the_reason_comes_before_the_verdict_in_every_form():
    for name in RUBRICS:
        pattern = structure_of(open_rubric(name), 2).regex
        explained = [m.start() for m in re.finditer("explanation", pattern)]
        labels = [
            m.start() for m in re.finditer('"(?:verdict|accuracy|style|met|rating)":', pattern)
        ]
        assert len(explained) == len(labels)
        assert all(reason < verdict for reason, verdict in zip(explained, labels, strict=True))


def test_there_is_room_for_the_longest_verdict():
    assert most_tokens(open_rubric("correct")) >= 600 + len('{"explanation": "", "verdict": "A"}')
    assert most_tokens(open_rubric("criteria"), 5) == 5 * most_tokens(open_rubric("criteria"), 1)

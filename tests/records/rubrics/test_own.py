"""Rubrics in Jinja files."""

import hashlib
from pathlib import Path

import pytest

from regrade.records.rubrics import RUBRICS, open_rubric
from regrade.records.rubrics.facts import rubric_facts
from regrade.records.rubrics.forms import structure_of
from regrade.records.rubrics.reading import Reading, read_verdict
from regrade.settings.errors import SettingsError, UnknownNameError

POLITE = """---
name: polite
verdicts: {yes: 1, no: 0}
explanation: 50
---
Is this polite?

{{ answer }}
"""


def file(folder: Path, text: str) -> str:
    path = folder / "polite.jinja"
    path.write_text(text)
    return str(path)


def test_a_file_names_its_verdicts_and_their_values(tmp_path: Path):
    rubric = open_rubric(file(tmp_path, POLITE))
    assert (rubric.name, rubric.scale) == ("polite", (0.0, 1.0))
    assert dict(rubric.fields[0].values) == {"yes": 1.0, "no": 0.0}  # not true and false
    assert rubric.template == "Is this polite?\n\n{{ answer }}\n"


def test_a_verdict_without_explanation_is_a_choice(tmp_path: Path):
    rubric = open_rubric(file(tmp_path, POLITE.replace("explanation: 50", "explanation: 0")))
    assert structure_of(rubric).choice == ("yes", "no")


def test_numbers_beyond_shares_are_a_scale(tmp_path: Path):
    rubric = open_rubric(file(tmp_path, POLITE.replace("{yes: 1, no: 0}", "{1: 1, 2: 2, 5: 5}")))
    assert rubric.scale == (1.0, 5.0)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("Is this polite? {{ answer }}", "has no head. It should begin with a line `---`"),
        (POLITE.replace("name: polite", "name: Very Polite"), "`name` should be of the form `"),
        (
            POLITE.replace("{yes: 1, no: 0}", "{yes: 1}"),
            "`verdicts` should have 2 entries or more, not 1",
        ),
        (POLITE.replace("{yes: 1, no: 0}", "{yes: 1, no: 1}"), "all verdicts have the same value"),
        (
            POLITE.replace("{yes: 1, no: 0}", "{yes: good}"),
            "`verdicts.yes` should be a number, not 'good'",
        ),
        (POLITE.replace("explanation", "explaining"), "`explaining` is unknown"),
        (POLITE.replace("name: polite", "name: [polite"), "is not YAML"),
    ],
)
def test_a_head_that_cannot_be_used_is_refused(tmp_path: Path, text: str, says: str):
    with pytest.raises(SettingsError) as error:
        open_rubric(file(tmp_path, text))
    assert says in str(error.value)


FIELDS = """
name: polite
fields: {polite: {verdicts: {yes: 1, no: 0}, pattern: 'polite: (yes|no)'}, grade: {range: [1, 10], pattern: '\\d+'}}
"""
PATTERN = "{yes: 1, no: 0}\npattern: '(?i)polite: (yes|no)'"


@pytest.mark.parametrize(
    ("head", "says"),
    [
        ("verdicts: {yes: 1, no: 0}\npattern: '('", "the pattern '(' is no regular expression"),
        ("explanation: 5", "`verdict` needs `verdicts`, such as `{yes: 1, no: 0}`, or a `range`"),
        ("range: [1, 10]", "a `range` needs a `pattern`"),
        ("verdicts: {yes: 1, no: 0}\npattern: '(?=y)yes'", "the pattern '(?=y)yes' has what RE2"),
        ("verdicts: {yes: 1, no: 0}\npattern: '(yes|no)?'", "'(yes|no)?' matches an empty text"),
        ("range: [10, 1]\npattern: x", "the range of `verdict` is empty"),
        ("verdicts: {yes: 1, no: 0}\nschema: {}", "`schema` is for replies read by a `pattern`"),
        ("verdicts: {yes: 1, no: 0}\nweights: {yes: 3}", "`weights` are for `kind: pairwise`"),
        (
            "verdicts: {yes: 1, no: 0}\nshares: {x: [maybe]}",
            "`shares` names maybe, which is no verdict",
        ),
        (
            "verdicts: {yes: 1, no: 0}\nfields: {a: {verdicts: {yes: 1, no: 0}}}",
            "with `fields`, each of them has its own verdicts",
        ),
        (
            "fields: {a: {verdicts: {yes: 1, no: 0}}, b: {verdicts: {yes: 1, no: 0}, pattern: x}}",
            "all fields need a `pattern`, or none",
        ),
        (
            "kind: pairwise\nverdicts: {A: 1, B: 0}",
            "without a `pattern`, the verdicts of `pairwise` are first, second, tie",
        ),
        ("kind: pairwise\nverdicts: {A: 2, B: 0}\npattern: x", "`pairwise` should be from 0 to 1"),
        (
            "kind: pairwise\nverdicts: {A: 1, B: 0}\npattern: x\nweights: {C: 3}",
            "`weights` should be",
        ),
    ],
)
def test_parts_that_do_not_fit_each_other_are_refused(tmp_path: Path, head: str, says: str):
    with pytest.raises(SettingsError) as error:
        open_rubric(file(tmp_path, f"---\nname: polite\n{head}\n---\n{{{{ answer }}}}\n"))
    assert says in str(error.value)


def test_a_pattern_takes_matches_that_agree_and_a_range_takes_its_numbers(tmp_path: Path):
    facts = rubric_facts(open_rubric(file(tmp_path, POLITE.replace("{yes: 1, no: 0}", PATTERN))))
    assert read_verdict("Polite: YES", facts) == Reading(("yes",))
    assert read_verdict("polite: yes, polite: yes", facts) == Reading(("yes",))
    assert read_verdict("polite: yes, polite: no", facts) is None
    assert read_verdict("Impolite!", facts) is None
    several = rubric_facts(open_rubric(file(tmp_path, f"---{FIELDS}---\n{{{{ answer }}}}\n")))
    assert read_verdict("polite: no, 7", several) == Reading(("no", "7"))
    assert read_verdict("polite: no, 70", several) is None
    assert several.fields[1].value("7") == 7.0


def test_what_decides_verdicts_is_part_of_the_hash(tmp_path: Path):
    published = POLITE.replace("{yes: 1, no: 0}", PATTERN)
    texts = [
        POLITE,
        POLITE.replace("Is this", "Is it"),
        POLITE.replace("no: 0", "no: 0.5"),
        POLITE.replace("{yes: 1, no: 0}", "{no: 0, yes: 1}"),
        POLITE.replace("explanation: 50", "explanation: 50\nreference: true"),
        published,
        published.replace("(?i)", ""),
        published.replace("explanation: 50", "explanation: 50\nwhich: last"),
        published.replace("explanation: 50", "explanation: 50\nfence: true"),
        published.replace("explanation: 50", "explanation: 50\nschema: {type: object}"),
    ]
    hashes = [open_rubric(file(tmp_path, text)).sha256 for text in [*texts, POLITE]]
    assert len({*hashes}) == len(texts)
    assert hashes[-1] == hashes[0]


def test_the_facts_of_the_built_in_rubrics_are_those_of_stored_judge_runs():
    facts = {name: rubric_facts(open_rubric(name)).model_dump_json() for name in RUBRICS}
    digests = {name: hashlib.sha256(text.encode()).hexdigest()[:16] for name, text in facts.items()}
    assert digests == {
        "accuracy_style": "e29931afe84ccfe4",
        "correct": "79a9b29f2b3b2eaf",
        "criteria": "895a097f9e64cf3d",
        "mt_bench": "98946b232c6d635c",
        "pairwise": "799548d4fb2ee120",
    }


def test_an_unknown_rubric_is_refused_with_the_closest():
    with pytest.raises(UnknownNameError, match="Did you mean 'correct'"):
        open_rubric("corect")
    with pytest.raises(SettingsError, match="cannot be read: No such file"):
        open_rubric("nowhere/rubric.jinja")

"""Instructions checked against answers, beside what lm-evaluation-harness says of them."""

import importlib
from typing import Any

import pytest

from regrade.scorers.instructions.checking import _library, check
from tests.scorers.instructions.nltk_folder import nltk_path

INSTRUCTIONS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("change_case:capital_word_frequency", {"capital_frequency": 2, "capital_relation": "less than"}),
    ("change_case:english_capital", {}),
    ("change_case:english_lowercase", {}),
    ("combination:repeat_prompt", {"prompt_to_repeat": "Write two lines."}),
    ("combination:two_responses", {}),
    ("detectable_content:number_placeholders", {"num_placeholders": 2}),
    ("detectable_content:postscript", {"postscript_marker": "P.S."}),
    ("detectable_format:constrained_response", {}),
    ("detectable_format:json_format", {}),
    ("detectable_format:multiple_sections", {"section_spliter": "Section", "num_sections": 2}),
    ("detectable_format:number_bullet_lists", {"num_bullets": 2}),
    ("detectable_format:number_highlighted_sections", {"num_highlights": 1}),
    ("detectable_format:title", {}),
    ("keywords:existence", {"keywords": ["garden", "house"]}),
    ("keywords:forbidden_words", {"forbidden_words": ["garden"]}),
    ("keywords:frequency", {"keyword": "house", "frequency": 2, "relation": "at least"}),
    ("keywords:letter_frequency", {"letter": "e", "let_frequency": 5, "let_relation": "at least"}),
    ("language:response_language", {"language": "de"}),
    ("length_constraints:nth_paragraph_first_word",
     {"num_paragraphs": 2, "nth_paragraph": 2, "first_word": "the"}),
    ("length_constraints:number_paragraphs", {"num_paragraphs": 2}),
    ("length_constraints:number_sentences", {"num_sentences": 3, "relation": "at least"}),
    ("length_constraints:number_words", {"num_words": 12, "relation": "at least"}),
    ("punctuation:no_comma", {}),
    ("startend:end_checker", {"end_phrase": "That is all."}),
    ("startend:quotation", {}),
)  # fmt: skip
ANSWERS = (
    "Sure, here it is:\n\nThe house has a garden. The house is old. Dr. Who lives there.\n\nThat is all.",
    "<<The house>>\n\n*A house* with a [name] and an [address], a GARDEN and a TREE.\n\nP.S. Bye.",
    "das ist ein haus mit einem garten und einem baum, und es ist sehr alt und sehr schön.",
    '{"house": ["garden", "tree"]}',
    "Write two lines.\n* one line\n* another line",
    "Section 1\nThe first.\n***\nSection 2\nthe second house of the house",
    "Here is one.\n******\nAnd another one is here.",
    '"MY ANSWER IS YES."',
    "My answer is maybe.",
    "**My answer is maybe.**\nThat is all.",
    "The first paragraph, of several.\n***\nThe second one.",
    "One\n\nthe two\n\nI hope that helps!",
    "THE WHOLE HOUSE HAS A GARDEN, AND THE TREES OF THE GARDEN ARE VERY OLD.",
    "the whole house has a garden, and the trees of the garden are very old.",
    "One.\n\nThe second one.",
    "   \n",
    "",
)
PROMPT = "Write two lines."
pytestmark = pytest.mark.usefixtures("nltk_data")


def checked(answer: str, *instructions: tuple[str, Any], benchmark: str = "ifeval") -> Any:
    """Return what is said of an answer to a request with instructions: their names and arguments."""
    listed = [{"id": name, "kwargs": given} for name, given in instructions]
    task = {"benchmark": benchmark, "data": nltk_path(), "prompt": PROMPT, "answer": answer}
    return check({**task, "instructions": listed})


def test_every_instruction_of_ifeval_is_here():
    checkers, _ = _library("ifeval", tuple(nltk_path()))

    assert {name for name, _ in INSTRUCTIONS} == set(checkers)


def test_every_answer_is_judged_as_the_harness_judges_it():
    harness = importlib.import_module("lm_eval.tasks.ifeval.utils")
    answers = [*ANSWERS, *(f"{a}\n{b}" for a, b in zip(ANSWERS, ANSWERS[3:], strict=False))]
    names, given = zip(*INSTRUCTIONS, strict=True)
    document = {"key": 1, "prompt": PROMPT, "instruction_id_list": names, "kwargs": given}
    seen = set()
    for answer in answers:
        ours = checked(answer, *INSTRUCTIONS)
        theirs = harness.process_results(document, [answer])

        assert ours["strict"] == theirs["inst_level_strict_acc"], answer
        assert ours["loose"] == theirs["inst_level_loose_acc"], answer
        assert ours["problems"] == []
        seen |= {*zip(names, ours["strict"], strict=True)}
    both = {(name, strict) for name in names for strict in (True, False)}
    assert both - seen == set(), "each instruction is followed by some answers, and not by others"


def test_the_language_of_a_text_is_the_same_every_time():
    asked = ("language:response_language", {"language": "en"})

    assert len({str(checked("no si ok und hotel taxi et la", asked)) for _ in range(20)}) == 1


@pytest.mark.parametrize(
    ("benchmark", "name", "kwargs", "says"),
    [
        ("ifeval", "length_constraints:number_words", {"num_words": 3}, "would draw at random"),
        ("ifeval", "keywords:existence", {}, "would draw at random"),
        ("ifbench", "format:options", {}, "would draw at random"),
        ("ifeval", "combination:repeat_prompt", {}, "prompt_to_repeat must be set"),
        ("ifeval", "punctuation:no_dots", {}, "not known to the installed version"),
        ("ifeval", "punctuation:no_comma", {"x": 1}, "unexpected keyword argument 'x'"),
    ],
)
def test_an_instruction_that_cannot_be_checked_is_unusable(
    benchmark: str, name: str, kwargs: dict[str, Any], says: str
):
    assert says in str(checked("An answer.", (name, kwargs), benchmark=benchmark)["unusable"])


LETTERS = "keywords:letter_frequency"
LETTER = {"let_frequency": 2, "let_relation": "at least"}
SPAN = ("repeat:repeat_span", {"prompt_to_repeat": "one two three", "n_start": 0, "n_end": 2})


@pytest.mark.parametrize(
    ("benchmark", "instruction", "right", "wrong"),
    [
        *(("ifeval", (LETTERS, LETTER | {"letter": n}), f"a {n}t {n}", f"{n}t") for n in "#!É"),
        ("ifbench", SPAN, "One two", "two three"),
    ],
)
def test_an_argument_that_the_library_ignores_is_checked(
    benchmark: str, instruction: tuple[str, Any], right: str, wrong: str
):
    for answer, follows in ((right, True), (wrong, False)):
        assert checked(answer, instruction, benchmark=benchmark)["strict"] == [follows]


def test_an_answer_on_which_a_checker_fails_does_not_follow_the_instruction():
    result = checked("[" * 100_000, ("detectable_format:json_format", {}))

    assert (result["strict"], result["loose"]) == ([False], [False])
    assert "RecursionError" in str(result["problems"])


def test_nothing_is_downloaded(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("nltk.download", lambda *_, **__: pytest.fail("a download"))
    _library.cache_clear()

    assert len(_library("ifbench", tuple(nltk_path()))[0]) == 58

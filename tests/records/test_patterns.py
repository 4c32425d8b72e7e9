"""Patterns over what models wrote are searched by RE2, and find what Python's `re` finds."""

import ast
import random
import re
import sys
import unicodedata
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType

import pytest

import regrade
from regrade.records import patterns
from regrade.records.patterns import PatternError, compiled
from tests.scorers.test_linear_patterns import Use, texts, uses

ROOT = Path(regrade.__file__).parent
WITH_RE = {
    "judging/labels/sheet.py": "nothing: the type of a match",
    "judging/questions.py": "100 characters, and templates of rubrics",
    "records/rubrics/family.py": "names of models",
    "records/rubrics/forms.py": "labels of rubrics",
    "records/rubrics/own.py": "files of rubrics",
    "records/rubrics/reading.py": "a line of 200 characters",
    "scorers/extraction/canonical.py": "numbers of 60 characters",
    "scorers/extraction/continuing.py": "prompts and their templates",
    "scorers/mathematics/latex.py": "5,000 characters: the longest answer that is read",
    "scorers/programs/reading.py": "the name of a function, to write a pattern",
    "scorers/user_functions/files.py": "names of scorers in files",
    "pages/viewer/formatted.py": "names of elements",
    "pages/viewer/parameters.py": "parameters of an address",
    "pages/viewer/settings_apart.py": "names of settings",
    "text/hidden.py": "any text, for one class of characters",
    "text/markdown.py": "any text, for one class of characters",
}
"""Modules of the rooms that read answers which use `re`, and what their patterns see."""
SEARCHED = [use for use in uses() if use.searched is not None]
CHARACTERS = "aé1\u0661 \n\t_.,;:$\\{}()[]|`~-+=/*^%'\"#AQ\u2028\x1c\x85\u0130\u0131\U0001f600"


def test_in_rooms_that_read_answers_re_sees_bounded_texts_and_those_of_others() -> None:
    found = {
        path.relative_to(ROOT).as_posix()
        for room in ("scorers", "judging", "records/rubrics", "text", "pages")
        for path in (ROOT / room).rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Import) and {"re", "regex"} & {one.name for one in node.names}
    }

    assert found == set(WITH_RE)


@pytest.mark.parametrize("use", SEARCHED, ids=lambda use: f"{use.place} {use.method}")
def test_a_pattern_finds_what_re_finds(use: Use) -> None:
    ours, theirs = use.searched, use.pattern
    assert ours is not None
    drawn = random.Random(0)
    for text in texts(theirs, 40):
        for given in (
            text(30),
            "".join(drawn.choices([*text(12), *CHARACTERS], k=drawn.randint(0, 25))),
        ):
            if use.method in ("finditer", "findall", "sub"):
                found = [(one.span(), one.groups()) for one in ours.finditer(given)]
                assert found == [(one.span(), one.groups()) for one in theirs.finditer(given)]
            else:
                one, other = getattr(ours, use.method)(given), getattr(theirs, use.method)(given)
                assert (one and (one.span(), one.groups())) == (
                    other and (other.span(), other.groups())
                ), given


@pytest.mark.parametrize(
    "pattern",
    [r"\w", r"\d", r"\s", r"\W", r"\D", r"\S", r"[^\W\d_]", r"[^\W\d]", r"[\w.]", r"[^\w\s]"],
)
def test_a_class_of_characters_is_that_of_re(pattern: str) -> None:
    every = "".join(map(chr, [*range(0xD800), *range(0xE000, sys.maxunicode + 1)]))
    assert compiled(pattern).findall(every) == re.findall(pattern, every)
    assert compiled(pattern).findall(every[:128]) == re.findall(pattern, every[:128])


def test_no_letter_digit_or_space_lies_beyond_those_that_are_asked() -> None:
    beyond = map(chr, range(patterns._MOST_CHARACTERS, sys.maxunicode + 1))
    assert {unicodedata.category(one) for one in beyond} <= {"Cn", "Co", "Cf", "Mn"}


def test_an_end_of_a_pattern_is_that_of_re() -> None:
    for pattern in ("a$", r"a\Z", "(?m)a$", "(?m)^a"):
        for text in ("a", "a\n", "a\nb", "ba\na\n", "é\na"):
            found = re.search(pattern, text)
            ours = compiled(pattern).search(text)
            assert (ours and ours.start()) == (found and found.start()), (pattern, text)


@pytest.mark.parametrize(
    "pattern", [r"(a)\1", "a*+b", "(?=a)ab", "(?<!ab)c", "(?>a)", r"[^\Wa]", "a{1001}", "(?x) a"]
)
def test_what_re2_cannot_search_for_is_refused_and_never_searched_with_re(pattern: str) -> None:
    with pytest.raises(
        PatternError, match="has what RE2, which searches in linear time, does not know"
    ):
        compiled(pattern).search("ab")


def test_a_text_that_is_no_pattern_is_refused() -> None:
    with pytest.raises(PatternError, match="is no regular expression: missing"):
        compiled("(").search("a")


@pytest.mark.parametrize("pattern", ["a*", "a|", "^", "$", r"\b", "(a?)"])
def test_all_matches_of_a_pattern_that_matches_nothing_are_refused(pattern: str) -> None:
    """In a text that is not ASCII, pyre2 would go on in the midst of a character."""
    with pytest.raises(PatternError, match="matches an empty text"):
        compiled(pattern).findall("éa")


def test_google_s_module_of_the_same_name_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    other = ModuleType("re2")
    other.__file__ = "/lib/re2/__init__.py"
    monkeypatch.setitem(sys.modules, "re2", other)
    with pytest.raises(ImportError, match="Uninstall google-re2"):
        compiled("only once here").search("a")


def test_threads_search_at_once() -> None:
    pattern = compiled(r"(\w+)é(\d+)")
    given = [f"aé{number} " * 20 for number in range(50)]
    expected = [pattern.findall(text) for text in given]
    with ThreadPoolExecutor(8) as pool:
        assert all(list(pool.map(pattern.findall, given)) == expected for _ in range(5))

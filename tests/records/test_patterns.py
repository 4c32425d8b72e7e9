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
    "names of models, files, folders, commits, scorers and settings": "answers/aliases answers/content answers/hub answers/local_files "
    "answers/local_history answers/opening answers/parquet answers/spool benchmarks/questions/hub_source benchmarks/questions/sources "
    "checkpoints/found checkpoints/training/evaluations cli/publish_results engines/vllm_process/allowed engines/vllm_process/computed engines/vllm_process/environment "
    "engines/vllm_process/hardware engines/vllm_process/meta_model engines/vllm_process/parsers engines/vllm_process/settings exchange/exporting/inspect_log "
    "exchange/importing/building exchange/importing/handbook exchange/importing/lighteval exchange/importing/lm_eval "
    "exchange/importing/mmlu_pro models/files models/local models/patterns processes/sandbox/inside/plain records/rubrics/family "
    "records/rubrics/forms records/specification scorers/programs/reading scorers/user_functions/files scoring/batches scoring/diff_sides "
    "settings/registry settings/turn_ids stats/metrics tracking/scoring tracking/sweep tuning/plan/gpus "
    "tuning/sweep/points pages/viewer/formatted pages/viewer/settings_apart",
    "what a user writes: options, parameters, patterns, rubrics": "cli/checking cli/commands cli/job_options engines/openai_api/addresses "
    "exchange/importing/record jobs/shares judging/questions pages/viewer/parameters processes/metrics_endpoint records/patterns "
    "records/rubrics/own settings/model_pattern settings/settings settings/worker_limits tracking/connection",
    "questions, prompts, their templates, and pages about answers": "answers/overview benchmarks/gsm8k benchmarks/mbpp_plus "
    "benchmarks/mmlu_pro benchmarks/questions/problems benchmarks/questions/targets benchmarks/questions/visual benchmarks/realworldqa "
    "engines/vllm_process/prompts lm_eval/requests models/chat_template records/images scorers/extraction/continuing",
    "errors, logs and headers of servers and engines, of bounded length": "answers/hub_http engines/openai_api/bodies "
    "engines/openai_api/transport engines/vllm_process/logs hub/client models/served orchestration/remote/access",
    "an address of an image, for its beginning": "exchange/importing/messages",
    "reasons of a gate, for one class of characters": "comparing/junit",
    "nothing: the type of a match": "judging/labels/sheet scorers/mathematics/latex",
    "8 bytes": "processes/sandbox/inside/frames",
}
"""Texts that patterns of Python's `re` search, none of which a model wrote, and the modules with such patterns."""
CHARACTERS = "aé1\u0661 \n\t_.,;:$\\{}()[]|`~-+=/*^%'\"#AQ\u2028\x1c\x85\u0130\u0131\U0001f600"


def test_no_text_of_a_model_is_searched_with_re() -> None:
    found = [
        path.relative_to(ROOT).with_suffix("").as_posix()
        for path in ROOT.rglob("*.py")
        if re.search(r"(?m)^\s*import\b.*\bre", source := path.read_text(encoding="utf-8"))
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Import) and {"re", "regex"} & {alias.name for alias in node.names}
    ]

    assert sorted(found) == sorted(" ".join(WITH_RE.values()).split())


def test_modules_with_the_type_of_a_match_search_for_nothing() -> None:
    for module in WITH_RE["nothing: the type of a match"].split():
        used = {
            node.attr
            for node in ast.walk(ast.parse((ROOT / f"{module}.py").read_text(encoding="utf-8")))
            if isinstance(node, ast.Attribute)
            and isinstance(node.value, ast.Name)
            and node.value.id == "re"
        }
        assert used == set(), module  # in an annotation that is a text


def test_a_pattern_finds_what_re_finds(capfd: pytest.CaptureFixture[str]) -> None:
    searched = [use for use in uses() if use.searched is not None]
    assert len(searched) > 50
    for use in searched:
        finds_what_re_finds(use)
        # RE2 says on stderr which pattern is too large for its automaton.
        assert capfd.readouterr().err == "", use.place


def finds_what_re_finds(use: Use) -> None:
    ours, theirs, place = use.searched, use.pattern, f"{use.place} {use.method}"
    assert ours is not None
    drawn = random.Random(0)
    for text in texts(theirs, 40):
        for given in (
            text(30),
            "".join(drawn.choices([*text(12), *CHARACTERS], k=drawn.randint(0, 25))),
        ):
            if use.method in ("finditer", "findall", "sub"):
                found = [(match.span(), match.groups()) for match in ours.finditer(given)]
                expected = [(match.span(), match.groups()) for match in theirs.finditer(given)]
                assert found == expected, (place, given)
            else:
                one, other = getattr(ours, use.method)(given), getattr(theirs, use.method)(given)
                assert (one and (one.span(), one.groups())) == (
                    other and (other.span(), other.groups())
                ), (place, given)
    getattr(ours, use.method)(*[lambda _: ""] * (use.method == "sub"), "aé1 <_" * 400)


@pytest.mark.parametrize(
    "pattern",
    [r"\w", r"\d", r"\s", r"\W", r"\D", r"\S", r"[^\W\d_]", r"[^\W\d]", r"[\w.]", r"[^\w\s]"],
)
def test_a_class_of_characters_is_that_of_re(pattern: str) -> None:
    every = "".join(map(chr, [*range(0xD800), *range(0xE000, sys.maxunicode + 1)]))
    runs = f"{pattern}+"  # of neighbours in a text that has each character once
    for text in (every, every[:128]):
        assert compiled(runs).findall(text) == re.findall(runs, text)


def test_no_letter_digit_or_space_lies_beyond_those_that_are_asked() -> None:
    beyond = map(chr, range(patterns._MOST_CHARACTERS, sys.maxunicode + 1))
    assert {unicodedata.category(character) for character in beyond} <= {"Cn", "Co", "Cf", "Mn"}


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

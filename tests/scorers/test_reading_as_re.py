"""RE2 and code read what the patterns of Python's `re` that they replace read, with look-around and possessive repetition."""

import json
import re
import unicodedata
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
from hypothesis import example, given, settings
from hypothesis import strategies as st
from markupsafe import escape

from regrade.judging.labels import sheet
from regrade.judging.questions import without_control_tokens
from regrade.records.rubrics import reading as verdicts
from regrade.scorers import literal
from regrade.scorers.extraction.pieces import Pieces
from regrade.scorers.extraction.slots import LONGEST
from regrade.scorers.mathematics import latex, reading
from regrade.scorers.programs import reading as programs
from regrade.text import hidden, markdown
from regrade.text.text import visible

NUMBER = re.compile(
    r"(?<![\w.\\^])[-\u2212]?\s?\\?[$€£¥₹]?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?(?:\s?/\s?\d+(?:\.\d+)?)?(?:\s?\\?%)?(?!(?:[^\W\d]|[/^])*+\d)"
)
FORMULA = re.compile(r"(\$\$|\\[\[(])|(?<![\\$])\$(?!\s)([^$\n]++)(?<![\\\s])\$(?!\d)")
SENTENCE_END = re.compile(r"(?<=[A-Za-z0-9)\]}$%*])[.!?](?=\s|[*\"')\]]*\s|[*\"')\]]*\Z)|\n")
REASON = re.compile(
    r"(?:[,;]|(?<!\s))\s++\(?(?:because|since|as|where|when|given|if|so that|which)\b"
)
COMMAND = re.compile(
    r"\\[A-Za-z]+\*?|\b(?:sqrt|pi|sin|cos|tan|cot|sec|csc|log|ln|exp|inf|infinity|or|and|mod)\b"
)
WORD = re.compile(r"[^\W\d_]{2,}")
LIST = re.compile(
    r"(?:[\s$,;.&]|\\[()\[\],;! ]|\\q?quad|\\text\{[\s,]*(?:and|or)[\s,]*\}|\b(?:and|or)\b)*"
)
JOINS = re.compile(r"[,;&]|\b(?:and|or)\b")
BOX = re.compile(r"\\f?boxed\s*(?=[{\w])")
BRACES = re.compile(r"\\.|[{}]", re.DOTALL)
HASHES = re.compile(r"####[ \t]*(?P<line>[^\n]{0,200})")
FENCE = re.compile(
    r"^(?P<indent>[ \t]*+)(?P<fence>`{3,}+|~{3,}+)[ \t]*+(?P<language>[^\s`]*+)[^\n`]*+$",
    re.MULTILINE,
)
INDENTATION = re.compile(r"(?:[ \t]*+\n)*+[ \t]++(?=\S)")
DEFINITION = re.compile(
    r"^(?:(?:async[ \t]+)?def[ \t]+f\b|class[ \t]+f\b|f[ \t]*(?::[^\n=]*)?=[^=])", re.MULTILINE
)
TOKEN = re.compile(r"(?:[^\s,;.]|[.,;](?=\S))+")
FORMULA_WITHIN = re.compile(r"(?<=[\r\n;\t])(?=[ \t]*[=+\-@])")
CONTROL_TOKEN = re.compile(
    r"<(?=[|\uFF5C]|<?/?(?:s|bos|eos|eod|pad|unk|mask|sep|cls|sop|eop|think(?:ing)?|tools?|image|img|audio|video|SYS"
    r"|unused\d{1,6}|seed:\w{1,40}|channel|turn|\w{0,40}_\w{0,40})[|\uFF5C]?>)"
    r"|\[(?=\||e~\[|/?[A-Za-z]{0,20}[A-Z]{2}[A-Z_0-9]{0,40}\]|control_\d{1,6}\])"
    r"|\](?=~!?b[\[\]])"
)
VERDICT = re.compile(r"[\W_]*+(?:verdict|grade)(?:[^\w:=]|_)*+[:=](?P<word>.+)", re.I)
EDGES = re.compile(r"\A(?:(?![+-]\d)[\W_])+|(?<![\W_])[\W_]++\Z")
SPECIAL = re.compile(r"[&\\`*_{}\[\]<>#|!~$]")
UNITS = (
    *"aéx1\u0661\u00b2 \n\t\r_.,;:$\\{}()[]|`~-+=/*^%'\"#?!@AQ\u2028\u0085\u2212€\u4e00\U0001f600",
    *("$$", "\\[", "\\]", "\\(", "\\)", "\\boxed{", "\\fboxed", "and", "or", "\\quad", "\\text{", "\\sqrt", "pi", "because"),
    *("1,000", "3.5", "12/3", "\\%", "####", "a" * 199, "```", "~~~~", "python", "def f", "async def f", "class f", "f =", "f: int = ", "  "),
    *("Verdict: A", "grade", "+5", "-"),
    *("<s>", "<|", "[INST]", "</think>", "[||", "]~b[", "<a_b>"),
)  # fmt: skip
NAMES = (*("s", "bos", "SYS", "thinking", "unused", "12", "seed:", "a" * 39, "tool"), *"\u0661:_é")
HIDDEN = (*"\ufe0f☀©\u202e\u200b\U000e0100\x1b\ud800\u3000&", "<b>")
NOTATION = Path(__file__).with_name("notation.jsonl")
TEXTS = st.lists(st.sampled_from(UNITS), max_size=25).map("".join)


def each_formula(text: str, start: int) -> Iterator[tuple[int, int, str]]:
    while (found := FORMULA.search(text, start)) is not None:
        begin, start = found.span()
        if (mark := found[1]) is None:
            yield begin, start, found[2].strip()
            continue
        end = text.find(reading._ENDS[mark], start + 1)
        start = begin + 1 if end < 0 else end + 2
        if end >= 0:
            yield begin, start, text[begin + 2 : end].strip()


def boxes(text: str) -> Iterator[tuple[int, int, str] | None]:
    for opening in list(BOX.finditer(text))[-reading._MOST_PLACES :]:
        begin = opening.end()
        if text[begin] != "{":
            token = re.compile(r"\w+").match(text, begin)
            yield begin, token.end(), token[0]
            continue
        depth = 0
        for brace in BRACES.finditer(text, begin, begin + LONGEST):
            depth += {"{": 1, "}": -1}.get(brace[0], 0)
            if depth == 0:
                yield begin + 1, brace.start(), text[begin + 1 : brace.start()].strip()
                break
        else:
            yield None


@settings(max_examples=400, deadline=None)
@given(text=TEXTS, start=st.integers(0, 3))
@example(text="1 2,000 x3 $4 5/6/7 8% 9%1 -\u2212 10é1 .5 ^6 1e5", start=1)
def test_parts_of_mathematical_texts(text: str, start: int) -> None:
    start = min(start, len(text))
    assert list(reading._numbers(text, start)) == [
        found.span() for found in NUMBER.finditer(text, start)
    ]
    parts = [(part.start, part.end, part.answer) for part in reading._each_formula(text, start)]
    assert parts == list(each_formula(text, start))
    end = SENTENCE_END.search(text, start)
    assert reading._sentence_end(text, start) == (end.start() if end else len(text))
    assert list(reading._after_hashes(text)) == [
        (line.start("line"), line["line"]) for line in HASHES.finditer(text)
    ]
    found, expected = reading._REASON.search(text), REASON.search(text)
    assert (found and found.start()) == (expected and expected.start())
    is_formula = not WORD.search(COMMAND.sub(" ", text)) and re.search(r"\w", text) is not None
    assert reading._is_formula(text) == is_formula
    is_joined = LIST.fullmatch(text) is not None and JOINS.search(text) is not None
    assert reading._joins(text) == is_joined
    assert [box and (box.start, box.end, box.answer) for box in reading._boxes(text)] == list(
        boxes(text)
    )


@settings(max_examples=400, deadline=None)
@given(text=TEXTS)
def test_parts_of_programs_and_values(text: str) -> None:
    fences = [found.span() for found in programs._FENCE.finditer(text)]
    assert fences == [found.span() for found in FENCE.finditer(text)]
    found, expected = programs._INDENTATION.match(text), INDENTATION.match(text)
    assert (found and found.end("indent")) == (expected and expected.end())
    assert programs.defines(text, "f") == (DEFINITION.search(text) is not None)
    line = text.lstrip(literal._MARKS).partition("\n")[0].rstrip(literal._END_MARKS)
    token = TOKEN.match(line)
    assert literal._first_token(line) == (token[0] if token else "")


@settings(max_examples=400, deadline=None)
@given(text=TEXTS)
@example(text="[e~[||<<s>]~b[[<|")
def test_texts_for_judges_and_spreadsheets(text: str) -> None:
    assert without_control_tokens(text) == CONTROL_TOKEN.sub(
        lambda found: found[0] + "\N{ZERO WIDTH SPACE}", text
    )
    assert sheet._FORMULA_WITHIN.sub(sheet._kept, text) == FORMULA_WITHIN.sub("'", text)
    line, expected = verdicts._LINE.fullmatch(text), VERDICT.fullmatch(text)
    assert (line and line["word"]) == (expected and expected["word"])
    assert verdicts._without_edges(text) == EDGES.sub("", text)


@settings(max_examples=200, deadline=None)
@given(name=st.lists(st.sampled_from(NAMES), max_size=6).map("".join))
def test_names_of_tokens(name: str) -> None:
    for text in (f"<{name}>", f"</{name}|>", f"<<{name}", name):
        assert without_control_tokens(text) == CONTROL_TOKEN.sub(
            lambda found: found[0] + "\N{ZERO WIDTH SPACE}", text
        )


@settings(max_examples=400, deadline=None)
@given(text=st.lists(st.sampled_from([*UNITS, *HIDDEN]), max_size=25).map("".join))
@example(text="\ufe0f☀\ufe0f\ufe0f#\ufe0fa\ufe0f")
def test_texts_on_pages(text: str) -> None:
    assert markdown.escape(text) == SPECIAL.sub(
        lambda found: {"&": "&amp;", "<": "&lt;", ">": "&gt;"}.get(found[0], f"\\{found[0]}"),
        " ".join(visible(text).split()),
    )
    shown = (_as_html(text, place) for place in range(len(text)))
    assert hidden.as_html(text) == "".join(shown)


def _as_html(text: str, place: int) -> str:
    character = text[place]
    is_colour = (
        character == "\ufe0f" and place > 0 and unicodedata.category(text[place - 1]) == "So"
    ) or (character == "\ufe0f" and place > 0 and text[place - 1] in "#*0123456789©")
    shown = None if character in hidden._PLAIN or is_colour else hidden._shown(character)
    return str(escape(character)) if shown is None else shown


def test_a_mathematical_answer_has_the_notation_that_is_stored_beside_it() -> None:
    """The stored notations are those of patterns of Python's `re`: a line for each rule, and for each two that meet in a text."""
    with NOTATION.open(encoding="utf-8") as lines:
        for row in map(json.loads, lines):
            notation = latex.prepared(row["answer"])
            assert (notation, latex.as_words(row["answer"])) == (row["notation"], row["words"]), row
            ways = [*dict.fromkeys(latex.variants(latex.prepared(row["target"]), notation))]
            assert [list(way) for way in ways] == row["variants"], row
            assert [latex.is_plainly_equal(*way) for way in ways] == row["equal"], row


def test_no_answer_of_more_than_5_000_characters_is_read() -> None:
    long = "x+1" * 70_000
    texts = [rf"\boxed{{{long}}}", f"#### {long}", f"<answer>{long}</answer>", f"$${long}$$", long]
    texts += [f"The answer is {long}."]

    read = reading.read_answers(Pieces.whole(pa.array(texts, pa.string()))).value.to_pylist()

    assert max(len(value or "") for value in read) <= LONGEST == 5000

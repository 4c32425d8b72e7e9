r"""Mathematical answers in one notation: LaTeX that math-verify parses, without parts that do not change the meaning.

Models and datasets write the same value as `½`, `1/2`, `$\tfrac12$` or `x = 0.5`; an algebra system reads only some of these.
"""

import re
from functools import partial
from itertools import pairwise

from regrade.records.patterns import IN_ASCII, InAscii, compiled

_SYMBOLS = str.maketrans(
    {
        "\u2212": "-",
        "\u2013": "-",
        "\u00d7": r" \times ",
        "\u00b7": r" \cdot ",
        "\u22c5": r" \cdot ",
        "\u00f7": r" \div ",
        "\u00b1": r" \pm ",
        "\u2248": r" \approx ",
        "\u2264": r" \le ",
        "\u2265": r" \ge ",
        "\u2260": r" \ne ",
        "\u221e": r" \infty ",
        "\u222a": r" \cup ",
        "\u2229": r" \cap ",
        "\u2208": r" \in ",
        "\u2205": r" \emptyset ",
        "\u03c0": r" \pi ",
        "\u03b8": r" \theta ",
        "\u03b1": r" \alpha ",
        "\u03b2": r" \beta ",
        "\u03c6": r" \varphi ",
        "\u00b0": r"^{\circ}",
        "\u211d": r" \mathbb{R} ",
        "\u2124": r" \mathbb{Z} ",
        "\u00a0": " ",
        "\u2009": " ",
        "\u202f": " ",
        **{chr(code): f"^{{{number}}}" for number, code in enumerate((0x2070, 0xB9, 0xB2, 0xB3))},
        **{chr(0x2070 + number): f"^{{{number}}}" for number in range(4, 10)},
        **{chr(0x2080 + number): f"_{{{number}}}" for number in range(10)},
        "\u00bc": r"\frac{1}{4}",
        "\u00bd": r"\frac{1}{2}",
        "\u00be": r"\frac{3}{4}",
        "\u2153": r"\frac{1}{3}",
        "\u2154": r"\frac{2}{3}",
        "\u2155": r"\frac{1}{5}",
        "\u215b": r"\frac{1}{8}",
    }
)
_NO_SPACE = compiled(r"\\!\s*")
_SPACING = compiled(
    r"\\(?:(?P<mark>[,;:! ])|(?P<name>q?quad|displaystyle|textstyle|limits|nolimits)|[hv]space\{[^{}]*\}|phantom\{[^{}]*\})|~"
)
_DELIMITERS = compiled(r"\\[()\[\]]|\$|\\(?P<name>[A-Za-z]+)")
_SIZES = frozenset(
    [
        "middle",
        *(f"{size}{side}" for size in ("big", "bigg", "Big", "Bigg") for side in ("", "l", "r")),
    ]
)
_STYLE = compiled(
    r"\\(?:mathbf|mathrm|mathit|mathsf|boldsymbol|bm|textbf|textit|textrm|emph|mbox|underline|fbox|boxed)\s*\{([^{}]*)\}"
)
_SIGN = "\x01"
_ROOT = compiled(rf"(?:sqrt|{_SIGN})\s*\((?P<inside>[^()]*)\)|{_SIGN}\s*(?P<bare>\d+|[a-z])")
_WITH_SIGN = InAscii({ord(_SIGN): ord("?"), ord("\u221a"): ord(_SIGN)})
"""A text in ASCII, with a sign for the roots."""
_RUN = compiled(r"[\\A-Za-z]+")
"""Letters and backslashes: the name of a function or constant begins and ends with it, or ends before a backslash."""
_NAMES = {
    **{
        name: name
        for name in (
            "pi",
            "infty",
            "sin",
            "cos",
            "tan",
            "cot",
            "sec",
            "csc",
            "log",
            "ln",
            "theta",
            "alpha",
            "beta",
        )
    },
    "infinity": "infty",
}
_POWER = compiled(r"\^\s*\(([^()]*)\)")
_THOUSANDS = compiled(r"(\d{1,3})((?:(?:,|\{,\})\d{3})+)")
_SPACED = compiled(r"[+-]?\d{1,3}(?: \d{3})+(?:\.\d+)?")
_BRACKETS = compiled(r"(\\?[(\[]|\\\{)|(\\?[)\]]|\\\})")
_TEXT = compiled(r"\\(?:text|textbf|textit|textrm|mathrm|mbox|operatorname)\s*\{([^{}]*)\}")
_WORDS = compiled(r"[\sA-Za-z'-]+")
_TWO_LETTERS = compiled(r"[A-Za-z]{2}")
_LETTER = compiled(r"\(?([A-Z])\)?[.:]?")
_NUMERAL = compiled(
    r"(?P<sign>[+-]?)\s*\(?(?P<digits>[0-9A-Z]{1,40})\)?(?:_\{?\s*(?P<base>\d+)\s*\}?)?"
)
_ROW_DISTANCE = compiled(r"(\\\\)\s*\[[^\]]*(\]?)")
"""A bracket that is not closed takes the rest of the text, which is then kept: it is searched only once."""
_REPEATING = compiled(r"(-?)(\d*)\.(\d*)\\(?:overline|bar|dot)\s*\{(\d+)\}")
_MOST_DIGITS = 4_300
"""Digits of a number that Python reads."""
_SEGMENT = compiled(r"\\(?:overline|bar)\s*\{\s*([A-Z]{1,3})\s*\}")
_DEGREES = compiled(r"(\d+(?:\.\d+)?)\s*\^\s*(?:\{\s*)?\\circ\s*\}?")
_OF_ANGLE = compiled(r"\\(?:sin|cos|tan|cot|sec|csc)(?:\W|\Z)")
_CHOICE = compiled(r"(?:\\text\s*\{\s*)?\((?P<letter>[A-J])\)(?:\s*\})?(?P<between>[\s:.]*)")
_CHOICES = compiled(r"(?:(?:\\text\s*\{\s*)?\([A-J]\)(?:\s*\})?[\s:.]*)+")
_SIGNS = compiled(r"\\(pm|mp)")
_IN_SYMBOLS = {
    **dict.fromkeys(
        ("no solution", "no solutions", "no real solution", "no real solutions", "empty set"),
        r"\emptyset",
    ),
    **dict.fromkeys(("all real numbers", "all reals", "real numbers"), r"\mathbb{R}"),
}
_AND = compiled(r"(?:,?\s+|,)?\\text\{\s*(?:(?:,\s*)?(?:and|or)|;)\s*\}\s*|,?\s+(?:and|or)\s+")
_LABELLED = compiled(
    r"(?i)\\text\s*\{\s*(?:the )?(?:f[i\u0130\u0131]nal )?(?:answer|result)(?: [i\u0130\u0131]s)?\s*(?:[:=]\s*)?"
    r"(?:\}(?P<after>.+)|(?P<inside>[^{}\s][^{}]*)\})"
)
"""Answer with its label in a box: `\text{answer: 12}`, `\text{answer: } 12`."""
_COMMAND = compiled(r"\\([A-Za-z]+)")
_APPROXIMATELY = ("approx", "simeq", "doteq")
_BEFORE = compiled(
    r"(?i)(?:approx[i\u0130\u0131]mately|about|approx\.?|exactly|equal to|equals|[i\u0130\u0131]s|are)\s+"
)


def prepared(text: str) -> str:
    """Return an answer as LaTeX without delimiters, spacing, styles and commas between thousands."""
    text = _one_space(text).translate(_SYMBOLS)
    if (labelled := _LABELLED.fullmatch(text.strip().strip("$").strip())) is not None:
        text = labelled["after"] or labelled["inside"]
    if "\\" in text or "$" in text or "~" in text:
        text = _ROW_DISTANCE.sub(lambda found: f"{found[1]} " if found[2] else found[0], text)
        text = _DELIMITERS.sub(_without_size, text.replace(r"\$", " ").replace(r"\%", "%"))
        text = _between_digits(text, "{:}", ":", "{:}")
        text = _without_spacing(_NO_SPACE.sub(lambda _: "", text))
    else:
        text = _between_digits(text, "{:}", ":", "{:}")
    text = _AND.sub(lambda _: ", ", text)
    for _ in range(2 * ("\\" in text)):  # one style inside another
        text = _STYLE.sub(_inside, text)
    for kind in "dtc":
        text = text.replace(rf"\{kind}frac", r"\frac")
    if "sqrt" in text or "\u221a" in text:
        text = _with_roots(text)
    if "^" in text:
        text = _POWER.sub(lambda found: f"^{{{found[1]}}}", text)
    text = _without_thousands(_RUN.sub(_named, text))
    if "\\" in text:
        text = _repeating_exact(_SEGMENT.sub(_inside, text))
    text = (
        text.replace(r"\varnothing", r"\emptyset")
        .replace(r"\mid", ":")
        .replace(r"\langle", "(")
        .replace(r"\rangle", ")")
    )
    if "\\" in text and _OF_ANGLE.search(text):
        text = _DEGREES.sub(lambda found: rf"\frac{{{found[1]}\pi}}{{180}}", text)
    text = " ".join(text.replace("**", "^").replace("%", r"\%").split())
    if (before := _BEFORE.match(text)) is not None:
        text = text[before.end() :]
    text = text.strip().rstrip(".,;").strip()
    text = _IN_SYMBOLS.get(as_words(text) or "", text)
    if _has_signs(text):
        text = ", ".join(
            sign for element in _elements(text) for sign in _both_signs(element.strip())
        )
    return text


def _one_space(text: str) -> str:
    """Return a text with one space for each run of spaces."""
    ends = [" " * end.isspace() for end in (text[:1], text[-1:])]
    words = " ".join(text.split())
    return words.join(ends) if words else ends[0]


def _between_digits(text: str, mark: str, inside: str, outside: str) -> str:
    """Return a text with a mark replaced, between two digits by another text than elsewhere."""
    if mark not in text:
        return text
    first, *others = text.split(mark)
    parts = [first]
    for before, part in pairwise([first, *others]):
        is_inside = before[-1:].isdecimal() and part[:1].isdecimal()
        parts += [inside if is_inside else outside, part]
    return "".join(parts)


def _inside(found: "re.Match[str]") -> str:
    return str(found[1])


def _without_size(found: "re.Match[str]") -> str:
    """Return a space for a delimiter, or the command that is none."""
    return found[0] if found["name"] is not None and found["name"] not in _SIZES else " "


def _without_spacing(text: str) -> str:
    def space(found: "re.Match[str]") -> str:
        is_text = (found["mark"] is not None and _before(text, found.start()) == "\\") or (
            found["name"] is not None and _goes_on(text, found.end())
        )
        return found[0] if is_text else " "

    return _SPACING.sub(space, text)


def _before(text: str, place: int) -> str:
    return text[max(0, place - 1) : place]


def _goes_on(text: str, end: int) -> bool:
    """Return True if a letter, digit or `_` stands at a place."""
    following = text[end : end + 1]
    return following.isalnum() or following == "_"


def _with_roots(text: str) -> str:
    """Return a text with roots such as `sqrt(2)` as LaTeX."""
    plain = text.translate(_WITH_SIGN)
    parts, at, start = [], 0, 0
    while (found := _ROOT.search(plain, start)) is not None:
        start = found.start() + 1
        group = "inside" if found["inside"] is not None else "bare"
        begin, end = found.span(group)
        bare, before = text[begin:end], _before(text, found.start())
        if group == "inside":
            is_root = not (before == "\\" or (before.isascii() and before.isalpha()))
        else:
            is_root = bare.isdecimal() or (
                bare.isascii() and bare.isalpha() and not _goes_on(text, end)
            )
        if is_root:
            # An empty root is `\sqrt{None}`, as ever, so that stored scores stay.
            parts += [text[at : found.start()], rf"\sqrt{{{bare or None}}}"]
            at = start = found.end()
    return "".join([*parts, text[at:]])


def _named(found: "re.Match[str]") -> str:
    """Return letters and backslashes with a backslash before the name with which they begin."""
    name, mark, others = found[0].partition("\\")
    return rf"\{_NAMES[name]} {mark}{others}" if name in _NAMES else found[0]


def _without_thousands(text: str) -> str:
    """Return a text without the marks between thousands, as in `1,080`. In brackets, a comma stands between coordinates."""
    if " " in text and _SPACED.fullmatch(text.strip()):
        return text.replace(" ", "")
    if "," not in text:
        return text
    parts, depth, start = [], 0, 0
    for bracket in _BRACKETS.finditer(text):
        parts.append((depth, text[start : bracket.start()]))
        parts.append((1, bracket[0]))
        depth = depth + 1 if bracket[1] else max(0, depth - 1)
        start = bracket.end()
    parts.append((depth, text[start:]))
    return "".join(part if inside else _joined_thousands(part) for inside, part in parts)


def _joined_thousands(text: str) -> str:
    """Return a text without the marks between thousands of numbers that are whole: no digit, comma or point goes on."""
    parts, at, start = [], 0, 0
    plain = text if text.isascii() else text.translate(IN_ASCII)
    while (found := _THOUSANDS.search(plain, start)) is not None:
        before, (begin, end) = _before(text, found.start()), found.span(2)
        marked = text[begin:end]
        if _is_more_of_a_number(text, found.end()):
            marked = marked[: max(0, marked.rfind(_BRACED))]
        if before.isdecimal() or before in (".", ",") or not marked:
            braced = text.find(_BRACED, begin, end)
            start = found.end() if braced < 0 else braced + len(_BRACED)
            continue
        parts += [text[at:begin], marked.translate(_NO_MARKS)]
        at = start = begin + len(marked)
    return "".join([*parts, text[at:]])


def _is_more_of_a_number(text: str, end: int) -> bool:
    following = text[end : end + 2]
    return following[:1].isdecimal() or (following[:1] == "," and following[1:].isdecimal())


_BRACED = "{,}"
_NO_MARKS = str.maketrans(dict.fromkeys(_BRACED, ""))


def as_words(text: str) -> str | None:
    r"""Return an answer that is words or the letter of a choice, in lower case; None for mathematics.

    An algebra system reads a word as a product of its letters, so that `no` would equal `on`.
    """
    plain = _TEXT.sub(lambda found: f" {found[1]} ", text).strip() if "\\" in text else text.strip()
    letter = _LETTER.fullmatch(plain)
    if letter is not None:
        return letter[1].lower()
    if _WORDS.fullmatch(plain) and _TWO_LETTERS.search(plain) and not _has_names(plain):
        words = " ".join(plain.lower().split())
        is_product = plain == text and len(plain) < _SHORTEST_WORD and words != "no"
        return None if is_product else _without_article(words)
    return None


_SHORTEST_WORD = 3
"""Letters of the shortest word that is not a product of variables, such as `ab`, if it is not marked as text."""


def _has_names(text: str) -> bool:
    return any(run.partition("\\")[0] in _NAMES for run in _RUN.findall(text))


def _without_article(words: str) -> str:
    return words.partition(" ")[2] if words.startswith(("a ", "an ", "the ")) else words


def _is_different(target: str, answer: str) -> bool:
    """Return True for lists of different lengths, such as `1, 1, 2` and `1, 2`, which an algebra system reads as the same set."""
    lengths = [len(_elements(text)) for text in (target, answer)]
    return min(lengths) > 1 and lengths[0] != lengths[1]


def is_plainly_equal(target: str, answer: str) -> bool | None:
    """Compare equal texts, whole numbers, lists of different lengths and words; None if the comparison needs algebra."""
    if _without_loose_spaces(target) == _without_loose_spaces(answer):
        return True
    same_numeral = _is_same_numeral(target, answer)
    if same_numeral is not None:
        return same_numeral
    if _is_different(target, answer):
        return False
    words = as_words(target)
    return None if words is None else words == as_words(answer)


def _without_loose_spaces(text: str) -> str:
    return _between_digits(text, " ", " ", "")


def variants(target: str, answer: str) -> list[tuple[str, str]]:
    r"""Return pairs of target and answer; the answer is right if one pair is equal.

    `10\%` may stand for 10, if the question asks for percent, or for 0.1; `(B) 17` for the choice B or for 17;
    `x \approx 268` for 268, and `\pi \approx 3.14` for both of its sides.
    """
    sides = _sides(answer)
    if len(sides) > 1 and len(_sides(target)) == 1:
        return [way for side in sides if side.strip() for way in variants(target, side.strip())]
    letters: list[tuple[str, str]] = []
    if not _choices(target)[0]:
        chosen, answer = _choices(answer)
        letters = [(target, letter) for letter in dict.fromkeys(chosen)]
    bare = [_without_percent(text) for text in (target, answer)]
    percent = [text is not None for text in bare]
    if not any(percent):
        return [*letters, (target, answer)]
    plain, other = (
        text if text is not None else given
        for text, given in zip(bare, (target, answer), strict=True)
    )
    if all(percent):
        return [*letters, (plain, other)]
    share = [
        rf"\frac{{{text}}}{{100}}" if is_percent else text
        for text, is_percent in zip((plain, other), percent, strict=True)
    ]
    return [*letters, (plain, other), (share[0], share[1])]


def _sides(text: str) -> list[str]:
    r"""Return the parts of a text around `\approx` and the like."""
    parts, at = [], 0
    for command in _COMMAND.finditer(text) if "\\" in text else ():
        if command[1] in _APPROXIMATELY:
            parts.append(text[at : command.start()])
            at = command.end()
    return [*parts, text[at:]]


def _choices(text: str) -> tuple[list[str], str]:
    """Return the letters of choices and the value after them, such as of `(B) 17`; no letters for other texts."""
    found = _CHOICES.match(text) if "(" in text else None
    if found is None:
        return [], text
    choices = list(_CHOICE.finditer(found[0]))
    value = text[found.end() :]
    if (
        not value or value[0] == "}"
    ):  # the last point or colon before it is the value's, else it is no choice
        last = choices[-1]
        place = max(last["between"].rfind("."), last["between"].rfind(":"))
        if place < 0:
            choices.pop()
        value = text[last.start() if place < 0 else last.start("between") + place :]
    return [choice["letter"] for choice in choices], value


def _without_percent(text: str) -> str | None:
    """Return a text without the sign at its end; None if it ends otherwise."""
    line = text.removesuffix("\n")
    return line[:-2].rstrip() + text[len(line) :] if line.endswith(r"\%") else None


def _is_same_numeral(target: str, answer: str) -> bool | None:
    """Compare whole numbers by their digits, which may be in a base, as in `4210_{5}`; None if one is no such number.

    An answer without the base that the question names is right; an algebra system would ignore the base.
    """
    numeral, other = _numeral(target), _numeral(answer)
    if numeral is None or other is None:
        return None
    (digits, base), (other_digits, other_base) = numeral, other
    return digits == other_digits and (base == other_base or not (base and other_base))


def _numeral(text: str) -> tuple[str, str] | None:
    """Return sign and digits of a whole number without leading zeros, and its base or ""."""
    match = _NUMERAL.fullmatch(text)
    if match is None or (match["base"] is None and not match["digits"].isdecimal()):
        return None
    sign = "-" if match["sign"] == "-" else ""
    digits = match["digits"].lstrip("0") or "0"
    return sign * (digits != "0") + digits, match["base"] or ""


def _elements(text: str) -> list[str]:
    """Return the parts between the commas of a list; a text in brackets is one part."""
    depth, start, parts = 0, 0, []
    for place, character in enumerate(text):
        depth += (character in "([{") - (character in ")]}")
        if character == "," and depth == 0:
            parts.append(text[start:place])
            start = place + 1
    return [*parts, text[start:]]


def _has_signs(text: str) -> bool:
    return any(not _goes_on(text, sign.end()) for sign in _SIGNS.finditer(text))


def _both_signs(text: str) -> list[str]:
    r"""Return both values of a text with `\pm`, or the text alone."""
    if not _has_signs(text):
        return [text]
    signs = {"pm": "+-", "mp": "-+"}

    def chosen(found: "re.Match[str]", side: int) -> str:
        return found[0] if _goes_on(text, found.end()) else signs[found[1]][side]

    return [_SIGNS.sub(partial(chosen, side=side), text) for side in (0, 1)]


def _repeating_exact(text: str) -> str:
    r"""Return a text with its repeating decimals as fractions: `0.1\overline{6}` is 16 - 1 over 90."""

    def exact(found: "re.Match[str]") -> str:
        sign, whole, fixed, repeated = found.groups()
        before = _before(text, found.start())
        if before.isdecimal() or before == ".":
            if not sign:
                return str(found[0])
            sign, kept = "", sign
        else:
            kept = ""
        if len(whole + fixed + repeated) > _MOST_DIGITS:
            return str(found[0])
        numerator = int(whole + fixed + repeated) - int((whole + fixed) or "0")
        return rf"{kept}{sign}\frac{{{numerator}}}{{{'9' * len(repeated)}{'0' * len(fixed)}}}"

    return _REPEATING.sub(exact, text)

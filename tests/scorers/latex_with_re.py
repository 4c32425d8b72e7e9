"""Mathematical answers as `regrade.scorers.mathematics.latex` read them with Python's `re`: the twin that it is compared with."""

import re

from regrade.scorers.mathematics.latex import _SYMBOLS, _elements

_SPACING = re.compile(
    r"(?<!\\)\\[,;:! ]|\\q?quad\b|~|\\(?:displaystyle|textstyle|limits|nolimits)\b|\\[hv]space\{[^{}]*\}|\\phantom\{[^{}]*\}"
)
_DELIMITERS = re.compile(r"\\[()\[\]]|(?<!\\)\$|\\(?:[bB]igg?[lr]?|middle)(?![A-Za-z])")
_STYLE = re.compile(
    r"\\(?:mathbf|mathrm|mathit|mathsf|boldsymbol|bm|textbf|textit|textrm|emph|mbox|underline|fbox|boxed)\s*\{([^{}]*)\}"
)
_FRACTION = re.compile(r"\\[dtc]frac")
_ROOT = re.compile(r"(?<![\\A-Za-z])(?:sqrt|\u221a)\s*\(([^()]*)\)|\u221a\s*(\d+|[a-z]\b)")
_NAMES = re.compile(
    r"(?<![\\A-Za-z])(pi|infty|infinity|sin|cos|tan|cot|sec|csc|log|ln|theta|alpha|beta)(?![A-Za-z])"
)
_POWER = re.compile(r"\^\s*\(([^()]*)\)")
_THOUSANDS = re.compile(r"(?<![\d.,])(\d{1,3})((?:(?:,|\{,\})\d{3})+)(?!\d|,\d)")
_NO_SPACE = re.compile(r"\\!\s*")
_SPACED = re.compile(r"[+-]?\d{1,3}(?: \d{3})+(?:\.\d+)?")
_BRACKETS = re.compile(r"(\\?[(\[]|\\\{)|(\\?[)\]]|\\\})")
_LOOSE_SPACE = re.compile(r"(?<!\d) | (?!\d)")
_CLOCK = re.compile(r"(?<=\d)\{:\}(?=\d)")
_TEXT = re.compile(r"\\(?:text|textbf|textit|textrm|mathrm|mbox|operatorname)\s*\{([^{}]*)\}")
_WORDS = re.compile(r"[\sA-Za-z'-]+")
_TWO_LETTERS = re.compile(r"[A-Za-z]{2}")
_LETTER = re.compile(r"\(?([A-Z])\)?[.:]?")
_NUMERAL = re.compile(
    r"(?P<sign>[+-]?)\s*\(?(?P<digits>[0-9A-Z]{1,40})\)?(?:_\{?\s*(?P<base>\d+)\s*\}?)?"
)
_ROW_DISTANCE = re.compile(r"(\\\\)\s*+\[[^\]]*+(\]?)")
"""A bracket that is not closed takes the rest of the text, which is then kept: it is searched only once."""
_REPEATING = re.compile(r"(?<![\d.])(-?)(\d*)\.(\d*)\\(?:overline|bar|dot)\s*\{(\d+)\}")
_SEGMENT = re.compile(r"\\(?:overline|bar)\s*\{\s*([A-Z]{1,3})\s*\}")
_DEGREES = re.compile(r"(?<!\d)(\d++(?:\.\d++)?)\s*+\^\s*+(?:\{\s*+)?\\circ\s*\}?")
_OF_ANGLE = re.compile(r"\\(?:sin|cos|tan|cot|sec|csc)\b")
_PERCENT = re.compile(r"(?<!\s)\s*+\\%$")
_CHOICE = re.compile(
    r"(?:\\text\s*\{\s*)?\((?P<letter>[A-J])\)(?:\s*\})?[\s:.]*(?P<value>[^\s}](?s:.*))"
)
_SIGNS = re.compile(r"\\(pm|mp)\b")
_IN_SYMBOLS = {
    **dict.fromkeys(
        ("no solution", "no solutions", "no real solution", "no real solutions", "empty set"),
        r"\emptyset",
    ),
    **dict.fromkeys(("all real numbers", "all reals", "real numbers"), r"\mathbb{R}"),
}
_ARTICLE = re.compile(r"^(?:an?|the) ")
_AND = re.compile(
    r"(?:(?:,|(?<!\s))\s++|,)?\\text\{\s*+(?:(?:,\s*+)?(?:and|or)|;)\s*+\}\s*|(?:,|(?<!\s))\s++(?:and|or)\s+"
)
_LABELLED = re.compile(
    r"\\text\s*\{\s*(?:the )?(?:final )?(?:answer|result)(?: is)?\s*+(?:[:=]\s*+)?(?:\}(?P<after>.+)|(?P<inside>[^{}]+)\})",
    re.IGNORECASE,
)
"""Answer with its label in a box: `\text{answer: 12}`, `\text{answer: } 12`."""
_APPROXIMATELY = re.compile(r"\\(?:approx|simeq|doteq)(?![A-Za-z])")
_BEFORE = re.compile(
    r"^(?:approximately|about|approx\.?|exactly|equal to|equals|is|are)\s+", re.IGNORECASE
)


def prepared(text: str) -> str:
    """Return an answer as LaTeX without delimiters, spacing, styles and commas between thousands."""
    text = re.sub(r"\s+", " ", text).translate(_SYMBOLS)
    if (labelled := _LABELLED.fullmatch(text.strip().strip("$").strip())) is not None:
        text = labelled["after"] or labelled["inside"]
    text = _ROW_DISTANCE.sub(lambda found: f"{found[1]} " if found[2] else found[0], text)
    text = _CLOCK.sub(":", _DELIMITERS.sub(" ", text.replace(r"\$", " ").replace(r"\%", "%")))
    text = _AND.sub(", ", _SPACING.sub(" ", _NO_SPACE.sub("", text)))
    for _ in range(2):  # one style inside another
        text = _STYLE.sub(r"\1", text)
    text = _FRACTION.sub(r"\\frac", text)
    text = _ROOT.sub(lambda match: rf"\sqrt{{{match[1] or match[2]}}}", text)
    text = _POWER.sub(r"^{\1}", text)
    text = _NAMES.sub(lambda match: rf"\{_NAME.get(match[1], match[1])} ", text)
    text = _without_thousands(text)
    text = _REPEATING.sub(_exact, _SEGMENT.sub(r"\1", text))
    text = (
        text.replace(r"\varnothing", r"\emptyset")
        .replace(r"\mid", ":")
        .replace(r"\langle", "(")
        .replace(r"\rangle", ")")
    )
    if _OF_ANGLE.search(text):
        text = _DEGREES.sub(r"\\frac{\1\\pi}{180}", text)
    text = text.replace("**", "^").replace("%", r"\%")
    text = _BEFORE.sub("", re.sub(r"\s+", " ", text).strip())
    text = text.strip().rstrip(".,;").strip()
    text = _IN_SYMBOLS.get(as_words(text) or "", text)
    if _SIGNS.search(text):
        text = ", ".join(
            sign for element in _elements(text) for sign in _both_signs(element.strip())
        )
    return text


def _without_thousands(text: str) -> str:
    """Return a text without the marks between thousands, as in `1,080`. In brackets, a comma stands between coordinates."""
    if _SPACED.fullmatch(text.strip()):
        return text.replace(" ", "")
    parts, depth, start = [], 0, 0
    for bracket in _BRACKETS.finditer(text):
        parts.append((depth, text[start : bracket.start()]))
        parts.append((1, bracket[0]))
        depth = depth + 1 if bracket[1] else max(0, depth - 1)
        start = bracket.end()
    parts.append((depth, text[start:]))
    return "".join(
        part if inside else _THOUSANDS.sub(lambda m: m[1] + re.sub(r"\D", "", m[2]), part)
        for inside, part in parts
    )


_NAME = {"infinity": "infty"}


def as_words(text: str) -> str | None:
    r"""Return an answer that is words or the letter of a choice, in lower case; None for mathematics.

    An algebra system reads a word as a product of its letters, so that `no` would equal `on`.
    """
    plain = _TEXT.sub(r" \1 ", text).strip()
    letter = _LETTER.fullmatch(plain)
    if letter is not None:
        return letter[1].lower()
    if _WORDS.fullmatch(plain) and _TWO_LETTERS.search(plain) and not _NAMES.search(plain):
        words = " ".join(plain.lower().split())
        is_product = plain == text and len(plain) < _SHORTEST_WORD and words != "no"
        return None if is_product else _ARTICLE.sub("", words)
    return None


_SHORTEST_WORD = 3
"""Letters of the shortest word that is not a product of variables, such as `ab`, if it is not marked as text."""


def _is_different(target: str, answer: str) -> bool:
    """Return True for lists of different lengths, such as `1, 1, 2` and `1, 2`, which an algebra system reads as the same set."""
    lengths = [len(_elements(text)) for text in (target, answer)]
    return min(lengths) > 1 and lengths[0] != lengths[1]


def is_plainly_equal(target: str, answer: str) -> bool | None:
    """Compare equal texts, whole numbers, lists of different lengths and words; None if the comparison needs algebra."""
    if _LOOSE_SPACE.sub("", target) == _LOOSE_SPACE.sub("", answer):
        return True
    same_numeral = _is_same_numeral(target, answer)
    if same_numeral is not None:
        return same_numeral
    if _is_different(target, answer):
        return False
    words = as_words(target)
    return None if words is None else words == as_words(answer)


def variants(target: str, answer: str) -> list[tuple[str, str]]:
    r"""Return pairs of target and answer; the answer is right if one pair is equal.

    `10\%` may stand for 10, if the question asks for percent, or for 0.1; `(B) 17` for the choice B or for 17;
    `x \approx 268` for 268, and `\pi \approx 3.14` for both of its sides.
    """
    if _APPROXIMATELY.search(answer) and not _APPROXIMATELY.search(target):
        sides = [side.strip() for side in _APPROXIMATELY.split(answer)]
        return [way for side in sides if side for way in variants(target, side)]
    choice = _CHOICE.fullmatch(answer)
    if choice is not None and not _CHOICE.fullmatch(target):
        return [(target, choice["letter"]), *variants(target, choice["value"])]
    percent = [_PERCENT.search(text) is not None for text in (target, answer)]
    if not any(percent):
        return [(target, answer)]
    bare = _PERCENT.sub("", target), _PERCENT.sub("", answer)
    if all(percent):
        return [bare]
    share = [
        rf"\frac{{{text}}}{{100}}" if is_percent else text
        for text, is_percent in zip(bare, percent, strict=True)
    ]
    return [bare, (share[0], share[1])]


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


def _both_signs(text: str) -> list[str]:
    r"""Return both values of a text with `\pm`, or the text alone."""
    if not _SIGNS.search(text):
        return [text]
    signs = {"pm": "+-", "mp": "-+"}
    return [_SIGNS.sub(lambda match, side=side: signs[match[1]][side], text) for side in (0, 1)]  # type: ignore[misc]


def _exact(match: "re.Match[str]") -> str:
    r"""Return a repeating decimal as a fraction: `0.1\overline{6}` is 16 - 1 over 90."""
    sign, whole, fixed, repeated = match.groups()
    numerator = int(whole + fixed + repeated) - int((whole + fixed) or "0")
    return rf"{sign}\frac{{{numerator}}}{{{'9' * len(repeated)}{'0' * len(fixed)}}}"

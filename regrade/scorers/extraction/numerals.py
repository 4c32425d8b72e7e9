r"""Extraction of numbers from columns of texts.

Numbers become canonical strings (`canonical`), so that equal numbers are equal strings. Currency signs, percent signs and
units are ignored. Only ASCII digits and fractions such as `½` are digits: `٣` is text. A slot that does not hold one
number, such as `10^3`, `8-4` or `(3, 4)`, is refused: its last digits are not its value.
"""

import numpy as np

from regrade.scorers.extraction import columns as c
from regrade.scorers.extraction.canonical import canonical
from regrade.scorers.extraction.pieces import Pieces
from regrade.scorers.extraction.slots import Found

DIGIT = r"[0-9\x{BC}-\x{BE}\x{2150}-\x{215E}]"
"""A digit, or a fraction such as `½`."""
_NO_DIGIT = r"[^0-9\x{BC}-\x{BE}\x{2150}-\x{215E}]"
_VULGAR = r"[\x{BC}-\x{BE}\x{2150}-\x{215E}]"
_MARK = r"[^0-9A-Za-z\x{BC}-\x{BE}\x{2150}-\x{215E}]"

# A number
_SEPARATOR = (
    r"(?:,?\\[,!]|\{,\}|,|[\x{A0}\x{2009}\x{202F}])"  # of thousands, in LaTeX and typesetting
)
_DIGITS = rf"(?:[0-9]{{1,3}}(?:{_SEPARATOR}[0-9]{{2,3}})*{_SEPARATOR}[0-9]{{3}}|[0-9]+)"  # 12,34,567 as in India
_DECIMAL = rf"{_DIGITS}(?:\.[0-9]+)?(?:[eE][+-]?[0-9]{{1,3}})?"
_PART = rf"\{{-?{_DECIMAL}\}}"
_TEX_FRACTION = rf"\\[dtc]?frac\s?(?:{_PART}|[0-9])(?:{_PART}|[0-9])"
_OVER = r" ?[/\x{2044}] ?"
_NUMBER = (
    rf"(?P<number>[0-9]+ ?(?:{_TEX_FRACTION}|{_VULGAR})|[0-9]+ [0-9]+{_OVER}[0-9]+|{_TEX_FRACTION}|{_VULGAR}"
    rf"|{_DECIMAL}(?:{_OVER}[0-9]+(?:\.[0-9]+)?)?)"
)

# Text before a number
_WORDS = (
    "about|also|approximately|around|clearly|equal to|equals|exactly|indeed|just|nearly|now|only|precisely|roughly|simply"
    "|still|then|therefore|thus|USD|US|EUR|GBP|Rs"
)
"""Words allowed between a marker and its number."""
_STYLES = "(?:text|math)(?:bf|it|rm|tt)?|[fm]?boxed|[fm]box|bf|left|approx|quad|displaystyle"
"""LaTeX commands allowed between a marker and its number."""
_SIGN_WORDS = "negative|minus"
_GAP = rf"(?:{_MARK}|\\(?:{_STYLES})\b|(?i:\b(?:{_WORDS}|{_SIGN_WORDS})\b))*?"
_MINUS = r"[-\x{2013}\x{2212}\x{FE63}\x{FF0D}]"  # signs and dashes used as minus
_SIGNED = rf"(?:\A|[^0-9A-Za-z)\]}}%]){_MINUS}(?:\\?[$€£¥₹] ?)?\z"
_SIGN = rf"(?P<sign>{_MINUS}(?:\\?[$€£¥₹] ?)?)\z"
_SIGN_WORD = rf"(?P<sign>(?i:\b(?:{_SIGN_WORDS})) \\?[$€£¥₹]?)\z"
_POINT = r"(?:\A|[^0-9A-Za-z.])\.\z"  # .5

# An expression: a number that is only part of it is not read
_OPERATOR = rf"(?:{_MINUS}|[+*/^\x{{D7}}\x{{F7}}\x{{B7}}]|\\(?:times|cdot|div|pm)\b)"
_FUNCTIONS = (
    r"\\(?:sqrt|pi|ln|log|sin|cos|tan|binom|overline|theta|alpha)\b|[\x{3C0}\x{221A}\x{221E}]"
)
_INEQUALITY = r"[<>\x{2264}\x{2265}]|\\(?:le|ge|lt|gt)q?\b"
_SCALES = "hundred|thousand|million|billion|trillion"
_SPACE = r"(?:\s|\\[,; ]|\\quad|[)\]$])*"
_EXPRESSION = (
    rf"\A{_SPACE}(?:{_OPERATOR}|x |times |plus |minus |divided by )\s*[$(\\{{]*(?:{_MINUS}?{DIGIT}|[a-z]\b|d?frac|sqrt|pi)"
    rf"|\A\.?\s*(?:\^|\*\*[({{]?[0-9]|{_FUNCTIONS}|{_INEQUALITY}|[\x{{B2}}\x{{B3}}\x{{B9}}\x{{2070}}-\x{{2079}}])"
    r"|\A ?[xyznk](?:[^A-Za-z'\x{2019}]|\z)"  # 2x
    r"|\A[ .,'\x{2019}][0-9]|\A:[0-9](?:[^0-9]|\z)"  # 1 234 567, 1.234.567, 2:1
    rf"|\A ?(?i:{_SCALES})\b"
)
"""Text after a number that is only part of an expression or of a longer number."""
_DEGREES = r"\A\s*\^\s*\{?\s*(?:\\circ|\x{B0})"
_TEX = r"(?:\s|\\[a-z]+|[{}*_$%])*"
_SERIES = rf"\A{_TEX}(?:\p{{L}}+{_TEX}){{0,2}}(?:,|;|&|\b(?:and|or|to)\b)(?:and\b|or\b|{_TEX}|[(])*(?:\p{{L}}+\s?=\s?)?{_MINUS}?{DIGIT}"
"""Text after a number that is one of several: `, 4`, ` and 4`, ` hours and 30 minutes`."""
_OPERAND = rf"[A-Za-z)]\s*{_OPERATOR}\s*[({{]*\z|{_OPERATOR}\s*\(\z|[\^_|]\s*[({{]*{_MINUS}?\z|{_FUNCTIONS}|{_INEQUALITY}|\\[dtc]?frac"
"""Text before a number that is only part of an expression."""
_ONLY_SYMBOLS = (
    rf"\A[\s$(\\]*(?:[A-Za-z]\s*{_OPERATOR}|[0-9.]+\s*(?:{_OPERATOR}|,))"
    r"[-\x{2212}+*/^().,0-9A-Za-z\s\x{D7}\x{F7}$\\{}]{0,40}\z"
)
"""Short text that is nothing but an expression, such as `x - 5`."""
_WORD = r"(?:\A|[^\\\p{L}])\p{L}{3,}"

# An equation: its result counts
_UNIT = r"(?:[ -]?\p{L}+\.?){0,2}"
_TERM = (
    rf"(?:[($\\{{]*{_MINUS}?[$\\]*(?:[0-9](?:[0-9.,]*[0-9])?|{_TEX_FRACTION})[)%}}]*{_UNIT}|\([^()=\n]{{1,60}}\)"
    r"|\p{L}[\p{L}' ]{0,60})"
)
_JOIN = rf"\s*(?:{_OPERATOR}|x\b|of\b|times\b|plus\b|minus\b|divided by\b)\s*"
_LEFT = rf"(?:{_TERM}(?:{_JOIN}{_TERM})+|[\p{{L}}\\][\p{{L}}\\{{}}_' ]{{0,80}}|[0-9][0-9.,]*)"
_EQUATION = rf"\A(?P<left>{_MARK}*?{_LEFT}[)\]$}}\s]*=(?:[^=\n]*=)*)(?P<right>[^=\n]*)"
_REASON = r"(?i)[,;]? \(?(?:as|because|for|given|if|since|when|where|with)\b"
_SYSTEM = r"(?:[,;]|\band\b|\bor\b)[\s{}\\]*[A-Za-z]\s*="
"""Several unknowns: `x = 5, y = 3`."""

_HINDRANCES = (
    "after|although|as|assuming|at|based|because|before|between|both|but|by|clear|correct|due|during|each|every|find|for|found"
    "|from|given|helpful|if|in|incorrect|into|let|not|of|on|out|over|per|right|since|so|step|than|to|using|valid|we|when|where"
    "|which|while|with|within|without|wrong"
)
"""Words after which the first number of a sentence may be something else than the answer."""


def direct_number(pieces: Pieces) -> Found:
    """Read the number at the start of each piece, after marks such as `**$` and a few words.

    Expects the text after a marker such as `answer is`. An equation (`9 * 2 = 18`) gives its right side. An expression
    without a result, and a series of numbers, are refused.
    """
    line = pieces.split(rf"\A(?P<line>{_MARK}*[^\n]*)")["line"]
    is_equation = line.matches(r"=")
    if not c.is_any(is_equation):
        return _first(line)
    right = line.where(is_equation).before_first(_REASON).split(_EQUATION)["right"]
    return _unrefused(_first(right)).otherwise(_first(line))


def only_number(pieces: Pieces) -> Found:
    r"""Read the only number of each piece, such as the content of `\boxed{}`.

    An equation gives its right side, or else its left side. Of several numbers the first is read if words follow it, as
    in `13 eggs in 2 boxes`. Any other piece with a digit is refused.
    """
    found = _single(pieces)
    rest = pieces.where(found.open)
    if c.is_any(rest.present):
        is_equation = rest.matches("=")
        equation = rest.where(c.both(is_equation, c.negated(rest.matches(_SYSTEM))))
        found = found.otherwise(_unrefused(_first(equation.after_last("="))))
        found = found.otherwise(_unrefused(_single(equation.before_first("="))))
        found = found.otherwise(_first(rest.without(is_equation)))
    factorial = pieces.where(c.is_present(found.value)).matches(r"[0-9)]!")
    value = c.choose(factorial, None, found.value)
    refused = c.both(c.is_missing(value), pieces.matches(DIGIT))
    return Found(value, found.place, refused)


def sentence_number(pieces: Pieces) -> Found:
    """Read the first number of the sentence at the start of each piece, as in `that she needs 5 dozens for 30 days`.

    Only words may precede it, and none of `_HINDRANCES`.
    """
    words = r"[ \t]*(?:\p{L}[\p{L}'\x{2019}-]*[ ,:*_$\"(]+){1,12}"
    found = pieces.split(rf"\A(?P<lead>{words}){_NUMBER}(?P<rest>[^\n]*)")
    lead = found["lead"].without(found["lead"].matches(rf"(?i)\b(?:{_HINDRANCES})\b"))
    return _unrefused(_checked(lead, found["number"].where(lead.present), found["rest"]))


def last_number(pieces: Pieces) -> Found:
    """Read the last number of each piece. A piece that is nothing but an expression is refused."""
    symbols = pieces.where(pieces.matches(_ONLY_SYMBOLS))
    symbols = symbols.without(symbols.matches(_WORD))
    expression = only_number(symbols)
    rest = pieces.where(expression.open)
    parts = rest.split_end(
        rf"(?s)(?P<tail>(?:.{{0,80}}[^0-9])?(?:[0-9]+\}}?|[0-9]* ?{_VULGAR}))(?P<rest>{_NO_DIGIT}*)\z"
    )
    lead = (
        rf"(?P<lead>\A{_MARK}*|(?i:\bnegative|\A{_MARK}*minus) |[A-Za-z]{_MARK}*|{DIGIT}{_MARK}+)"
    )
    found = parts["tail"].split_end(rf"{lead}{_NUMBER}(?P<brace>\}}?)\z")
    grouped = c.both(  # the last group of 1 234 or 1.234.567
        found["lead"].matches(r"[0-9][ .]\z"), found["number"].matches(r"\A[0-9]{3}(?:[^0-9]|\z)")
    )
    scaled = parts["rest"].matches(rf"\A ?(?i:{_SCALES})\b")
    number = found["number"].without(c.either(grouped, scaled))
    return expression.otherwise(_valued(found["lead"], number))


def whole_number(texts: c.Strings) -> c.Strings:
    """Return the number if a text is only a number with marks around it, else null."""
    found = Pieces.whole(texts).split(rf"\A(?P<lead>{_MARK}*?){_NUMBER}{_MARK}*\z")
    return _valued(found["lead"], found["number"]).value


def _first(pieces: Pieces) -> Found:
    found = pieces.split(rf"(?s)\A(?P<lead>{_GAP}){_NUMBER}(?P<rest>.*)\z")
    return _checked(found["lead"], found["number"], found["rest"])


def _single(pieces: Pieces) -> Found:
    """Read the number of each piece that holds no other digit, except the exponent of a unit (`cm^2`)."""
    exponent = rf"{_NO_DIGIT}*?[A-Za-z}}]\s*\^\{{?[23]\}}?"
    found = pieces.split(
        rf"(?s)\A(?P<lead>{_NO_DIGIT}*?){_NUMBER}(?P<rest>(?:{exponent})?{_NO_DIGIT}*)\z"
    )
    operand = found["lead"].matches(_OPERAND)
    result = _checked(found["lead"], found["number"].without(operand), found["rest"])
    return Found(result.value, result.place, c.either(result.refused, operand))


def _checked(lead: Pieces, number: Pieces, rest: Pieces) -> Found:
    """Return numbers with their signs; refuse those that are part of an expression or a series."""
    part = c.both(rest.matches(_EXPRESSION), c.negated(rest.matches(_DEGREES)))
    refused = c.both(number.present, c.either(part, rest.matches(_SERIES)))
    found = _valued(lead, number.without(refused))
    return Found(found.value, found.place, refused)


def _valued(lead: Pieces, number: Pieces) -> Found:
    """Return unsigned numbers in canonical form, with the sign and the decimal point at the end of `lead`."""
    lead = lead.where(number.present)
    value, place = number.text, number
    point = lead.matches(_POINT)
    if c.is_any(point):
        value = c.choose(point, c.joined("0.", value), value)
        split = lead.where(point).split_end(r"(?P<lead>(?s:.*))(?P<point>\.)\z")
        lead, place = split["lead"].otherwise(lead), split["point"].joined(place)
    value = canonical(value)
    signed, word = lead.matches(_SIGNED), lead.matches(_SIGN_WORD)
    if c.is_any(signed) or c.is_any(word):
        sign = lead.where(signed).split_end(_SIGN)["sign"]
        sign = sign.otherwise(lead.where(word).split_end(_SIGN_WORD)["sign"])
        place = sign.joined(place)
        minus = c.both(sign.present, c.negated(c.is_equal(value, "0")))
        value = c.choose(minus, c.joined("-", value), value)
    return Found(value, place, _no(value))


def _unrefused(found: Found) -> Found:
    return Found(found.value, found.place, _no(found.value))


def _no(column: c.Strings) -> c.Mask:
    return c.mask(np.zeros(len(column), bool))

r"""Extraction of numbers from columns of texts.

Numbers become canonical strings (`canonical`), so that equal numbers are equal strings. Currency signs, percent signs and
units are ignored. Only ASCII digits and fractions such as `½` are digits: `٣` is text. A slot that does not hold one
number, such as `10^3`, `8-4` or `(3, 4)`, is refused: its last digits are not its value.
"""

import numpy as np

from regrade.scorers.extraction import columns as c
from regrade.scorers.extraction import number_patterns as p
from regrade.scorers.extraction.canonical import canonical
from regrade.scorers.extraction.pieces import Pieces
from regrade.scorers.extraction.slots import Found


def direct_number(pieces: Pieces) -> Found:
    """Read the number at the start of each piece, after marks such as `**$` and a few words.

    Expects the text after a marker such as `answer is`. An equation (`9 * 2 = 18`) gives its right side. An expression
    without a result, and a series of numbers, are refused.
    """
    line = pieces.split(rf"\A(?P<line>{p.MARK}*[^\n]*)")["line"]
    is_equation = line.matches(r"=")
    if not c.is_any(is_equation):
        return _first(line)
    right = line.where(is_equation).before_first(p.REASON).split(p.EQUATION)["right"]
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
        equation = rest.where(c.both(is_equation, c.negated(rest.matches(p.SYSTEM))))
        found = found.otherwise(_unrefused(_first(equation.after_last("="))))
        found = found.otherwise(_unrefused(_single(equation.before_first("="))))
        found = found.otherwise(_first(rest.without(is_equation)))
    factorial = pieces.where(c.is_present(found.value)).matches(r"[0-9)]!")
    value = c.choose(factorial, None, found.value)
    refused = c.both(c.is_missing(value), pieces.matches(p.DIGIT))
    return Found(value, found.place, refused)


def sentence_number(pieces: Pieces) -> Found:
    """Read the first number of the sentence at the start of each piece, as in `that she needs 5 dozens for 30 days`.

    Only words may precede it, and none of `p.HINDRANCES`.
    """
    words = r"[ \t]*(?:\p{L}[\p{L}'\x{2019}-]*[ ,:*_$\"(]+){1,12}"
    found = pieces.split(rf"\A(?P<lead>{words}){p.NUMBER}(?P<rest>[^\n]*)")
    lead = found["lead"].without(found["lead"].matches(rf"(?i)\b(?:{p.HINDRANCES})\b"))
    return _unrefused(_checked(lead, found["number"].where(lead.present), found["rest"]))


def last_number(pieces: Pieces) -> Found:
    """Read the last number of each piece. A piece that is nothing but an expression is refused."""
    symbols = pieces.where(pieces.matches(p.ONLY_SYMBOLS))
    symbols = symbols.without(symbols.matches(p.WORD))
    expression = only_number(symbols)
    rest = pieces.where(expression.open)
    parts = rest.split_end(
        rf"(?s)(?P<tail>(?:.{{0,80}}[^0-9])?(?:[0-9]+\}}?|[0-9]* ?{p.VULGAR}))(?P<rest>{p.NO_DIGIT}*)\z"
    )
    lead = rf"(?P<lead>\A{p.MARK}*|(?i:\bnegative|\A{p.MARK}*minus) |[A-Za-z]{p.MARK}*|{p.DIGIT}{p.MARK}+)"
    found = parts["tail"].split_end(rf"{lead}{p.NUMBER}(?P<brace>\}}?)\z")
    grouped = c.both(  # the last group of 1 234 or 1.234.567
        found["lead"].matches(r"[0-9][ .]\z"), found["number"].matches(r"\A[0-9]{3}(?:[^0-9]|\z)")
    )
    scaled = parts["rest"].matches(rf"\A ?(?i:{p.SCALES})\b")
    number = found["number"].without(c.either(grouped, scaled))
    return expression.otherwise(_valued(found["lead"], number))


def whole_number(texts: c.Strings) -> c.Strings:
    """Return the number if a text is only a number with marks around it, else null."""
    found = Pieces.whole(texts).split(rf"\A(?P<lead>{p.MARK}*?){p.NUMBER}{p.MARK}*\z")
    return _valued(found["lead"], found["number"]).value


def _first(pieces: Pieces) -> Found:
    found = pieces.split(rf"(?s)\A(?P<lead>{p.GAP}){p.NUMBER}(?P<rest>.*)\z")
    return _checked(found["lead"], found["number"], found["rest"])


def _single(pieces: Pieces) -> Found:
    """Read the number of each piece that holds no other digit, except the exponent of a unit (`cm^2`)."""
    exponent = rf"{p.NO_DIGIT}*?[A-Za-z}}]\s*\^\{{?[23]\}}?"
    found = pieces.split(
        rf"(?s)\A(?P<lead>{p.NO_DIGIT}*?){p.NUMBER}(?P<rest>(?:{exponent})?{p.NO_DIGIT}*)\z"
    )
    operand = found["lead"].matches(p.OPERAND)
    result = _checked(found["lead"], found["number"].without(operand), found["rest"])
    return Found(result.value, result.place, c.either(result.refused, operand))


def _checked(lead: Pieces, number: Pieces, rest: Pieces) -> Found:
    """Return numbers with their signs; refuse those that are part of an expression or a series."""
    part = c.both(rest.matches(p.EXPRESSION), c.negated(rest.matches(p.DEGREES)))
    refused = c.both(number.present, c.either(part, rest.matches(p.SERIES)))
    found = _valued(lead, number.without(refused))
    return Found(found.value, found.place, refused)


def _valued(lead: Pieces, number: Pieces) -> Found:
    """Return unsigned numbers in canonical form, with the sign and the decimal point at the end of `lead`."""
    lead = lead.where(number.present)
    value, place = number.text, number
    point = lead.matches(p.POINT)
    if c.is_any(point):
        value = c.choose(point, c.joined("0.", value), value)
        split = lead.where(point).split_end(r"(?P<lead>(?s:.*))(?P<point>\.)\z")
        lead, place = split["lead"].otherwise(lead), split["point"].joined(place)
    value = canonical(value)
    signed, word = lead.matches(p.SIGNED), lead.matches(p.SIGN_WORD)
    if c.is_any(signed) or c.is_any(word):
        sign = lead.where(signed).split_end(p.SIGN)["sign"]
        sign = sign.otherwise(lead.where(word).split_end(p.SIGN_WORD)["sign"])
        place = sign.joined(place)
        minus = c.both(sign.present, c.negated(c.is_equal(value, "0")))
        value = c.choose(minus, c.joined("-", value), value)
    return Found(value, place, _no(value))


def _unrefused(found: Found) -> Found:
    return Found(found.value, found.place, _no(found.value))


def _no(column: c.Strings) -> c.Mask:
    return c.mask(np.zeros(len(column), bool))

r"""Canonical form of numbers: equal numbers are equal strings, without rounding.

`1,234.50` and `1\,234.50` become `1234.5`, `72.00` becomes `72`, `3/4`, `\frac34` and `¾` become `0.75`, `2/6` becomes
`1/3`, `2½` becomes `2.5` and `1.5e3` becomes `1500`.
"""

from fractions import Fraction
from unicodedata import numeric

from regrade.records.patterns import compiled
from regrade.scorers.extraction import columns as c

_LONGEST_COMPUTED = 60
"""Longest fraction or power that is computed, in characters; a longer text is kept unchanged."""
_SEPARATORS = compiled(r"\\[,!]|\{,\}|[,\u00a0\u2009\u202f]")
_TEX_FRACTION = compiled(r"\\[dtc]?frac\s?(?:\{([^{}]*)\}|([0-9]))(?:\{([^{}]*)\}|([0-9]))")
_VULGAR = compiled("[\u00bc-\u00be\u2150-\u215e]")
_BAR = compiled(" ?[/\u2044] ?")


def canonical(numbers: c.Strings) -> c.Strings:
    """Return unsigned numbers in canonical form; null for those that divide by zero."""
    special = c.is_match(numbers, r"[^0-9.,]")
    plain = c.rows_changed(numbers, special, lambda some: c.mapped(some, _exact))
    plain = c.replaced(plain, ",", "")
    plain = c.replaced(plain, r"\A0+([0-9])", r"\1")
    return c.rows_changed(
        plain, c.is_match(plain, r"\."), lambda some: c.replaced(some, r"\.?0*\z", "")
    )


def _exact(number: str) -> str | None:
    if len(number) > _LONGEST_COMPUTED:
        return number
    text = _SEPARATORS.sub(lambda _: "", number)
    text = _TEX_FRACTION.sub(lambda f: f" {f[1] or f[2]}/{f[3] or f[4]}", text)
    text = _VULGAR.sub(lambda character: f" {_vulgar(character[0])}", text)
    text = _BAR.sub(lambda _: "/", text)
    try:
        value = sum((_quotient(part) for part in text.split()), Fraction())
    except ZeroDivisionError:
        return None
    return _decimal(value)


def _vulgar(character: str) -> Fraction:
    return Fraction(numeric(character)).limit_denominator(10)


def _quotient(part: str) -> Fraction:
    above, _, below = part.partition("/")
    return Fraction(above) / Fraction(below or 1)


def _decimal(value: Fraction) -> str:
    """Return a finite decimal fraction as digits, and any other as numerator and denominator."""
    twos, fives = (_power(value.denominator, prime) for prime in (2, 5))
    places = max(twos, fives)
    if 2**twos * 5**fives != value.denominator or places == 0:
        return str(value)
    digits = str(abs(value.numerator) * 10**places // value.denominator).zfill(places + 1)
    return f"{'-' if value < 0 else ''}{digits[:-places]}.{digits[-places:]}"


def _power(number: int, prime: int) -> int:
    power = 0
    while number % prime == 0:
        number, power = number // prime, power + 1
    return power

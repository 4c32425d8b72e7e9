r"""Extraction of numbers from columns of texts.

Numbers become canonical strings, so that equal numbers of any size are equal strings, without rounding:
`$1,234.50` becomes `1234.5`, `72.00` `72`, `3/4` `0.75`, `2/6` `1/3` and `-0` `0`. Currency signs, percent signs
and units are ignored. `1,2` is two numbers. Only ASCII digits are digits: `٣` is text.
"""

from fractions import Fraction

from regrade.scorers.extraction import columns as c

_UNSIGNED = (
    r"(?:[0-9]{1,3}(?:,[0-9]{2,3})*,[0-9]{3}|[0-9]+)"  # 1,234,567, or 12,34,567 as in India
    r"(?:\.[0-9]+)?(?:[eE][+-]?[0-9]{1,3})?"
)
_NUMBER = rf"(?P<number>[0-9]+ [0-9]+/[0-9]+|{_UNSIGNED}(?: ?/ ?[0-9]+(?:\.[0-9]+)?)?)"
_WORDS = "approximately|about|around|nearly|only|exactly|equal to|US|USD|EUR|GBP|Rs"
# Text allowed between `answer is` and its number: marks, LaTeX commands and a few words.
_GAP = rf"(?:[^0-9A-Za-z]|\\[A-Za-z]+|(?i:{_WORDS})\b)*"
_MINUS = r"[\x{2013}\x{2212}\x{FE63}\x{FF0D}]"  # signs and dashes used as minus
_SEPARATOR = r"(?:\{,\}|\\[,!]|[\x{A0}\x{2009}\x{202F}])"  # of thousands, in LaTeX and typesetting
_OPERATOR = r"\A(?:\s|\\[,;])*(?:[-+*/^\x{D7}\x{F7}]|x |\\times|\\cdot|\\div)\s*[$(\\]*[0-9]"
_EQUATION = r"\A[^0-9A-Za-z]*(?:[A-Za-z]{1,3}\s*|(?:[-0-9\s+*/x().,$%€£^\x{D7}\x{F7}]|\\[a-z]*)*)="
_LONGEST_COMPUTED = 60
"""Longest fraction or power that is computed, in characters; a longer text is kept unchanged."""


def first_number(texts: c.Strings) -> c.Strings:
    """Return the number at the start of each text, after marks such as `**$`; null if there is no number.

    An equation (`9 * 2 = 18`) gives its right side; an expression without a result gives null.
    Expects the text after `answer is`, not a whole answer: only marks and a few words may precede the number.
    """
    line = c.captured(_plain(texts), r"\A(?P<line>[^0-9A-Za-z]*[^\n]*)")["line"]
    right_side = c.after_last(c.choose(c.is_match(line, _EQUATION), line, None), "=")
    line = c.coalesced(right_side, line)
    found = c.captured(line, rf"\A(?P<lead>{_GAP}){_NUMBER}(?P<rest>(?:[^0-9].*)?)\z")
    is_expression = c.is_match(found["rest"], _OPERATOR)
    return _canonical(found["lead"], c.choose(is_expression, None, found["number"]))


def last_number(texts: c.Strings) -> c.Strings:
    """Return the last number of each text; null if there is no number."""
    tail = c.captured(texts, r"(?s)(?P<tail>(?:.{0,80}[^0-9])?[0-9]+\}?)[^0-9]*\z")["tail"]
    lead = r"(?P<lead>\A[^0-9A-Za-z]*|[A-Za-z][^0-9A-Za-z]*|[0-9][^0-9A-Za-z]+)"
    found = c.captured(_plain(tail), rf"{lead}{_NUMBER}[^0-9]*\z")
    return _canonical(found["lead"], found["number"])


def whole_number(texts: c.Strings) -> c.Strings:
    """Return the number if a text is only a number with marks around it, else null."""
    pattern = rf"\A(?P<lead>[^0-9A-Za-z]*){_NUMBER}[^0-9A-Za-z]*\z"
    found = c.captured(_plain(texts), pattern)
    return _canonical(found["lead"], found["number"])


def _plain(texts: c.Strings) -> c.Strings:
    r"""Convert minus signs, LaTeX fractions and thousands separators to ASCII."""
    special = c.is_match(texts, rf"{_MINUS}|{_SEPARATOR}|\\")
    return c.rows_changed(texts, special, _plain_special)


def _plain_special(texts: c.Strings) -> c.Strings:
    texts = c.replaced(texts, _MINUS, "-")
    fraction = r"\\[dt]?frac\{([0-9]+)\}\{([0-9]+)\}"
    texts = c.replaced(texts, rf"([0-9]) ?{fraction}", r"\1 \2/\3")
    texts = c.replaced(texts, fraction, r"\1/\2")
    for _ in range(2):  # matches cannot overlap, but neighbouring separators share digits
        texts = c.replaced(texts, rf"([0-9]){_SEPARATOR}([0-9]{{3}})", r"\1,\2")
    return texts


def _canonical(lead: c.Strings, number: c.Strings) -> c.Strings:
    """Return unsigned numbers in canonical form, with the sign that `lead`, the text before each number, gives."""
    is_decimal = c.is_match(lead, r"(?:\A|[^0-9A-Za-z.])\.\z")  # .5
    number = c.choose(is_decimal, c.joined("0.", number), number)
    lead = c.rows_changed(lead, is_decimal, lambda some: c.replaced(some, r"\.\z", ""))
    # A minus is a sign unless a number or word precedes it, as in 10-5.
    minus = c.is_match(lead, r"(?:\A|[^0-9A-Za-z)\]}%])-(?:\\?[$€£¥₹] ?)?\z")
    value = c.replaced(c.replaced(number, ",", ""), r"\A0+([0-9])", r"\1")
    value = c.rows_changed(value, c.is_match(value, "[/eE]"), lambda some: c.mapped(some, _exact))
    value = c.rows_changed(
        value, c.is_match(value, r"\."), lambda some: c.replaced(some, r"\.?0*\z", "")
    )
    minus = c.both(minus, c.negated(c.is_equal(value, "0")))
    return c.choose(minus, c.joined("-", value), value)


def _exact(number: str) -> str | None:
    if len(number) > _LONGEST_COMPUTED:
        return number
    parts = number.replace(" /", "/").replace("/ ", "/").split(" ")
    try:
        value = sum((_quotient(part) for part in parts), Fraction())
    except ZeroDivisionError:
        return None
    twos, fives = (_power(value.denominator, prime) for prime in (2, 5))
    places = max(twos, fives)
    if 2**twos * 5**fives != value.denominator or places == 0:
        return str(value)
    digits = str(value.numerator * 10**places // value.denominator).zfill(places + 1)
    return f"{digits[:-places]}.{digits[-places:]}"


def _power(number: int, prime: int) -> int:
    power = 0
    while number % prime == 0:
        number, power = number // prime, power + 1
    return power


def _quotient(part: str) -> Fraction:
    above, _, below = part.partition("/")
    return Fraction(above) / Fraction(below or 1)

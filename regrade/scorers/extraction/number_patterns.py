"""Patterns of numbers and the text around them, for RE2; used by `numerals`.

To add a word, unit or operator, add an entry here, and a line in `tests/scorers/test_tables.py` or `corpus.jsonl`.
"""

DIGIT = r"[0-9\x{BC}-\x{BE}\x{2150}-\x{215E}]"
"""A digit, or a fraction such as `½`."""
NO_DIGIT = r"[^0-9\x{BC}-\x{BE}\x{2150}-\x{215E}]"
VULGAR = r"[\x{BC}-\x{BE}\x{2150}-\x{215E}]"
MARK = r"[^0-9A-Za-z\x{BC}-\x{BE}\x{2150}-\x{215E}]"

# A number
SEPARATOR = (
    r"(?:,?\\[,!]|\{,\}|,|[\x{A0}\x{2009}\x{202F}])"  # of thousands, in LaTeX and typesetting
)
DIGITS = rf"(?:[0-9]{{1,3}}(?:{SEPARATOR}[0-9]{{2,3}})*{SEPARATOR}[0-9]{{3}}|[0-9]+)"  # 12,34,567 as in India
DECIMAL = rf"{DIGITS}(?:\.[0-9]+)?(?:[eE][+-]?[0-9]{{1,3}})?"
PART = rf"\{{-?{DECIMAL}\}}"
TEX_FRACTION = rf"\\[dtc]?frac\s?(?:{PART}|[0-9])(?:{PART}|[0-9])"
OVER = r" ?[/\x{2044}] ?"
NUMBER = (
    rf"(?P<number>[0-9]+ ?(?:{TEX_FRACTION}|{VULGAR})|[0-9]+ [0-9]+{OVER}[0-9]+|{TEX_FRACTION}|{VULGAR}"
    rf"|{DECIMAL}(?:{OVER}[0-9]+(?:\.[0-9]+)?)?)"
)

# Text before a number
WORDS = (
    "about|also|approximately|around|clearly|equal to|equals|exactly|indeed|just|nearly|now|only|precisely|roughly|simply"
    "|still|then|therefore|thus|USD|US|EUR|GBP|Rs"
)
"""Words allowed between a marker and its number."""
STYLES = "(?:text|math)(?:bf|it|rm|tt)?|[fm]?boxed|[fm]box|bf|left|approx|quad|displaystyle"
"""LaTeX commands allowed between a marker and its number."""
SIGN_WORDS = "negative|minus"
GAP = rf"(?:{MARK}|\\(?:{STYLES})\b|(?i:\b(?:{WORDS}|{SIGN_WORDS})\b))*?"
MINUS = r"[-\x{2013}\x{2212}\x{FE63}\x{FF0D}]"  # signs and dashes used as minus
SIGNED = rf"(?:\A|[^0-9A-Za-z)\]}}%]){MINUS}(?:\\?[$€£¥₹] ?)?\z"
SIGN = rf"(?P<sign>{MINUS}(?:\\?[$€£¥₹] ?)?)\z"
SIGN_WORD = rf"(?P<sign>(?i:\b(?:{SIGN_WORDS})) \\?[$€£¥₹]?)\z"
POINT = r"(?:\A|[^0-9A-Za-z.])\.\z"  # .5

# An expression: a number that is only part of it is not read
OPERATOR = rf"(?:{MINUS}|[+*/^\x{{D7}}\x{{F7}}\x{{B7}}]|\\(?:times|cdot|div|pm)\b)"
FUNCTIONS = (
    r"\\(?:sqrt|pi|ln|log|sin|cos|tan|binom|overline|theta|alpha)\b|[\x{3C0}\x{221A}\x{221E}]"
)
INEQUALITY = r"[<>\x{2264}\x{2265}]|\\(?:le|ge|lt|gt)q?\b"
SCALES = "hundred|thousand|million|billion|trillion"
SPACE = r"(?:\s|\\[,; ]|\\quad|[)\]$])*"
EXPRESSION = (
    rf"\A{SPACE}(?:{OPERATOR}|x |times |plus |minus |divided by )\s*[$(\\{{]*(?:{MINUS}?{DIGIT}|[b-hj-z]\b|d?frac|sqrt|pi)"
    rf"|\A\.?\s*(?:\^|\*\*[({{]?[0-9]|{FUNCTIONS}|{INEQUALITY}|[\x{{B2}}\x{{B3}}\x{{B9}}\x{{2070}}-\x{{2079}}])"
    r"|\A ?[xyznk](?:[^A-Za-z'\x{2019}]|\z)"  # 2x
    r"|\A[ .,'\x{2019}][0-9]|\A:[0-9](?:[^0-9]|\z)"  # 1 234 567, 1.234.567, 2:1
    rf"|\A ?(?i:{SCALES})\b"
)
"""Text after a number that is only part of an expression or of a longer number."""
DEGREES = r"\A\s*\^\s*\{?\s*(?:\\circ|\x{B0})"
TEX = r"(?:\s|\\[a-z]+|[{}*_$%])*"
SERIES = rf"\A{TEX}(?:\p{{L}}+{TEX}){{0,2}}(?:,|;|&|\b(?:and|or|to)\b)(?:and\b|or\b|{TEX}|[(])*(?:\p{{L}}+\s?=\s?)?{MINUS}?{DIGIT}"
"""Text after a number that is one of several: `, 4`, ` and 4`, ` hours and 30 minutes`."""
OPERAND = rf"[A-Za-z)]\s*{OPERATOR}\s*[({{]*\z|{OPERATOR}\s*\(\z|[\^_|]\s*[({{]*{MINUS}?\z|{FUNCTIONS}|{INEQUALITY}|\\[dtc]?frac"
"""Text before a number that is only part of an expression."""
ONLY_SYMBOLS = (
    rf"\A[\s$(\\]*(?:[A-Za-z]\s*{OPERATOR}|[0-9.]+\s*(?:{OPERATOR}|,))"
    r"[-\x{2212}+*/^().,0-9A-Za-z\s\x{D7}\x{F7}$\\{}]{0,40}\z"
)
"""Short text that is nothing but an expression, such as `x - 5`."""
WORD = r"(?:\A|[^\\\p{L}])\p{L}{3,}"

# An equation: its result counts
UNIT = r"(?:[ -]?\p{L}+\.?){0,2}"
TERM = (
    rf"(?:[($\\{{]*{MINUS}?[$\\]*(?:[0-9](?:[0-9.,]*[0-9])?|{TEX_FRACTION})[)%}}]*{UNIT}|\([^()=\n]{{1,60}}\)"
    r"|\p{L}[\p{L}' ]{0,60})"
)
JOIN = rf"\s*(?:{OPERATOR}|x\b|of\b|times\b|plus\b|minus\b|divided by\b)\s*"
LEFT = rf"(?:{TERM}(?:{JOIN}{TERM})+|[\p{{L}}\\][\p{{L}}\\{{}}_' ]{{0,80}}|[0-9][0-9.,]*)"
EQUATION = rf"\A(?P<left>{MARK}*?{LEFT}[)\]$}}\s]*=(?:[^=\n]*=)*)(?P<right>[^=\n]*)"
REASON = r"(?i)[,;]? \(?(?:as|because|for|given|if|since|when|where|with)\b"
SYSTEM = r"(?:[,;]|\band\b|\bor\b)[\s{}\\]*[A-Za-z]\s*="
"""Several unknowns: `x = 5, y = 3`."""

HINDRANCES = (
    "after|although|as|assuming|at|based|because|before|between|both|but|by|clear|correct|due|during|each|every|find|for|found"
    "|from|given|helpful|if|in|incorrect|into|let|not|of|on|out|over|per|right|since|so|step|than|to|using|valid|we|when|where"
    "|which|while|with|within|without|wrong"
)
"""Words after which the first number of a sentence may not be the answer."""

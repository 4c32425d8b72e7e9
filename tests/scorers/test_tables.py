"""Every entry of the scorers' tables changes what is read. A new entry needs a line here, or in `corpus.jsonl`."""

from collections.abc import Mapping, Sequence

import pytest

from tests.scorers.batches import any_target, generations, scored

CHOICES = ("Paris", "Rome", "Berlin", "Madrid")
SLOTS = ("\\boxed{@}", "<answer>@</answer>", "The answer is @.")


def extracted(scorer: str, texts: Sequence[str]) -> dict[str, str | None]:
    """Return what a scorer reads from each text."""
    batch = generations(texts, any_target(scorer), choices=[CHOICES] * len(texts))
    return dict(zip(texts, scored(scorer, batch)["extracted"].to_pylist(), strict=True))


EXPRESSIONS = [
    *(f"7 {operator} 2" for operator in "+-*^\u00d7\u00f7\u00b7\u2212\u2013"),
    *(f"7 \\{operator} 2" for operator in ("times", "cdot", "div", "pm")),
    *("7^2", "7**2", "7^{10}", "(7, 2)", "7, 2", "7+2", "2 \\times 7"),
]
BESIDE = [
    *("2\\sqrt", "2\\pi", "2\\ln", "2\\log", "2\\sin", "2\\cos", "2\\tan", "2\\binom", "2\\theta"),
    *("2\\overline", "2\\alpha", "2\u03c0", "2\u221a3", "2\u221e", "2\u00b2", "5x", "5y", "5z"),
    *("5n", "5k", "2 x 3", "3 times 4", "3 plus 4", "3 minus 4", "12 divided by 4", "2:1", "x < 5"),
    *("3 < x", "3 \\le x", "3 \u2264 x", "5 hundred", "5 thousand", "5 million", "5 billion"),
    *("5 Trillion", "1 234", "1.234.567", "1'234", "3 or 4", "3 and 4", "3 to 4", "3; 4", "3 & 4"),
    *("3 cups, 4 spoons", "3 cups and 4 spoons", "3 small cups and 4 spoons", "(3; 4)"),
]
BEFORE = [
    *(f"\\{function}{{4}}" for function in ("sqrt", "ln", "log", "sin", "cos", "tan")),
    *("\u221a4", "x^4", "x_4", "|4|", "|-4|", "x - 4", "\\pi - 4", "2 - (4", "x < 4", "x \u2265 4"),
    *("x \\geq 4", "4!", "(3)!", "\\frac{x}{4}", "\\dfrac{\\pi}{4}"),
]
LAST_LINES = [  # in every language of MMMLU
    *("Antwort: B", "**Antwort: B**", "Die richtige Antwort ist (B), weil A falsch ist."),
    *("R\u00e9ponse : B", "Re\u0301ponse: B", "La r\u00e9ponse est B.", "Jibu sahihi ni B"),
    *("Respuesta: B", "Resposta: B", "Risposta: B", "Jawaban: B", "Jawabannya adalah B", "Jibu: B"),
    *("\u00ccd\u00e1h\u00f9n: B", "I\u0300da\u0301hu\u0300n: B", "الإجابة: B"),
    *("الإجابة الصحيحة هي: B", "الجواب: ب"),
    *("উত্তর: B", "উত্তর: ব", "উত্তর: খ", "उत्तर: B", "सही उत्तर है: ख"),
    *("答え: B", "答えはBです。", "回答：B", "정답: B", "정답은 B입니다", "답변: B"),  # noqa: RUF001
    *("答案：B", "答案：Ｂ", "Answer：Ｂ", "Answer: B"),  # noqa: RUF001
]
LISTS = [
    *("(A) Paris\n(B) Rome", "A. Paris\nB. Rome", "A: Paris\n  * B: Rome", "A) Paris\n- B) Rome"),
    *("A. Paris\nOption B: Rome", "A. Paris\n[B] Rome", "A. Paris\n**B**. Rome"),
]
SEVERAL = (
    "A or B|A and B|A, B|A, and B|A/B|A & B|A; B|(A) or (B)|**A** or **B**|A or option B|(A), (B) and (C)"
    "|A and/or B"
)
REASONS = "because|since|as it|as he|as she|as they|as the|as this|as that|as we|which is|which means|so that"
TABLES: Mapping[tuple[str, str | None], Mapping[str, str | Sequence[str]]] = {
    ("number", "42"): {
        "My answer @ 42. There are 7 more": "is|was|equals|would be|should be|must be|will be|has to be|ought to be"
        "|would then be|comes to|comes out to|works out to|works out as|IS|Is",
        "Sum @ 42. There are 7 more": "Answer:|answer =|ANSWER:|Answer(s):|Answer\N{FULLWIDTH COLON}|\nA:|\n *A:"
        "|final_answer:|**Answer**:|\u7b54\u6848|\u7b54\u6848\u4e3a|\u7b54\u6848\u662f\N{FULLWIDTH COLON}",
        "@: 42. There are 7": "A| * A",
        "#### @ 42, that is 7 more": "about|also|approximately|around|clearly|equal to|exactly|indeed|just|nearly|now|only"
        "|precisely|roughly|simply|still|then|therefore|thus|USD|US|EUR|GBP|Rs",
        "#### $\\@{42}$ and then 7 more": "text|textbf|textit|mathrm|mathbf|mathit|boxed|fbox|mbox|bf|left(|approx |quad"
        "|displaystyle",
        "\\boxed{42@}": "%|\\%| km/h| cm|cm^2| \\text{ m}^3|^\\circ|^{\\circ}|^\u00b0|\u00b0| apples| \\text{ apples}|m|kg"
        "| hours per day|th",  # units
    },
    ("number", "7"): {"@ 42. There are 7": "My answer isn|My answers|Team A:"},
    ("number", None): {
        **dict.fromkeys(("#### @", "@"), EXPRESSIONS),
        **dict.fromkeys(SLOTS, EXPRESSIONS + BESIDE),
        "So \\boxed{@}": BEFORE,
        # After these words the first number of a sentence may be something else.
        "The answer is that @ 12 eggs he has 9.": "after|although|as|assuming|at|based|because|before|between|both|but|by"
        "|clear|correct|due|during|each|every|find|for|found|from|given|helpful|if|in|incorrect|into|let|not|of|on|out|over"
        "|per|right|since|so|step|than|to|using|valid|we|when|where|which|while|with|within|without|wrong",
    },
    ("number", "12"): {"The answer is that he has 12 eggs @.": "in 9 days"},
    ("number", "13"): {"Answer: y = 13 @ x = 3": "as|because|for|given|if|since|when|where|with"},
    ("choice_letter", "B"): {
        **dict.fromkeys(("@", "A 1 x.\n\n@"), LAST_LINES),
        "Ich ende mit `Answer: @`.\n\nAntwort: B": "X",
        "The answer is @ B because A is not.": "option|choice|letter|answer|the|therefore|thus|clearly|indeed|simply"
        "|definitely|most likely|likely|probably|then|still|now|only",
        "The answer is B@": ", I think| and I am sure|, as always|. A is wrong|, not a",
        "So B @ the correct one.": "is|must be|would be|should be|has to be|seems",
        "So option B is @correct.": "|clearly |therefore |thus |indeed |definitely |actually |also ",
        "So (B) is @correct answer.": "|the |our |my |the only |the single |the most |**the ",
        "So **B** is the @ answer.": "correct|right|best|true|accurate|appropriate",
        "So @ correct": 'B, is|B (Rome) is|"B" is|B) is',
        **{
            f"So the @ {noun} is B. Then A": "correct|right|best|appropriate|accurate|Correct"
            for noun in ("option", "choice", "one", "letter")
        },
        "So the correct option @ be B. Then A": "would|should|must",
        "@ B. Then A": "Correct option:|Correct choice =|**Correct option**:",
    },
    ("choice_letter", "A"): {
        # Before any of these words, A is no article.
        "The answer is A @ it seems.": "and|as|because|but|due|for|given|is|or|since|which|with",
        "A. Paris @": "is it",
    },
    ("choice_letter", None): {
        "@": ["Antwort: Bayern und Alpen", "La risposta: A causa di C", *LISTS],
        "So@ correct.": " B is not|B is",
        "So B was @.": "correctable",
        "A. Paris: @": "incorrect|wrong|false|not correct|not right|not true|not the one",
        "A. @": "This isn't it|This is not it|It cannot be so",
        **dict.fromkeys(("The answer is @", "\\boxed{@}", "Answer: @."), SEVERAL),
    },
    ("text", "yes"): {
        # What is said about an answer is not the answer.
        "The answer is yes.\nThis answer is @ x.": "correct|right|wrong|incorrect|clear|helpful|useful|based on|because"
        "|derived|obtained|found|given|as follows|shown|below|above|explained|to the question|easy to"
    },
    ("text", "Paris"): dict.fromkeys(
        ("The answer is Paris @ x", "The answer is Paris, @ x"), REASONS
    ),
}
"""Values that a scorer reads from each text in which an entry stands in place of `@`."""


@pytest.mark.parametrize(
    ("scorer", "reads", "text", "entries"),
    [(*key, text, entries) for key, texts in TABLES.items() for text, entries in texts.items()],
)
def test_a_text_is_read_with_each_entry_of_a_table(
    scorer: str, reads: str | None, text: str, entries: str | Sequence[str]
) -> None:
    several = entries.split("|") if isinstance(entries, str) else entries
    texts = [text.replace("@", entry) for entry in several]

    assert extracted(scorer, texts) == dict.fromkeys(texts, reads)


def test_the_result_of_an_equation_counts() -> None:
    results = {
        "2 days * $9 = $18": "18",
        "72 apples - 2 apples = 70 apples": "70",
        "9 x 2 = 18": "18",
        "half of 36 = 18": "18",
        "9 times 2 = 18": "18",
        "9 plus 9 = 18": "18",
        "20 minus 2 = 18": "18",
        "36 divided by 2 = 18": "18",
        "(4 + 5) * 2 = 18": "18",
        "\\frac{36}{2} \\times 1 = 18": "18",
        "1,360 - (64 + 30 + 48) = 1,360 - 142 = 1,218": "1218",
        "Total cost = $18": "18",
        "\\text{Total} = 18": "18",
        "18 = 9 + 9": "18",
        "$18 = 2 * 9": "18",
        "x = y = 18": "18",
        "5 apples, so x = 3": "5",
        "5 (that is, x = 3)": "5",
    }
    for begin in ("The answer is ", "#### "):
        expected = {begin + equation: result for equation, result in results.items()}
        assert extracted("number", [*expected]) == expected


def test_a_sentence_ends_at_a_period_that_ends_no_abbreviation() -> None:
    ends = {
        "Rome. It is": "Rome",
        "no. It is": "no",
        "No. It is": "No",
        "42. It is": "42",
        "(A). It is": "(A)",
        "$x$. It is": "$x",
        "UK. It is": "UK",
        "Rome! It is": "Rome",
        "Rome? It is": "Rome",
        "Rome.* It is": "Rome",
        "St. Louis": "St. Louis",
        "Dr. No": "Dr. No",
        "J. K. Rowling": "J. K. Rowling",
        "3.5 metres": "3.5 metres",
        "Rome.Then": "Rome.Then",
    }
    expected = {f"The answer is {text}": answer for text, answer in ends.items()}

    assert extracted("text", [*expected]) == expected

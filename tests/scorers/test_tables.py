"""Every entry of the scorers' tables changes what is read. A new entry needs a line here, or in `corpus.jsonl`."""

import pytest

from tests.scorers.batches import generations, scored

CHOICES = ("Paris", "Rome", "Berlin", "Madrid")


def numbers(texts: list[str]) -> list[str | None]:
    found: list[str | None] = scored("number", generations(texts, "1"))["extracted"].to_pylist()
    return found


def letters(texts: list[str]) -> list[str | None]:
    batch = generations(texts, "A", choices=[CHOICES] * len(texts))
    found: list[str | None] = scored("choice_letter", batch)["extracted"].to_pylist()
    return found


def words(texts: list[str]) -> list[str | None]:
    found: list[str | None] = scored("text", generations(texts, "x"))["extracted"].to_pylist()
    return found


def test_a_sentence_states_its_answer_with_any_of_these_verbs() -> None:
    verbs = "is|was|equals|would be|should be|must be|will be|has to be|ought to be|would then be|comes to|comes out to|works out to|works out as|IS|Is"
    texts = [f"My answer {verb} 42. There are 7 more" for verb in verbs.split("|")]

    assert numbers(texts) == ["42"] * len(texts)
    assert numbers(["My answer isn 42. There are 7 more", "My answers 42. There are 7"]) == [
        "7",
        "7",
    ]


def test_the_last_line_is_read_in_every_language_of_mmmlu() -> None:
    lines = [
        *("Antwort: B", "**Antwort: B**", "Die richtige Antwort ist (B), weil A falsch ist."),
        *("R\u00e9ponse : B", "Re\u0301ponse: B", "La r\u00e9ponse est B."),
        *("Respuesta: B", "Resposta: B", "Risposta: B", "Jawaban: B", "Jawabannya adalah B"),
        *("Jibu: B", "Jibu sahihi ni B", "\u00ccd\u00e1h\u00f9n: B", "I\u0300da\u0301hu\u0300n: B"),
        *("الإجابة: B", "الإجابة الصحيحة هي: B", "الجواب: ب"),
        *("উত্তর: B", "উত্তর: ব", "উত্তর: খ", "उत्तर: B", "सही उत्तर है: ख"),
        *("答え: B", "答えはBです。", "回答：B", "정답: B", "정답은 B입니다", "답변: B"),  # noqa: RUF001
        *("答案：B", "答案：Ｂ", "Answer：Ｂ", "Answer: B"),  # noqa: RUF001
    ]
    texts = [*(f"A 1 x.\n\n{line}" for line in lines), *lines]

    assert dict(zip(texts, letters(texts), strict=True)) == dict.fromkeys(texts, "B")


def test_other_languages_neither_give_letters_to_words_nor_to_a_quoted_instruction() -> None:
    assert letters(["Antwort: Bayern und Alpen", "La risposta: A causa di C"]) == [None, None]
    assert letters(["Ich ende mit `Answer: X`.\n\nAntwort: B"]) == ["B"]


def test_a_section_begins_with_any_of_these_markers() -> None:
    markers = "Answer:|answer =|ANSWER:|Answer(s):|Answer\N{FULLWIDTH COLON}|\nA:|\n *A:|final_answer:|**Answer**:|\u7b54\u6848|\u7b54\u6848\u4e3a|\u7b54\u6848\u662f\N{FULLWIDTH COLON}"
    texts = [f"Sum {marker} 42. There are 7 more" for marker in markers.split("|")]

    assert numbers(texts) == ["42"] * len(texts)
    assert numbers(["A: 42. There are 7", " * A: 42. There are 7", "Team A: 42. There are 7"]) == [
        "42",
        "42",
        "7",
    ]


def test_these_words_may_stand_between_a_marker_and_its_number() -> None:
    words = (
        "about|also|approximately|around|clearly|equal to|exactly|indeed|just|nearly|now|only|precisely|roughly|simply"
        "|still|then|therefore|thus|USD|US|EUR|GBP|Rs"
    )
    texts = [f"#### {word} 42, that is 7 more" for word in words.split("|")]

    assert numbers(texts) == ["42"] * len(texts)


def test_these_latex_commands_may_stand_between_a_marker_and_its_number() -> None:
    styles = (
        "text|textbf|textit|mathrm|mathbf|mathit|boxed|fbox|mbox|bf|left(|approx |quad|displaystyle"
    )
    texts = [f"#### $\\{style}{{42}}$ and then 7 more" for style in styles.split("|")]

    assert numbers(texts) == ["42"] * len(texts)


@pytest.mark.parametrize(
    "template", ["\\boxed{{{}}}", "<answer>{}</answer>", "The answer is {}.", "#### {}", "{}"]
)
def test_an_expression_is_no_number_in_any_slot(template: str) -> None:
    expressions = [
        *(
            f"7 {o} 2"
            for o in ("+", "-", "*", "^", "\u00d7", "\u00f7", "\u00b7", "\u2212", "\u2013")
        ),
        *(f"7 {o} 2" for o in ("\\times", "\\cdot", "\\div", "\\pm")),
        *("7^2", "7**2", "7^{10}", "(7, 2)", "7, 2", "7+2", "2 \\times 7"),
    ]

    found = numbers([template.format(expression) for expression in expressions])

    assert dict(zip(expressions, found, strict=True)) == dict.fromkeys(expressions)


@pytest.mark.parametrize("template", ["\\boxed{{{}}}", "<answer>{}</answer>", "The answer is {}."])
def test_a_number_with_any_of_these_beside_it_is_part_of_an_expression(template: str) -> None:
    functions = "sqrt|pi|ln|log|sin|cos|tan|binom|overline|theta|alpha"
    after = [f"2\\{function}" for function in functions.split("|")]
    after += ["2\u03c0", "2\u221a3", "2\u221e", "2\u00b2"]
    after += ["5x", "5y", "5z", "5n", "5k", "2 x 3", "3 times 4", "3 plus 4", "3 minus 4"]
    after += ["12 divided by 4", "x < 5", "3 < x", "3 \\le x", "3 \u2264 x", "2:1"]
    after += [f"5 {scale}" for scale in ("hundred", "thousand", "million", "billion", "Trillion")]
    after += ["1 234", "1.234.567", "1'234", "3 or 4", "3 and 4", "3 to 4", "3; 4", "3 & 4"]
    after += ["3 cups, 4 spoons", "3 cups and 4 spoons", "3 small cups and 4 spoons", "(3; 4)"]

    found = numbers([template.format(expression) for expression in after])

    assert dict(zip(after, found, strict=True)) == dict.fromkeys(after)


def test_a_function_before_a_number_makes_an_expression_of_it() -> None:
    functions = ["sqrt", "ln", "log", "sin", "cos", "tan"]
    before = [f"\\{function}{{4}}" for function in functions] + ["\u221a4", "x^4", "x_4", "|4|"]
    before += [
        "|-4|",
        "x - 4",
        "\\pi - 4",
        "2 - (4",
        "x < 4",
        "x \u2265 4",
        "x \\geq 4",
        "4!",
        "(3)!",
    ]
    before += ["\\frac{x}{4}", "\\dfrac{\\pi}{4}"]

    found = numbers([f"\\boxed{{{expression}}}" for expression in before])

    assert dict(zip(before, found, strict=True)) == dict.fromkeys(before)


def test_units_do_not_make_an_expression_of_a_number() -> None:
    units = "%|\\%| km/h| cm|cm^2| \\text{ m}^3|^\\circ|^{\\circ}|^\u00b0|\u00b0| apples| \\text{ apples}|m|kg| hours per day|th"
    texts = [f"\\boxed{{42{unit}}}" for unit in units.split("|")]

    assert dict(zip(texts, numbers(texts), strict=True)) == dict.fromkeys(texts, "42")


def test_after_these_words_the_first_number_of_a_sentence_may_be_something_else() -> None:
    words = (
        "after|although|as|assuming|at|based|because|before|between|both|but|by|clear|correct|due|during|each|every|find|for|found"
        "|from|given|helpful|if|in|incorrect|into|let|not|of|on|out|over|per|right|since|so|step|than|to|using|valid|we|when|where"
        "|which|while|with|within|without|wrong"
    )
    texts = [f"The answer is that {word} 12 eggs he has 9." for word in words.split("|")]

    assert numbers(texts) == [None] * len(texts)
    assert numbers(["The answer is that he has 12 eggs in 9 days."]) == ["12"]


def test_a_reason_after_an_equation_is_not_part_of_it() -> None:
    reasons = "as|because|for|given|if|since|when|where|with"
    texts = [f"Answer: y = 13 {reason} x = 3" for reason in reasons.split("|")]

    assert numbers(texts) == ["13"] * len(texts)


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
        found = numbers([begin + equation for equation in results])
        assert dict(zip(results, found, strict=True)) == results


def test_these_words_may_stand_between_a_marker_and_its_letter() -> None:
    words = (
        "option|choice|letter|answer|the|therefore|thus|clearly|indeed|simply|definitely|most likely|likely|probably|then"
        "|still|now|only"
    )
    texts = [f"The answer is {word} B because A is not." for word in words.split("|")]

    assert letters(texts) == ["B"] * len(texts)


def test_a_letter_before_any_of_these_words_is_no_article() -> None:
    words = "and|as|because|but|due|for|given|is|or|since|which|with"
    texts = [f"The answer is A {word} it seems." for word in words.split("|")]

    assert letters(texts) == ["A"] * len(texts)


def test_a_letter_is_called_correct_in_any_of_these_ways() -> None:
    verbs = ("is", "must be", "would be", "should be", "has to be", "seems")
    adverbs = (
        "",
        *(
            f"{a} "
            for a in ["clearly", "therefore", "thus", "indeed", "definitely", "actually", "also"]
        ),
    )
    articles = ("", "the ", "our ", "my ", "the only ", "the single ", "the most ", "**the ")
    adjectives = ("correct", "right", "best", "true", "accurate", "appropriate")
    texts = [f"So B {verb} the correct one." for verb in verbs]
    texts += [f"So option B is {adverb}correct." for adverb in adverbs]
    texts += [f"So (B) is {article}correct answer." for article in articles]
    texts += [f"So **B** is the {adjective} answer." for adjective in adjectives]
    texts += [
        "So B, is correct.",
        "So B (Rome) is correct",
        'So "B" is correct',
        "So B) is correct",
    ]

    assert dict(zip(texts, letters(texts), strict=True)) == dict.fromkeys(texts, "B")
    assert (
        letters(["So B is not correct.", "SoB is correct.", "So B was correctable."]) == [None] * 3
    )


def test_the_right_option_is_announced_in_any_of_these_ways() -> None:
    kinds = [
        f"{adjective} {noun}"
        for adjective in ("correct", "right", "best", "appropriate", "accurate", "Correct")
        for noun in ("option", "choice", "one", "letter")
    ]
    texts = [f"So the {kind} is B. Then A" for kind in kinds]
    texts += [
        f"So the correct option {verb} B. Then A" for verb in ("would be", "should be", "must be")
    ]
    texts += ["Correct option: B. Then A", "Correct choice = B. Then A", "**Correct option**: B"]

    assert letters(texts) == ["B"] * len(texts)


def test_a_first_option_that_is_rejected_is_no_answer() -> None:
    words = "incorrect|wrong|false|not correct|not right|not true|not the one"
    texts = [f"A. Paris: {word}" for word in words.split("|")]
    texts += ["A. This isn't it", "A. This is not it", "A. It cannot be so"]

    assert letters(texts) == [None] * len(texts)
    assert letters(["A. Paris is it"]) == ["A"]


def test_a_list_of_the_options_is_no_answer() -> None:
    texts = ["(A) Paris\n(B) Rome", "A. Paris\nB. Rome", "A: Paris\n  * B: Rome"]
    texts += ["A) Paris\n- B) Rome", "A. Paris\nOption B: Rome", "A. Paris\n[B] Rome"]
    texts += ["A. Paris\n**B**. Rome"]

    assert dict(zip(texts, letters(texts), strict=True)) == dict.fromkeys(texts)


def test_several_letters_are_no_answer() -> None:
    several = "A or B|A and B|A, B|A, and B|A/B|A & B|A; B|(A) or (B)|**A** or **B**|A or option B"
    several += "|(A), (B) and (C)|A and/or B"
    texts = [
        template.format(some)
        for some in several.split("|")
        for template in ("The answer is {}", "\\boxed{{{}}}", "Answer: {}.")
    ]

    assert dict(zip(texts, letters(texts), strict=True)) == dict.fromkeys(texts)


def test_words_after_a_letter_are_no_other_letter() -> None:
    ends = ("B, I think", "B and I am sure", "B, as always", "B. A is wrong", "B, not a")
    texts = [f"The answer is {end}" for end in ends]

    assert dict(zip(texts, letters(texts), strict=True)) == dict.fromkeys(texts, "B")


def test_what_is_said_about_an_answer_is_not_the_answer() -> None:
    said = (
        "correct|right|wrong|incorrect|clear|helpful|useful|based on|because|derived|obtained|found|given|as follows|shown"
        "|below|above|explained|to the question|easy to"
    )
    texts = [f"The answer is yes.\nThis answer is {word} x." for word in said.split("|")]

    assert dict(zip(texts, words(texts), strict=True)) == dict.fromkeys(texts, "yes")


def test_a_reason_after_a_text_answer_is_not_part_of_it() -> None:
    reasons = "because|since|as it|as he|as she|as they|as the|as this|as that|as we|which is|which means|so that"
    texts = [
        f"The answer is Paris{comma} {reason} x"
        for reason in reasons.split("|")
        for comma in ("", ",")
    ]

    values = scored("text", generations(texts, "Paris"))["value"].to_pylist()

    assert dict(zip(texts, values, strict=True)) == dict.fromkeys(texts, 1.0)


def test_a_sentence_ends_at_a_period_that_ends_no_abbreviation() -> None:
    expected = {
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
    found = words([f"The answer is {text}" for text in expected])

    assert dict(zip(expected, found, strict=True)) == expected

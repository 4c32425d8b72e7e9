"""Short word problems with one or two steps of arithmetic and a worked solution."""

import random
from collections.abc import Iterator
from dataclasses import dataclass

from infra.demo.holdout import is_held_out

NAMES = (
    "Ada", "Ben", "Carla", "Dmitri", "Elif", "Farid", "Greta", "Hugo", "Ines", "Jonas",
    "Keiko", "Lena", "Malik", "Nora", "Oskar", "Priya", "Quinn", "Rosa", "Samir", "Tilda",
    "Umar", "Vera", "Wanda", "Yusuf",
)  # fmt: skip
THINGS = (
    "pens", "shells", "stamps", "marbles", "buttons", "coins", "cards", "apples", "beads",
    "stickers", "pencils", "candles", "cookies", "tickets", "plums", "bricks",
)  # fmt: skip
BOXES = ("boxes", "bags", "jars", "baskets", "trays", "packs")

LARGE = (6, 30)
SMALL = (2, 9)
FACTOR = (2, 5)
TIMES = (2, 9)


@dataclass(frozen=True)
class Template:
    """A kind of word problem.

    Attributes:
        text: The question, with the fields name, other, things, boxes, a, b and c.
        steps: The lines of the solution: words, then an expression. `x` in an expression is the result of the line
            before.
        ranges: Smallest and largest value of a, b and, if used, c.
    """

    text: str
    steps: tuple[tuple[str, str], ...]
    ranges: tuple[tuple[int, int], ...]


TEMPLATES = (
    Template(
        "{name} has {a} {things} and finds {b} more. How many {things} does {name} have now?",
        (("In total", "a+b"),),
        (LARGE, SMALL),
    ),
    Template(
        "There are {a} {things} on the table and {b} {things} on the floor. "
        "How many {things} are there?",
        (("In total", "a+b"),),
        (LARGE, SMALL),
    ),
    Template(
        "{name} had {a} {things} and gave {b} of them to {other}. How many {things} are left?",
        (("Left over", "a-b"),),
        (LARGE, SMALL),
    ),
    Template(
        "{name} has {a} {things}. {other} has {b} fewer. How many {things} does {other} have?",
        (("{other} has", "a-b"),),
        (LARGE, SMALL),
    ),
    Template(
        "{name} packs {a} {boxes} with {b} {things} each. How many {things} are packed?",
        (("The {boxes} hold", "a*b"),),
        (FACTOR, TIMES),
    ),
    Template(
        "One of the {things} costs {b} dollars. How many dollars does {name} pay for {a} {things}?",
        (("The price is", "a*b"),),
        (FACTOR, TIMES),
    ),
    Template(
        "{name} buys {a} {boxes} of {b} {things} and already had {c} {things}. "
        "How many {things} does {name} have in the end?",
        (("The {boxes} hold", "a*b"), ("In total", "x+c")),
        (FACTOR, TIMES, SMALL),
    ),
    Template(
        "{name} fills {a} {boxes} with {b} {things} each and then loses {c} {things}. "
        "How many {things} remain?",
        (("The {boxes} hold", "a*b"), ("Left over", "x-c")),
        (FACTOR, TIMES, SMALL),
    ),
    Template(
        "{name} collects {a} {things} on Monday, {b} on Tuesday and {c} on Friday. "
        "How many {things} is that?",
        (("By Tuesday", "a+b"), ("In total", "x+c")),
        (LARGE, SMALL, SMALL),
    ),
    Template(
        "{name} had {a} {things}, bought {b} more and sold {c}. How many {things} are left?",
        (("In total", "a+b"), ("Left over", "x-c")),
        (LARGE, SMALL, SMALL),
    ),
    Template(
        "{name} has {a} {things}. {other} has {b} more than {name}. "
        "How many {things} do they have together?",
        (("{other} has", "a+b"), ("In total", "x+a")),
        (LARGE, SMALL),
    ),
    Template(
        "A shop has {a} {things}. It sells {b} in the morning and {c} at night. "
        "How many {things} are left?",
        (("After the morning", "a-b"), ("Left over", "x-c")),
        (LARGE, SMALL, SMALL),
    ),
)


def _calculate(expression: str, values: dict[str, int]) -> tuple[str, int]:
    left, operator, right = values[expression[0]], expression[1], values[expression[2]]
    result = {"+": left + right, "-": left - right, "*": left * right}[operator]
    return f"{left}{operator}{right}={result}", result


def word_problems(rng: random.Random, *, held_out: bool) -> Iterator[dict[str, str]]:
    """Yield word problems without end, as rows with `question` and `answer`; problems may repeat.

    Args:
        rng: Random numbers for all choices.
        held_out: True for test problems, False for training problems. The same template with the same numbers is always
            in the same group, whatever its names and things are.
    """
    while True:
        index = rng.randrange(len(TEMPLATES))
        template = TEMPLATES[index]
        numbers = [rng.randint(low, high) for low, high in template.ranges]
        if is_held_out(f"{index} {numbers}") != held_out:
            continue
        name, other = rng.sample(NAMES, 2)
        words = {
            "name": name,
            "other": other,
            "things": rng.choice(THINGS),
            "boxes": rng.choice(BOXES),
        }
        values = dict(zip("abc", numbers, strict=False))
        lines = []
        for phrase, expression in template.steps:
            calculation, values["x"] = _calculate(expression, values)
            lines.append(f"{phrase.format(**words)} {calculation}.")
            if values["x"] < 1:
                break
        else:
            lines.append(f"#### {values['x']}")
            question = template.text.format(**words, **values)
            yield {"question": question, "answer": "\n".join(lines)}

"""Options with the price of a model's tokens."""

from typing import Annotated

from cyclopts import Group, Parameter

COST = Group("Cost", sort_key=7.7)

PriceInput = Annotated[
    float | None,
    Parameter(
        group=COST, help="Price of a million tokens of prompts, to show what the answers cost."
    ),
]
PriceOutput = Annotated[
    float | None,
    Parameter(group=COST, help="Price of a million generated tokens, reasoning included."),
]


def price_of(price_input: float | None, price_output: float | None) -> dict[str, float] | None:
    """Return the parameter `price` of a flow; None if no price is given."""
    given = {"input": price_input, "output": price_output}
    return {name: price for name, price in given.items() if price is not None} or None

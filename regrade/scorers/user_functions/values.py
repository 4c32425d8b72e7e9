"""Values that a user's scorer returns for an answer, and their check."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Real


@dataclass(frozen=True, slots=True)
class Score:
    """Score of an answer, with the value that was read from it."""

    value: float | bool | None
    """Number from 0 (wrong) to 1 (right); None if nothing could be read from the answer."""
    extracted: str | None = None
    """Text that was read, for `regrade show` and the majority vote; None: the answer itself."""
    metrics: Mapping[str, float | bool] | None = None
    """Further finite numbers of this answer by name, each with its own mean."""


EXPECTED = "expected True, False, a number from 0 to 1, None or a Score"


def checked(result: object) -> Score:
    """Convert the result of a scoring function to a `Score`.

    Raises:
        ValueError: If it is not the value of a score; the message has it and the expectation.
    """
    score = result if isinstance(result, Score) else Score(result)  # type: ignore[arg-type]
    if score.value is not None:
        value = _number(score.value)
        if value is None:
            raise ValueError(f"returned {score.value!r}; {EXPECTED}")
        if not 0 <= value <= 1:
            raise ValueError(
                f"returned {score.value!r}; {EXPECTED}. Divide by the largest possible value"
            )
    if score.extracted is not None and not isinstance(score.extracted, str):
        raise ValueError(f"has the extracted value {score.extracted!r}; expected a text or None")
    for name, metric in (score.metrics or {}).items():
        if _number(metric) is None:
            raise ValueError(f"has the metric {name!r} = {metric!r}; expected a finite number")
    return score


def _number(value: object) -> float | None:
    """Return a finite number, also of NumPy, or None."""
    item = getattr(value, "item", None)
    plain = item() if callable(item) else value
    if not isinstance(plain, Real):
        return None
    number = float(plain)
    return number if math.isfinite(number) else None


def as_number(value: float | bool | None) -> float | None:
    """Return a checked value as a float."""
    return None if value is None else _number(value)

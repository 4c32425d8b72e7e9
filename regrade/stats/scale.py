"""Scale of the values of a scoring: shares from 0 to 1, or points such as 1 to 3."""

from typing import Literal, Self, overload

from pydantic import Field, model_validator

from regrade.settings import StrictModel
from regrade.stats.estimates import FloatArray

Unit = Literal["%", ""]
"""`%`: shares, shown in per cent; differences are percentage points. Empty: numbers shown as they are."""


def percent(value: float | None, digits: int | None = 1) -> str:
    """Return a share in per cent, such as `74.5 %`; a dash for None.

    Args:
        value: Share, from 0 to 1.
        digits: Decimals; None: as many as are needed, such as `90 %`.
    """
    if value is None:
        return "-"
    return f"{100 * value:.4g} %" if digits is None else f"{100 * value:.{digits}f} %"


class Scale(StrictModel):
    """Lowest and highest value that a scorer gives, and the unit in which people read them."""

    low: float = Field(0.0, allow_inf_nan=False)
    high: float = Field(1.0, allow_inf_nan=False)
    unit: Unit = "%"

    @model_validator(mode="after")
    def _check(self) -> Self:
        if not self.low < self.high:
            raise ValueError(f"the scale begins at {self.low} and ends at {self.high}")
        if self.unit == "%" and (self.low, self.high) != (0.0, 1.0):
            raise ValueError("a scale in per cent goes from 0 to 1")
        return self

    @property
    def span(self) -> float:
        """Largest possible difference of two values."""
        return self.high - self.low

    @overload
    def value_of(self, share: float) -> float: ...
    @overload
    def value_of(self, share: None) -> None: ...
    def value_of(self, share: float | None) -> float | None:
        """Return the value at a share of the scale, from 0 (`low`) to 1 (`high`)."""
        return None if share is None else self.low + self.span * share

    @overload
    def shares(self, values: float) -> float: ...
    @overload
    def shares(self, values: FloatArray) -> FloatArray: ...
    def shares(self, values: FloatArray | float) -> FloatArray | float:
        """Return values as shares of the scale, from 0 to 1; NaN stays."""
        return (values - self.low) / self.span

    @property
    def points_per_unit(self) -> float:
        """Number that people read for a difference of 1 in the values: 100 for shares."""
        return 100.0 if self.unit == "%" else 1.0

    def text(self, value: float | int | None, digits: int = 1) -> str:
        """Return a mean, such as `74.5 %` or `2.413`; a dash for None.

        Args:
            value: Mean on this scale.
            digits: Decimals in per cent; numbers have one more.
        """
        if value is None:
            return "-"
        return percent(value, digits) if self.unit == "%" else f"{value:.{digits + 1}f}"

    def mean_text(self, value: float | None, error: float | None, digits: int = 1) -> str:
        """Return a mean with its standard error if known, such as `74.5 ± 2.2 %` or `2.41 ± 0.03`.

        Without an error of 0: answers that are all alike say nothing about how sure their mean is; its interval does.
        """
        if value is None or not error:
            return self.text(value, digits)
        if self.unit == "%":
            return f"{100 * value:.{digits}f} ± {100 * error:.{digits}f} %"
        return f"{value:.{digits + 1}f} ± {error:.{digits + 1}f}"

    def interval_text(self, low: float | None, high: float | None, digits: int = 1) -> str:
        """Return an interval, such as `70.1 to 78.9 %`; a dash if it is not known."""
        if low is None or high is None:
            return "-"
        if self.unit == "%":
            return f"{100 * low:.{digits}f} to {100 * high:.{digits}f} %"
        return f"{low:.{digits + 1}f} to {high:.{digits + 1}f}"

    def difference_text(self, value: float | None, digits: int = 2) -> str:
        """Return a signed difference without unit, such as `+1.25`; a dash for None."""
        return "-" if value is None else f"{self.points_per_unit * value:+.{digits}f}"

    def size_text(self, value: float | None, digits: int = 2) -> str:
        """Return the size of a difference without sign and unit; a dash for None."""
        return "-" if value is None else f"{self.points_per_unit * value:.{digits}f}"


SHARES = Scale()
"""Scale of a scorer that says right or wrong."""

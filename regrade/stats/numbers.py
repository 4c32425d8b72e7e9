"""Shares and means as text, with their standard errors."""

from collections.abc import Mapping

from regrade.stats.metrics import average_name, further_averages
from regrade.stats.scale import SHARES, Scale


def average_text(
    accuracy: float | None,
    error: float | None,
    repeats: int,
    digits: int = 1,
    scale: Scale = SHARES,
) -> str:
    """Return a mean with its standard error, and with its name if questions had several answers: `avg@8 74.5 ± 2.2 %`."""
    return f"{average_name(repeats)} {scale.mean_text(accuracy, error, digits)}".strip()


def repeats_text(metrics: Mapping[str, float | int | None], repeats: int) -> str:
    """Return what several answers show besides their average: `pass@8 85.0 ± 2.1 %, maj@8 78.0 ± 2.4 %`; "" without."""
    averages = further_averages(metrics, repeats)
    return ", ".join(f"{name} {SHARES.mean_text(value, error)}" for name, value, error in averages)

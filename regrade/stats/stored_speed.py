"""Speed of stored answers, from the times that their rows hold: for engines that do not measure themselves."""

import numpy as np

from regrade.stats.estimates import FloatArray
from regrade.stats.speed import PERCENTILES, Speed, Spread


def speed_of_times(
    latency: FloatArray, time_to_first_token: FloatArray, tokens: FloatArray
) -> Speed | None:
    """Return latencies as the client saw them; None without any.

    Args:
        latency: Shape (n_rows,), seconds from the request to the last token; NaN if not known.
        time_to_first_token: Shape (n_rows,), seconds; NaN if not known.
        tokens: Shape (n_rows,), tokens of the answers; NaN if not known.
    """
    if np.isnan(latency).all():
        return None
    several = tokens > 1
    per_token = (latency - time_to_first_token)[several] / (tokens[several] - 1)
    return Speed(
        measured_by="client",
        ttft=_spread(time_to_first_token),
        tpot=_spread(per_token),
        e2el=_spread(latency),
        requests=int((~np.isnan(latency)).sum()),
    )


def _spread(values: FloatArray) -> Spread | None:
    known = values[~np.isnan(values)].clip(min=0.0)
    if known.size == 0:
        return None
    levels = np.percentile(known, PERCENTILES).tolist()
    named = {f"p{p}": level for p, level in zip(PERCENTILES, levels, strict=True)}
    return Spread(mean=float(known.mean()), n=int(known.size), **named)

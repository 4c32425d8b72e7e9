"""Verdict of each answer: one of a few words, from its score."""

from typing import Literal, get_args

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from regrade.stats.metrics import score_values
from regrade.stats.scale import Scale

Verdict = Literal[
    "right",
    "partly right",
    "wrong",
    "unparsed",
    "unfinished",
    "timeout",
    "measured",
    "failed",
    "not scored",
    "other",
]
"""Every answer has exactly one. `measured`: values, but no right or wrong. `failed`: no answer, or no target; `other`: an outcome that this version does not know."""
VERDICTS: tuple[Verdict, ...] = get_args(Verdict)
_BY_OUTCOME = {
    name: VERDICTS.index(name) for name in ("unparsed", "unfinished", "timeout", "measured")
}

Codes = NDArray[np.int8]
"""Positions in `VERDICTS`."""


def verdict_codes(scores: pa.Table, scale: Scale) -> Codes:
    """Return the verdict of each row of `SCORE_SCHEMA`, as positions in `VERDICTS`: the best value is right, the worst wrong."""
    value = scale.shares(score_values(scores))
    encoded = scores["outcome"].combine_chunks().dictionary_encode()
    names = encoded.dictionary.to_pylist()
    outcome = encoded.indices.to_numpy(zero_copy_only=False)
    codes = np.full(len(value), VERDICTS.index("other"), np.int8)
    for number, name in enumerate(names):
        rows = outcome == number
        if name == "scored":
            codes[rows & (value >= 1)] = VERDICTS.index("right")
            codes[rows & (value > 0) & (value < 1)] = VERDICTS.index("partly right")
            codes[rows & (value <= 0)] = VERDICTS.index("wrong")
        elif name in _BY_OUTCOME:
            codes[rows] = _BY_OUTCOME[name]
    measured = names.index("measured") if "measured" in names else -1
    codes[np.isnan(value) & (outcome != measured)] = VERDICTS.index("failed")
    return codes


def unscored_codes(failed: NDArray[np.bool_]) -> Codes:
    """Return the verdicts of answers without a scoring: `failed` if the request failed, else `not scored`."""
    return np.where(failed, VERDICTS.index("failed"), VERDICTS.index("not scored")).astype(np.int8)

"""Questions that flipped, with what both sides said."""

from collections.abc import Collection
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from regrade.comparing.models import FlipExample
from regrade.comparing.pairing import Graded, Pairs

SHOWN = ("sample_id", "repeat", "prompt", "target", "text")


def flip_examples(
    sides: tuple[Graded, Graded], pairs: Pairs, count: int
) -> tuple[FlipExample, ...]:
    """Return the first questions of each kind, by sample id; with repeats, what was answered first.

    Args:
        sides: Baseline and candidate.
        pairs: Their questions.
        count: Of each kind, at most this many.
    """
    if count == 0:
        return ()
    lost, gained = (np.flatnonzero(mask)[:count] for mask in (pairs.change < 0, pairs.change > 0))
    rows = [*lost, *gained]
    base = _answers(sides[0], {str(pairs.base_id[row]) for row in rows})
    candidate = _answers(sides[1], {str(pairs.candidate_id[row]) for row in rows})
    found = []
    for row in rows:
        old, new = base[str(pairs.base_id[row])], candidate[str(pairs.candidate_id[row])]
        found.append(
            FlipExample(
                kind="right to wrong" if pairs.change[row] < 0 else "wrong to right",
                question=str(pairs.base_id[row]),
                subset=str(pairs.subset[row]),
                prompt=old["prompt"],
                target=old["target"],
                base_text=old["text"],
                base_extracted=old["extracted"],
                candidate_text=new["text"],
                candidate_extracted=new["extracted"],
            )
        )
    return tuple(found)


def _answers(side: Graded, wanted: Collection[str]) -> dict[str, dict[str, Any]]:
    """Return the first repeat of some questions, with what the scorer read."""
    ids = pa.array(sorted(wanted), pa.string())
    found: dict[str, dict[str, Any]] = {}
    start = 0
    for batch in side.answers.batches(SHOWN):
        mask = pc.is_in(batch["sample_id"], value_set=ids).to_numpy(zero_copy_only=False)
        rows = np.flatnonzero(mask.astype(np.bool_))
        for row, stored in zip(
            rows, batch.take(pa.array(rows, pa.int64())).to_pylist(), strict=True
        ):
            known = found.get(stored["sample_id"])
            if known is None or stored["repeat"] < known["repeat"]:
                extracted = side.scores["extracted"][start + int(row)].as_py()
                found[stored["sample_id"]] = stored | {"extracted": extracted}
        start += batch.num_rows
    return found

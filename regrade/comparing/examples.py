"""Examples of questions that one side answered right and the other wrong, with both answers."""

from collections.abc import Collection
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from regrade.comparing.models import FlipExample
from regrade.comparing.pairing import Pairs, ScoredSide
from regrade.errors import DamagedAnswersError, RepositoryError, SettingsError
from regrade.judging.readings import judged_answers
from regrade.rubrics.facts import judge_run

COLUMNS = ("sample_id", "repeat", "prompt", "target", "text")


def flip_examples(
    sides: tuple[ScoredSide, ScoredSide], pairs: Pairs, count: int
) -> tuple[FlipExample, ...]:
    """Return the first flipped questions of each kind, by sample id; of repeats, the first answer.

    Args:
        sides: Baseline and candidate.
        pairs: Paired questions of both sides.
        count: Largest number of examples of each kind.
    """
    if count == 0:
        return ()
    lost, gained = (np.flatnonzero(mask)[:count] for mask in (pairs.change < 0, pairs.change > 0))
    rows = [*lost, *gained]
    base = _answers(sides[0], {str(pairs.base_id[row]) for row in rows})
    candidate = _answers(sides[1], {str(pairs.candidate_id[row]) for row in rows})
    examples = []
    for row in rows:
        old, new = base[str(pairs.base_id[row])], candidate[str(pairs.candidate_id[row])]
        examples.append(
            FlipExample(
                kind="right to wrong" if pairs.change[row] < 0 else "wrong to right",
                question=str(pairs.base_id[row]),
                subset=str(pairs.subset[row]),
                prompt=sides[0].answers.public(old)["prompt"],
                target=old["target"],
                base_text=old["text"],
                base_extracted=old["extracted"],
                candidate_text=new["text"],
                candidate_extracted=new["extracted"],
            )
        )
    return tuple(examples)


def _answers(side: ScoredSide, sample_ids: Collection[str]) -> dict[str, dict[str, Any]]:
    """Return the first repeat of each question by sample id, with the extracted answer."""
    ids = pa.array(sorted(sample_ids), pa.string())
    answers: dict[str, dict[str, Any]] = {}
    start = 0
    for batch in side.answers.batches(COLUMNS):
        mask = pc.is_in(batch["sample_id"], value_set=ids).to_numpy(zero_copy_only=False)
        rows = np.flatnonzero(mask.astype(np.bool_))
        for row, stored in zip(
            rows, batch.take(pa.array(rows, pa.int64())).to_pylist(), strict=True
        ):
            known = answers.get(stored["sample_id"])
            if known is None or stored["repeat"] < known["repeat"]:
                extracted = side.scores["extracted"][start + int(row)].as_py()
                answers[stored["sample_id"]] = stored | {"extracted": extracted}
        start += batch.num_rows
    return _with_judged(side, answers)


def _with_judged(side: ScoredSide, replies: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return the rows of a judge run with the judged answer before the judge's reply; others, and those not at hand, as they are."""
    run = judge_run(side.answers.manifest.specification)
    if run is None or not replies:
        return replies
    try:
        judged = judged_answers(side.answers)
    except (SettingsError, RepositoryError, DamagedAnswersError):
        return replies  # the comparison says which answers are not at hand
    found = {}
    for sample_id, row in replies.items():
        given = judged.get((sample_id, run.place(row["repeat"])[0]))
        shown = (
            {} if given is None else {"prompt": given.question, "text": _both(given.answer, row)}
        )
        found[sample_id] = row | shown
    return found


def _both(answer: str, reply: dict[str, Any]) -> str:
    return f"{answer}\n\nverdict of the judge: {reply['text']}"

"""Pandas frames of answer sets, answers, comparisons and subsets."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from regrade.answers.figures import FIGURES
from regrade.pages.viewer.filters import KINDS
from regrade.pages.viewer.index import AnswerIndex
from regrade.pages.viewer.library import Library, StoredSet
from regrade.pages.viewer.pair_index import PairIndex
from regrade.pages.viewer.settings_apart import settings_apart
from regrade.pages.viewer.texts import ShardReaders
from regrade.pages.viewer.verdicts import VERDICTS
from regrade.records.rubrics.facts import answering_model
from regrade.records.specification import training_step
from regrade.stats.metrics import Metrics, Summary

if TYPE_CHECKING:
    import pandas as pd

SETS = (
    *("answer_set", "model", "judge", "step", "benchmark", "scorer", "accuracy", "stderr", "low"),
    *("high", "by_labels", "n", "unparsed", "truncated", "failed", "rows", "expected", "repeats"),
    *("complete", "stale"),
)
"""Columns of `sets_frame`, without the settings, which follow `benchmark`, and the figures and the date at its end."""
TEXTS = {"question": "question", "prompt": "prompt", "text": "answer", "reasoning": "thought"}
"""Stored columns with texts, and their names in frames."""


def sets_frame(library: Library, sets: Sequence[StoredSet]) -> "pd.DataFrame":
    """Return a row for each answer set, with the settings that distinguish sets of a benchmark, and the headline."""
    import pandas as pd

    apart = settings_apart([stored.manifest for stored in sets])
    rows = [_set_row(stored, library.calibration(stored, stored.headline)) for stored in sets]
    names = list(dict.fromkeys(name for settings in apart for name in settings))
    last = [*(figure.name for figure in FIGURES), "date"]
    renamed = {name: f"setting {name}" if name in (*SETS, *last) else name for name in names}
    for row, settings in zip(rows, apart, strict=True):
        row.update({renamed[name]: settings.get(name) for name in names})
    place = SETS.index("benchmark") + 1
    frame = pd.DataFrame(rows, columns=[*SETS[:place], *renamed.values(), *SETS[place:], *last])
    counts = ("step", "n", "unparsed", "truncated", "failed")
    floats = (*_SHARES, *(figure.name for figure in FIGURES))
    return frame.astype({**dict.fromkeys(counts, "Int64"), **dict.fromkeys(floats, float)})


def _set_row(stored: StoredSet, by_labels: str) -> dict[str, Any]:
    manifest, file = stored.answers.manifest, stored.headline
    spec, metrics = manifest.specification, file.summary.overall if file else None
    model = answering_model(spec)
    return {
        "answer_set": stored.id,
        "model": model.name,
        "judge": None if model is spec.model else spec.model.name,
        "step": training_step(model.name),
        "benchmark": spec.benchmark.name,
        "scorer": file.title if file else None,
        **_numbers(metrics),
        "by_labels": by_labels or None,
        "failed": metrics.failed if metrics else manifest.failed,
        "rows": manifest.rows,
        "expected": manifest.expected,
        "repeats": spec.repeats,
        "complete": manifest.state == "complete",
        "stale": file is not None and file.label in stored.stale,
        **stored.figures,
        "date": manifest.updated_at,
    }


_SHARES = ("accuracy", "stderr", "low", "high")
"""Columns of metrics that are NaN if they are missing."""


def _numbers(metrics: Metrics | None) -> dict[str, Any]:
    if metrics is None:
        return {}
    return {
        "accuracy": metrics.accuracy,
        "stderr": metrics.accuracy_stderr,
        "low": metrics.accuracy_low,
        "high": metrics.accuracy_high,
        "n": metrics.n,
        "unparsed": metrics.unparsed,
        "truncated": metrics.truncated,
    }


def answers_frame(index: AnswerIndex, readers: ShardReaders, *, texts: bool) -> "pd.DataFrame":
    """Return a row for each answer, ordered by question and repeat.

    Args:
        index: Answers with a scoring.
        readers: Read the texts.
        texts: Add question, prompt, answer and thought.
    """
    import pandas as pd

    order = index.by_number
    frame = pd.DataFrame(
        {
            "sample_id": index.sample_id.to_pylist(),
            "number": index.index,
            "repeat": index.repeat,
            "subset": np.array(index.subsets, object)[index.subset] if index.rows else [],
            "outcome": np.array(VERDICTS, object)[index.verdict],
            "value": index.value.astype(np.float64),
            "extracted": index.extracted.to_pylist(),
            "target": index.target.to_pylist(),
            "truncated": index.truncated,
            "tokens": index.tokens.astype(np.float64),
            "seconds": index.seconds.astype(np.float64),
        }
    )
    if texts:
        table = readers.take(index.answers, range(index.rows), tuple(TEXTS))
        for stored, name in TEXTS.items():
            frame[name] = table[stored].to_pylist()
        if index.answers.manifest.withheld:
            frame[["question", "prompt"]] = None
    return frame.iloc[order].reset_index(drop=True)


def pairs_frame(
    pair: PairIndex, base: StoredSet, candidate: StoredSet, readers: ShardReaders, *, texts: bool
) -> "pd.DataFrame":
    """Return a row for each compared question, in the order of the baseline's answers."""
    import pandas as pd

    # `pairs` is ordered by the key that paired them, the index by the baseline's rows.
    pairs = pair.compared.pairs
    place = {str(sample_id): number for number, sample_id in enumerate(pairs.base_id)}
    order = np.array([place[str(sample_id)] for sample_id in pair.sample_id], np.int64)
    sides = pair.compared.sides
    extracted = [
        side.scores["extracted"].take(pa.array(rows, pa.int64())).to_pylist()
        for side, rows in zip(sides, (pair.base_row, pair.candidate_row), strict=True)
    ]
    named = ["index", "target", *(("question", "text") if texts else ())]
    mine = readers.take(base.answers, pair.base_row.tolist(), named)
    frame = pd.DataFrame(
        {
            "sample_id": pair.sample_id,
            "number": mine["index"].to_pylist(),
            "subset": pair.subset,
            "change": np.array(KINDS, object)[pair.kind],
            "base": pairs.base[order],
            "candidate": pairs.candidate[order],
            "base_extracted": extracted[0],
            "candidate_extracted": extracted[1],
            "target": mine["target"].to_pylist(),
        }
    )
    if texts:
        theirs = readers.take(candidate.answers, pair.candidate_row.tolist(), ("text",))
        withheld = base.answers.manifest.withheld
        frame["question"] = None if withheld else mine["question"].to_pylist()
        frame["base_answer"] = mine["text"].to_pylist()
        frame["candidate_answer"] = theirs["text"].to_pylist()
    return frame


def subsets_frame(summary: Summary) -> "pd.DataFrame":
    """Return a row for each subset, the lowest accuracy first; subsets without an accuracy are last."""
    import pandas as pd

    rows = [
        {
            "subset": part.name,
            "category": part.category,
            **_numbers(part.metrics),
            "failed": part.metrics.failed,
        }
        for part in summary.subsets
    ]
    columns = ["subset", "category", *_SHARES, "n", "unparsed", "truncated", "failed"]
    frame = pd.DataFrame(rows, columns=columns).astype(dict.fromkeys(_SHARES, float))
    return frame.sort_values(["accuracy", "subset"], ignore_index=True)

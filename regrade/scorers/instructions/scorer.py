"""Scorer of followed instructions, shared by IFEval and IFBench."""

import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa

from regrade.processes.limited import LimitedProcesses, Limits, Stopped, available_cores
from regrade.records.columns import SCORING_SCHEMA, json_text
from regrade.scorers.base import TargetKind, answer_part
from regrade.scorers.extraction import columns as c
from regrade.scorers.instructions.resources import environment, folders
from regrade.scorers.sessions import BatchScore, ScoringContext, Unit
from regrade.settings import ScorerName, ScoringOptions
from regrade.settings.errors import SettingsError
from regrade.stats.named import Aggregate

if (
    TYPE_CHECKING
):  # imported by the child processes; named here so that it is part of the scorer's hash
    from regrade.scorers.instructions.checking import check  # noqa: F401

logger = logging.getLogger("regrade.score")
LIMITS = Limits(cpu_seconds=10.0, seconds=120.0, memory=1 << 30)
"""Limits of an answer. Most answers take milliseconds; patterns of the checkers are slow on some endless texts."""
_CHECK = "regrade.scorers.instructions.checking:check"
Mode = Literal["strict", "loose"]
_MODES: tuple[Mode, ...] = ("strict", "loose")


class InstructionsScorer:
    """Checks whether an answer follows all instructions of its request."""

    name: ScorerName
    version = 3
    description: str
    headline: Mode
    """Mode of the value: the unchanged answer, or also without its first line, last line and asterisks."""
    resources: tuple[str, ...]
    """NLTK's data that the checks read."""
    unparsed = "An answer of white space only."
    targets: TargetKind = "text"
    columns: tuple[str, ...] = ("text", "doc")
    unit: Unit = "rows"
    votes = False
    code = ("regrade.processes.limited",)

    def environment(self, options: ScoringOptions) -> Mapping[str, str]:  # noqa: ARG002 - one way to run
        """Return the versions of the library and its data; see `SessionScorer.environment`."""
        limits = {"cpu_seconds": f"{LIMITS.cpu_seconds:g}", "memory_mib": str(LIMITS.memory >> 20)}
        return {**environment(self.name, self.resources), **limits}

    @contextmanager
    def session(self, context: ScoringContext) -> Iterator[BatchScore]:
        """Start the child processes; see `SessionScorer.session`."""
        environment(self.name, self.resources)
        shared = {"benchmark": self.name, "data": folders()}
        warm_up = [{**shared, "prompt": "", "answer": "", "instructions": []}]
        processes = context.options.processes or available_cores()
        with LimitedProcesses(_CHECK, LIMITS, processes=processes, warm_up=warm_up) as pool:
            yield lambda batch: self._score(batch, pool, shared)

    def aggregates(self, scores: pa.Table, context: ScoringContext) -> Sequence[Aggregate]:  # noqa: ARG002
        """Return the share of all instructions that are followed; a request with two counts twice."""
        rows = [json.loads(text) for text in scores["metrics"].to_pylist() if text is not None]
        total = sum(row["instructions"] for row in rows)
        if not total:
            return ()
        return [
            Aggregate(
                subset="",
                name=f"instruction_{mode}",
                value=sum(row[f"followed_{mode}"] for row in rows) / total,
                n=int(total),
            )
            for mode in _MODES
        ]

    def _score(
        self, batch: pa.RecordBatch, pool: LimitedProcesses, shared: Mapping[str, Any]
    ) -> pa.RecordBatch:
        parts = answer_part(batch)
        # The blank line that ends a thought is no part of the answer, and no paragraph.
        thought = c.mask(parts.start > 0)
        answers = parts.where(thought).left_trimmed().otherwise(parts).text.to_pylist()
        tasks: dict[int, dict[str, Any]] = {}
        for number, (answer, document) in enumerate(
            zip(answers, batch["doc"].to_pylist(), strict=True)
        ):
            if batch["error"][number].is_valid:
                continue
            if document is None:
                raise SettingsError(
                    f"Scorer '{self.name}' needs the instructions of each request (column `doc`), which sample "
                    f"'{batch['sample_id'][number]}' lacks. Choose another scorer with `--scorer`."
                )
            tasks[number] = {**json.loads(document), **shared, "answer": answer or ""}
        rows: list[Mapping[str, Any]] = [_FAILED] * len(batch)
        for (number, task), result in zip(tasks.items(), pool.map(tasks.values()), strict=True):
            rows[number] = self._row(str(batch["sample_id"][number]), task, result)
        columns = {
            name: pa.array([row.get(name) for row in rows], SCORING_SCHEMA.field(name).type)
            for name in SCORING_SCHEMA.names
        }
        columns |= {name: batch[name] for name in ("sample_id", "repeat", "subset")}
        columns["truncated"] = c.is_equal(c.column(batch, "finish_reason"), "length")
        return pa.record_batch(
            [columns[name] for name in SCORING_SCHEMA.names], schema=SCORING_SCHEMA
        )

    def _row(self, sample: str, task: Mapping[str, Any], result: Any) -> Mapping[str, Any]:  # noqa: ANN401 - JSON
        instructions = task["instructions"]
        if isinstance(result, Stopped):
            logger.warning(
                "%s: sample '%s' is not decided: beyond the limit of %s",
                self.name,
                sample,
                result.limit,
            )
            none = [False] * len(instructions)
            result = {"strict": none, "loose": none, "problems": []}
            return {"value": 0.0, "outcome": "timeout", "metrics": _metrics(result)}
        if "unusable" in result:
            logger.warning(
                "%s: sample '%s' is not scored: %s", self.name, sample, result["unusable"]
            )
            return _FAILED
        for problem in result["problems"]:
            logger.warning("%s: sample '%s': %s; not followed", self.name, sample, problem)
        followed = result[self.headline]
        names = [one["id"] for one, done in zip(instructions, followed, strict=True) if done]
        is_read = bool(task["answer"].strip())
        return {
            "value": float(all(followed)),
            "extracted": (", ".join(names) or "none") if is_read else None,
            "outcome": "scored" if is_read else "unparsed",
            "metrics": _metrics(result),
        }


def _metrics(result: Mapping[str, Any]) -> str:
    """Return the numbers of an answer as JSON."""
    metrics = {"instructions": len(result["strict"])}
    for mode in _MODES:
        metrics |= {f"prompt_{mode}": int(all(result[mode])), f"followed_{mode}": sum(result[mode])}
    return json_text(metrics)


_FAILED: Mapping[str, Any] = {"outcome": "failed"}

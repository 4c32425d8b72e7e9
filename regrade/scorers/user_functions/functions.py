"""Scorers made of a function: from an answer to a value, or from columns to values.

The names of a function's parameters say what it reads:

- `answer`: the answer without reasoning, as all scorers read it;
- `targets`: the accepted answers, as a list; `target`: the stored text, unchanged;
- the name of a column of stored answers, such as `question` or `choices`;
- `row`: all of these, as a mapping;
- `batch`, alone: many rows as a record batch with the column `answer`; the function returns a value for each row.
"""

import inspect
import json
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from regrade.records.columns import GENERATION_SCHEMA, SCORING_SCHEMA, TOKEN_COLUMNS
from regrade.scorers.base import SHARED_COLUMNS, TargetKind, answer_part
from regrade.scorers.extraction import columns as c
from regrade.scorers.extraction.accepted import accepted_texts
from regrade.scorers.user_functions.values import Score, as_number, checked
from regrade.settings.errors import PluginError, SettingsError

_KEPT = 200
"""Longest extracted value stored in the scores, in characters."""
_RANKED = ("label_logprobs", "label_method", *TOKEN_COLUMNS)
"""Columns of ranked choices and of tokens. `row` and `batch` lack them, unless a parameter has the name of one."""
_JSON = ("doc",)
"""Columns of JSON text that a function gets decoded."""


class FunctionScorer:
    """Scorer of a user's function."""

    version = 1
    unparsed = "An answer for which the function returns None."

    def __init__(
        self,
        name: str,
        function: Callable[..., object],
        options: Mapping[str, object] = MappingProxyType({}),
    ) -> None:
        """Read the function's signature.

        Args:
            name: Name of the scorer, also in stored scores.
            function: See the module's docstring.
            options: Arguments that replace defaults of the function.

        Raises:
            PluginError: If a parameter has an unknown name.
        """
        self.name = name
        self._function, self._options = function, options
        described = inspect.cleandoc(function.__doc__ or "").partition("\n\n")[0]
        self.description = " ".join(described.split()) or "A function without a docstring."
        self._parameters = _parameters(name, function)
        self._takes_batches = "batch" in self._parameters
        self.targets: TargetKind = "texts" if "targets" in self._parameters else "text"
        self.columns = _columns(self._parameters)

    def score(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return a row of `SCORING_SCHEMA` for each row; see `Scorer.score`.

        Raises:
            SettingsError: If the function raises an error, or returns no value of a score. Names the sample.
        """
        answers = answer_part(batch).text
        wide = batch.append_column("answer", answers)
        asked = "label_logprobs" if "label_logprobs" in self._parameters else "answer"
        given = c.both(c.is_missing(c.column(batch, "error")), c.is_present(c.column(wide, asked)))
        values = self._of_batch(wide, given) if self._takes_batches else self._of_rows(wide, given)
        return _table(batch, c.shortened(answers, _KEPT), values)

    def _of_rows(self, batch: pa.RecordBatch, given: c.Mask) -> "_Values":
        rows = zip(_rows(batch, self._parameters), given.to_pylist(), strict=True)
        return _of_scores([self._of_row(row) if there else Score(None) for row, there in rows])

    def _of_row(self, row: Mapping[str, Any]) -> Score:
        arguments = {name: row if name == "row" else row[name] for name in self._parameters}
        try:
            result = self._function(**arguments, **self._options)
        except Exception as error:
            raise SettingsError(
                f"Scorer '{self.name}' failed on {_place(row)}: {type(error).__name__}: {error}"
                f"{_line(error)}."
            ) from error
        try:
            return checked(result)
        except ValueError as error:
            raise SettingsError(f"Scorer '{self.name}', {_place(row)}: it {error}.") from error

    def _of_batch(self, batch: pa.RecordBatch, given: c.Mask) -> "_Values":
        first = {name: batch[name][0].as_py() for name in ("sample_id", "repeat")}
        try:
            results = self._function(batch, **self._options)
        except Exception as error:
            raise SettingsError(
                f"Scorer '{self.name}' failed on a batch of {len(batch):,} answers from {_place(first)}: "
                f"{type(error).__name__}: {error}{_line(error)}."
            ) from error
        values = _listed(results)
        if values is None or len(values) != len(batch):
            got = type(results).__name__ if values is None else f"{len(values):,} values"
            raise SettingsError(
                f"Scorer '{self.name}' returned {got} for a batch of {len(batch):,} answers; expected a value for each."
            )
        if isinstance(values, pa.Array):
            column = _in_range(values)
            if column is not None:
                return _Values(pc.if_else(given, column, None), *_nothing(len(batch), 2))
            values = values.to_pylist()
        scores = []
        for number, (value, there) in enumerate(zip(values, given.to_pylist(), strict=True)):
            try:
                scores.append(checked(value if there else None))
            except ValueError as error:
                row = {name: batch[name][number].as_py() for name in ("sample_id", "repeat")}
                raise SettingsError(f"Scorer '{self.name}', {_place(row)}: it {error}.") from error
        return _of_scores(scores)


@dataclass(frozen=True, slots=True)
class _Values:
    """Values of the rows of a batch, as columns; null for a row without a value."""

    value: "pa.Array[Any]"
    extracted: c.Strings
    metrics: c.Strings


def _of_scores(scores: Sequence[Score]) -> _Values:
    return _Values(
        pa.array([as_number(score.value) for score in scores], pa.float64()),
        pa.array([score.extracted and score.extracted[:_KEPT] for score in scores], pa.string()),
        pa.array([_metrics_text(score) for score in scores], pa.string()),
    )


def _in_range(values: "pa.Array[Any]") -> "pa.Array[Any] | None":
    """Return a column of booleans or numbers as floats; None for other columns, or if a value is not from 0 to 1."""
    is_number = any(
        check(values.type)
        for check in (pa.types.is_boolean, pa.types.is_integer, pa.types.is_floating)
    )
    if not is_number:
        return None
    numbers = values.cast(pa.float64())
    known = numbers.drop_null().to_numpy()
    return numbers if bool(np.all((known >= 0) & (known <= 1))) else None


def _nothing(rows: int, columns: int) -> list[c.Strings]:
    return [pa.nulls(rows, pa.string())] * columns


def _parameters(name: str, function: Callable[..., object]) -> tuple[str, ...]:
    known = ("answer", "targets", "row", "batch", *GENERATION_SCHEMA.names)
    parameters = inspect.signature(function).parameters.values()
    taken = [
        parameter
        for parameter in parameters
        if parameter.default is parameter.empty or parameter.name in known
    ]
    for parameter in taken:
        is_positional = parameter.kind is parameter.POSITIONAL_ONLY and parameter.name != "batch"
        if parameter.name not in known or is_positional:
            raise PluginError(
                "scorer",
                name,
                f"its parameter '{parameter}' cannot be given. Parameters are `answer`, `target`, `targets`, `row`, or "
                "the name of a column of stored answers, such as `question`; or `batch` alone, for whole columns",
            )
    names = tuple(parameter.name for parameter in taken)
    if not names or ("batch" in names and len(names) > 1):
        got = ", ".join(names) or "none"
        raise PluginError(
            "scorer",
            name,
            f"it takes the parameters: {got}. Expected `answer` and others, or `batch` alone",
        )
    return names


def _columns(parameters: Sequence[str]) -> tuple[str, ...]:
    """Return the columns of stored answers that are read."""
    if "batch" in parameters or "row" in parameters:
        kept = [name for name in GENERATION_SCHEMA.names if name not in _RANKED]
    else:
        kept = ["text"]
    aliases = {"answer": "text", "targets": "target", "row": "text", "batch": "text"}
    named = [aliases.get(name, name) for name in parameters]
    return tuple(dict.fromkeys(name for name in (*kept, *named) if name not in SHARED_COLUMNS))


def _rows(batch: pa.RecordBatch, parameters: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Yield the rows as mappings, with `answer` and, if a parameter has this name, `targets`."""
    several = "targets" in parameters or "row" in parameters
    for row in batch.to_pylist():
        if several:
            target = row.get("target")
            row["targets"] = None if target is None else accepted_texts(target)
        for name in _JSON:
            if row.get(name) is not None:
                row[name] = json.loads(row[name])
        yield row


def _listed(results: object) -> "list[object] | pa.Array[Any] | None":
    if isinstance(results, pa.ChunkedArray):
        return results.combine_chunks()
    if isinstance(results, pa.Array):
        return results
    tolist = getattr(results, "tolist", None)  # NumPy and pandas
    values = tolist() if callable(tolist) else results
    if isinstance(values, Iterable) and not isinstance(values, str | bytes | Mapping):
        return list(values)
    return None


def _place(row: Mapping[str, Any]) -> str:
    return f"sample '{row['sample_id']}', repeat {row['repeat']}"


def _line(error: Exception) -> str:
    """Return the place in the user's code that raised the error."""
    frames = traceback.extract_tb(error.__traceback__)[1:]
    if not frames:
        return ""
    code = f": `{frames[-1].line}`" if frames[-1].line else ""
    return f" (in `{frames[-1].name}`, line {frames[-1].lineno}{code})"


def _table(batch: pa.RecordBatch, answers: c.Strings, values: _Values) -> pa.RecordBatch:
    failed = c.is_present(c.column(batch, "error"))
    read = c.both(values.value.is_valid(), c.negated(failed))
    extracted = c.choose(c.is_present(values.extracted), values.extracted, answers)
    columns = {
        **{name: batch[name] for name in ("sample_id", "repeat", "subset")},
        "value": pc.if_else(failed, None, values.value.fill_null(0.0)),
        "extracted": c.choose(read, extracted, None),
        "outcome": c.choose(failed, "failed", c.choose(read, "scored", "unparsed")),
        "truncated": c.is_equal(c.column(batch, "finish_reason"), "length"),
        "metrics": values.metrics,
    }
    arrays = [
        columns.get(field.name, pa.nulls(batch.num_rows, field.type)) for field in SCORING_SCHEMA
    ]
    return pa.record_batch(arrays, schema=SCORING_SCHEMA)


def _metrics_text(score: Score) -> str | None:
    if not score.metrics:
        return None
    return json.dumps({name: as_number(value) for name, value in score.metrics.items()})

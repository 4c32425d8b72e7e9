"""Merge new rows into the shards of an answer set: one row for each sample and repeat.

A row that succeeded, or that cannot succeed, is kept. A failed row that was generated again is replaced: its shard is
written anew without it. When a set is complete, its small shards are joined to larger ones.
"""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

from regrade.answers.images import SMALL_BYTES, SMALL_SHARDS
from regrade.answers.manifest import COLUMNS, Shard, count_rows, state_of
from regrade.answers.parquet import ParquetReader, SealedFile, parquet_bytes, repeats_together
from regrade.answers.rows import (
    STATE_COLUMNS,
    RowKey,
    RowStates,
    ShardStates,
    failed_rows,
    row_keys,
    row_states,
)
from regrade.answers.sets import AnswerSet
from regrade.records.columns import GENERATION_SCHEMA
from regrade.settings.errors import DamagedAnswersError
from regrade.settings.turn_ids import turn_of

JOINED_BYTES = 64 * 2**20
"""Size in memory, before compression, of the rows of small shards that become one."""


@dataclass(slots=True)
class Merged:
    """The shards after a merge, and the files that change."""

    shards: list[Shard]
    added: dict[str, Path | bytes] = field(default_factory=dict)
    """Content by name of the shard."""
    dropped: list[Shard] = field(default_factory=list)
    """Former shards that were replaced, entirely or by a shard without the rows that were generated again."""
    joined: list[Shard] = field(default_factory=list)
    """Former shards whose rows, unchanged, are in a larger shard now."""


def merge(
    stored: AnswerSet | None,
    sealed: Sequence[SealedFile],
    replaced: Sequence[str],
    known: ShardStates,
    *,
    expected: int,
    fresh: bool = False,
    by_question: bool = False,
) -> Merged:
    """Return the shards of an answer set with the rows of sealed files.

    Args:
        stored: The answer set so far.
        sealed: New rows. Those whose sample and repeat already have an answer are left out.
        replaced: sha256 of stored shards to drop with all their rows.
        known: States of the rows of shards, to read no shard twice; those of new shards are added.
        expected: Rows of the complete answer set.
        fresh: Drop the replaced shards only if a new row has an answer: a server that fails every request must not
            cost the answers of an earlier run.
        by_question: Rows are turns of conversations, which follow each other's answers.

    Raises:
        DamagedAnswersError: If a stored shard cannot be read.
    """
    before = stored.manifest.shards if stored else ()
    published = {shard.sha256 for shard in before}
    new = [file for file in sealed if file.sha256 not in published]
    if fresh and not _chosen(new, RowStates())[1]:
        replaced = ()
    merged = Merged([shard for shard in before if shard.sha256 not in replaced])
    merged.dropped = [shard for shard in before if shard.sha256 in replaced]
    is_whole = stored is not None and stored.manifest.state == "complete" and not merged.dropped
    if not new or is_whole:  # no row is missing: other machines' shards need not be read
        return merged
    states = RowStates()
    if stored is not None:
        states = stored.only({shard.sha256 for shard in merged.shards}).states(known)
    chosen, answered_now = _chosen(new, states, by_question=by_question)
    if stored is not None and (superseded := states.failed & answered_now):
        _drop_rows(stored, merged, superseded, known)
    for file, rows in zip(new, chosen, strict=True):
        if rows:
            _add(merged, file, rows, known)
    # Labels of answers that are no judge's hold for the shards that they name.
    labelled = stored and stored.repository.files(stored.revision, stored.labels_folder)
    if state_of(expected, merged.shards) == "complete" and not labelled:
        _join_small(stored, merged, known)
    return merged


def _join_small(stored: AnswerSet | None, merged: Merged, known: ShardStates) -> None:
    """Join small shards of the same session, in their order; the rest stay as they are."""
    sessions: dict[str, list[Shard]] = {}
    for shard in merged.shards:
        is_on_disk = not isinstance(merged.added.get(shard.name), bytes)
        if shard.session is not None and shard.bytes < SMALL_BYTES and is_on_disk:
            sessions.setdefault(shard.session, []).append(shard)
    if sum(map(len, sessions.values())) < SMALL_SHARDS:
        return
    for session, small in sessions.items():
        for shards, table in _together(stored, merged, small):
            _join(merged, session, shards, table, known)


def _together(
    stored: AnswerSet | None, merged: Merged, small: Sequence[Shard]
) -> Iterator[tuple[list[Shard], pa.Table]]:
    """Yield shards that become one, and their rows."""
    shards: list[Shard] = []
    tables: list[pa.Table] = []
    for shard in small:
        added = merged.added.get(shard.name)
        try:
            if isinstance(added, Path):
                table = _reader(added, GENERATION_SCHEMA.names).table()
            elif stored is not None:
                table = stored.shard(shard, GENERATION_SCHEMA.names).table()
            else:
                continue
        except DamagedAnswersError:  # it stays, for `verify` to name and `--heal` to replace
            continue
        if shards and sum(t.nbytes for t in tables) + table.nbytes > JOINED_BYTES:
            yield shards, pa.concat_tables(tables).combine_chunks()
            shards, tables = [], []
        shards.append(shard)
        tables.append(table)
    if shards:
        yield shards, pa.concat_tables(tables).combine_chunks()


def _join(
    merged: Merged, session: str, shards: Sequence[Shard], table: pa.Table, known: ShardStates
) -> None:
    if len(shards) < 2:
        return
    first, *_ = shards
    for shard in shards:
        if merged.added.pop(shard.name, None) is None:
            merged.joined.append(shard)
    others = [shard for shard in merged.shards if shard not in shards[1:]]
    merged.shards = others[: others.index(first)]
    _add_table(merged, first.name[5:10], repeats_together(table), session, known)
    merged.shards += others[others.index(first) + 1 :]


def _chosen(
    sealed: Sequence[SealedFile], states: RowStates, *, by_question: bool = False
) -> tuple[list[list[int]], set[RowKey]]:
    """Return the rows of each file to keep, and the keys of those that did not fail."""
    best: dict[RowKey, tuple[int, int, bool]] = {}
    for number, file in enumerate(sealed):
        row = 0
        for batch in _reader(file.path, STATE_COLUMNS).batches():
            for key, failed in zip(row_keys(batch), failed_rows(batch).tolist(), strict=True):
                other = best.get(key)
                is_new = key not in states.done and not (failed and key in states.failed)
                if is_new and (other is None or (other[2] and not failed)):
                    best[key] = number, row, failed
                row += 1
    if by_question:
        _leave_out_followers(sealed, best)
    rows: list[list[int]] = [[] for _ in sealed]
    for number, row, _ in best.values():
        rows[number].append(row)
    answered = {key for key, (_, _, failed) in best.items() if not failed}
    return [sorted(of_file) for of_file in rows], answered


def _leave_out_followers(
    sealed: Sequence[SealedFile], best: dict[RowKey, tuple[int, int, bool]]
) -> None:
    """Leave out turns of conversations whose turn before is in the same files and is not kept: they follow another answer."""
    given = {
        key
        for file in sealed
        for batch in _reader(file.path, STATE_COLUMNS).batches()
        for key in row_keys(batch)
    }
    turns = ((turn, repeat) for sample_id, repeat in best if (turn := turn_of(sample_id)))
    for turn, repeat in sorted(turns, key=lambda known: known[0].number):
        before = (turn.earlier[-1].id, repeat) if turn.earlier else None
        if before in given and before not in best:
            del best[turn.id, repeat]


def _drop_rows(
    stored: AnswerSet, merged: Merged, superseded: set[RowKey], known: ShardStates
) -> None:
    """Rewrite the shards that hold failed rows with these keys, without the rows."""
    before, merged.shards = merged.shards, []
    for shard in before:
        if not known[shard.sha256].failed & superseded:
            merged.shards.append(shard)
            continue
        merged.dropped.append(shard)
        table = stored.shard(shard, GENERATION_SCHEMA.names).table()
        keep = [key not in superseded for key in row_keys(table)]
        if any(keep):
            rest = table.filter(pa.array(keep)).combine_chunks()
            _add_table(merged, shard.name[5:10], rest, shard.session, known)


def _add(merged: Merged, file: SealedFile, rows: list[int], known: ShardStates) -> None:
    last = max((int(s.name[5:10]) for s in (*merged.shards, *merged.dropped)), default=-1)
    number = f"{last + 1:05d}"
    if len(rows) < file.rows:
        table = _reader(file.path, GENERATION_SCHEMA.names).table()
        _add_table(merged, number, table.take(pa.array(rows)).combine_chunks(), file.session, known)
        return
    # Published unchanged, so that only the counted columns are decoded.
    columns = list(dict.fromkeys([*STATE_COLUMNS, *COLUMNS]))
    batches = list(_reader(file.path, columns).batches())
    _append(merged, number, file.path, file, batches, known)


def _add_table(
    merged: Merged, number: str, table: pa.Table, session: str | None, known: ShardStates
) -> None:
    content = parquet_bytes(table)
    sha256 = hashlib.sha256(content).hexdigest()
    file = SealedFile(Path(), table.num_rows, len(content), sha256, session)
    _append(merged, number, content, file, table.to_batches(), known)


def _append(
    merged: Merged,
    number: str,
    content: Path | bytes,
    file: SealedFile,
    batches: Sequence[pa.RecordBatch],
    known: ShardStates,
) -> None:
    """Append a shard; `batches` are its rows with `STATE_COLUMNS` and `COLUMNS`."""
    name = f"part-{number}-{file.sha256[:8]}.parquet"
    shard = Shard(
        name=name,
        rows=file.rows,
        bytes=file.bytes,
        sha256=file.sha256,
        session=file.session,
        **count_rows(batches),
    )
    merged.shards.append(shard)
    merged.added[name] = content
    known[shard.sha256] = row_states(batches)


def _reader(path: Path, columns: Sequence[str]) -> ParquetReader:
    return ParquetReader(path.name, path, GENERATION_SCHEMA, columns)

"""`regrade show`."""

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from regrade.answers.base import Repository
from regrade.answers.figures import figures_line, figures_of
from regrade.answers.result import Result
from regrade.answers.scorefile import ScoreFile
from regrade.cli.answer_filters import FilterOptions, named_as_options
from regrade.cli.command_list import command
from regrade.cli.options import Answers
from regrade.cli.output import TABLE, Output, open_answers
from regrade.cli.terminal import print_blocks, stderr
from regrade.comparing.sides import named_id
from regrade.judging.labels.calibrate import calibrate
from regrade.pages.viewer.answer_facts import letter_of, with_choice
from regrade.pages.viewer.index import AnswerIndex, Rows, with_scores
from regrade.pages.viewer.library import Library, Shelf, StoredSet
from regrade.pages.viewer.settings_apart import settings_apart
from regrade.pages.viewer.verdicts import VERDICTS
from regrade.records.columns import to_json
from regrade.records.messages import prompt_messages, with_short_marks
from regrade.records.rubrics.facts import answers_per_question
from regrade.records.specification import Specification
from regrade.records.trajectory import plain_message, plain_trajectory, read_trajectory, shortened
from regrade.scorers import is_known, load_scorer, stored_name
from regrade.scorers.sessions import SessionScorer
from regrade.scoring.batches import lacking_questions
from regrade.scoring.score import label_now, score_answers
from regrade.settings.errors import SettingsError
from regrade.settings.view_address import view_address
from regrade.stats.numbers import average_text
from regrade.text.blocks import Badge, Block, Heading, Line, Link, Quote, Strong, Tone
from regrade.text.text import visible

SHOWN = (
    *("sample_id", "repeat", "index", "subset", "question", "prompt", "prompt_kind", "choices"),
    *("target", "text", "reasoning", "tool_calls", "trajectory", "label_logprobs", "error"),
    *("images",),
)
"""Columns of an answer in the JSON document."""
SETS_NAMED = 8
"""Most other answer sets of a model that are named."""
DID_CHARACTERS = 3_000
"""Longest text that is printed of what an agent did; the viewer shows all of it."""


@command(group="Grade and read")
def show(
    answer_set: str,
    *,
    answers: Answers = None,
    filters: FilterOptions | None = None,
    limit: int = 10,
    output: Output = TABLE,
) -> None:
    """Show the answers of an answer set.

    Prints the question or the prompt, the answer, the text that the scorer extracted from it, and the target.

    Args:
        answer_set: Answer set id (the first digits are enough), model or alias; of several answer sets the newest.
        limit: Answers on a page.

    Examples:
        show org/model --wrong
        show 1f0c6a2b --verdict unparsed --truncated yes --page 2
        show 1f0c6a2b --search 'square root' --sort length --descending
        show 1f0c6a2b --baseline 77ab01cd --change worse
    """
    wanted = (filters or FilterOptions()).spelled()
    page = wanted.page
    for option, value in (("--limit", limit), ("--page", page)):
        if value < 1:
            raise SettingsError(f"`{option} {value}` should be at least 1.")
    repository, revision = open_answers(answers)
    if wanted.against is not None:
        wanted = replace(
            wanted, against=named_id(repository, revision, wanted.against, newest=True)
        )
    library = Library(repository)
    shelf = library.shelf(revision)
    stored = shelf.find(named_id(repository, revision, answer_set, newest=True))
    index = _index(library, stored, wanted.scorer, needs_scores=bool(wanted.verdict))
    with named_as_options():
        rows = _selected(library, shelf, index, wanted)
    start = limit * (page - 1)
    texts = _answers(library, index, rows[start : start + limit].tolist(), repository)

    def draw() -> None:
        print_blocks(
            [
                *_heading(index, shelf, stored),
                *([Line(f"by people's labels: {calibrated.text}")] if calibrated else []),
                *(block for row in texts for block in _answer(row, stored)),
                _end(texts, start, len(rows), index.rows),
            ]
        )
        if start + limit < len(rows):
            stderr.print(visible(f"next page: --page {page + 1}"), soft_wrap=True)
        if not stored.id.startswith(answer_set) and (others := _others(shelf, stored)):
            stderr.print(visible(f"other answer sets of this model: {others}"), soft_wrap=True)
        command = f"regrade view {shlex.quote(repository.uri)} {stored.id}"
        shown = index.scoring
        if shown is not stored.headline and shown in stored.scorings:
            command += f" --scorer {shlex.quote(shown.label)}"
        stderr.print(visible(f"in a browser: {command}"), soft_wrap=True)

    calibrated = None if index.scoring is None else calibrate(Result(stored.answers, index.scoring))
    document = {
        "answer_set_id": stored.id,
        "revision": revision,
        "scoring": index.scoring.label if index.scoring else None,
        "calibration": calibrated
        and {**calibrated.model_dump(mode="json"), "text": calibrated.text},
        "matching": len(rows),
        "total": index.rows,
        "expected": stored.manifest.expected,
        "stopped": stored.manifest.stopped and stored.manifest.stopped.model_dump(mode="json"),
        "first": start + 1,
        "figures": figures_of(stored.manifest, index.scoring),
    }
    output.show({**document, "answers": [*map(to_json, texts)]}, draw)


def _others(shelf: Shelf, shown: StoredSet) -> str:
    """Return the ids and benchmarks of the newest other answer sets of a model."""
    name = shown.manifest.specification.model.name
    others = (s for s in shelf.sets if s.id != shown.id)
    found = [
        f"{s.id} ({s.benchmark})" for s in others if s.manifest.specification.model.name == name
    ]
    return ", ".join(found[:SETS_NAMED])


def _index(
    library: Library, stored: StoredSet, scorer: str | None, *, needs_scores: bool
) -> AnswerIndex:
    """Return the index with a scoring: the stored one if it is fresh, else one made now.

    Scorers that take long, or lack the questions, are not run: their newest stored scoring is shown.
    """
    headline = stored.headline
    if scorer is None and headline is not None and headline.label not in stored.stale:
        return library.index(stored, headline)
    named = [file for file in stored.scorings if scorer in (file.label, file.scorer)]
    if named and not is_known(
        named[0].scorer
    ):  # such as of a function in a file, or of another tool
        return library.index(stored, max(named, key=lambda file: file.scored_at))
    name = scorer or next(filter(label_now, stored.answers.manifest.scorers), None)
    if name is None:
        if needs_scores and headline is None:
            load_scorer(stored.answers.manifest.scorers[0])  # raises the error with the reason
        return library.index(stored, headline)
    found = load_scorer(name)
    if isinstance(found, SessionScorer) or lacking_questions(stored.answers, found):
        own = [file for file in stored.scorings if file.scorer == stored_name(name)]
        newest = max(own, key=lambda file: file.scored_at, default=None)
        return library.index(stored, newest)
    plain_index = library.index(stored, None)
    if plain_index.target.null_count == plain_index.rows:
        return plain_index  # imported without targets: there is nothing to compare with
    scored = score_answers(stored.answers, name)
    if scored.table is None:
        return library.index(stored, scored.file)
    return with_scores(plain_index, stored.answers, scored.file, scored.table)


def _selected(library: Library, shelf: Shelf, index: AnswerIndex, filters: FilterOptions) -> Rows:
    other = None
    if filters.against is not None:
        against = shelf.find(filters.against)
        same = against.same_scoring(index.scoring)
        if same is None:
            raise SettingsError(
                f"`--baseline {against.id}`: it has no scoring like this one. Score both with `regrade score`."
            )
        other = library.index(against, same)
    rows = library.selector.select(index, filters, other).rows
    if filters.sample is None:
        return rows
    ids = index.sample_id
    keep = [str(ids[row].as_py()).startswith(filters.sample) for row in rows.tolist()]
    return rows[np.array(keep, np.bool_)] if keep else rows


def _texts(library: Library, index: AnswerIndex, rows: Sequence[int]) -> list[dict[str, Any]]:
    """Return the texts of rows; withheld questions too, if this machine has them."""
    if not index.answers.manifest.withheld:
        return library.readers.take(index.answers, rows, SHOWN).to_pylist()
    every = pa.Table.from_batches(index.answers.batches(SHOWN))
    return every.take(pa.array(rows, pa.int64())).to_pylist()


def _answers(
    library: Library, index: AnswerIndex, rows: Sequence[int], repository: Repository
) -> list[dict[str, Any]]:
    stored = _texts(library, index, rows)
    found = []
    for row, texts in zip(rows, stored, strict=True):
        value = float(index.value[row])
        verdict = VERDICTS[index.verdict[row]]
        if (
            verdict in ("failed", "not scored")
            and texts["error"] is None
            and texts["target"] is None
        ):
            verdict = "no target"
        found.append(
            {
                **texts,
                "value": None if np.isnan(value) else value,
                "extracted": index.extracted[row].as_py(),
                "outcome": "scored" if verdict in ("right", "partly right", "wrong") else verdict,
                "verdict": verdict,
                "truncated": bool(index.truncated[row]),
                "address": view_address(
                    repository.uri,
                    index.answers.manifest.answer_set_id,
                    sample_id=texts["sample_id"],
                    repeat=texts["repeat"],
                ),
            }
        )
    return found


def _heading(index: AnswerIndex, shelf: Shelf, stored: StoredSet) -> Iterator[Block]:
    """Yield what is shown: model, benchmark, scoring, and the settings that tell the set apart."""
    specification = stored.manifest.specification
    yield Heading(f"{stored.model} · {stored.benchmark} · {stored.id}", 1)
    shown = index.scoring
    if shown is not None:
        unstored = "" if shown in stored.scorings else ", scored just now, not stored"
        yield Line(f"{_result(shown, specification)}{unstored}")
    if stored.manifest.state != "complete":
        yield Line(Strong(f"incomplete: {stored.manifest.answered}"))
    others = {file.scorer: file for file in stored.scorings if file.label not in stored.older}
    for scorer, file in others.items():
        if shown is None or scorer != shown.scorer:
            option = f"--scorer {shlex.quote(scorer)}"
            yield Line(f"also {_result(file, specification)}: {option}", "aside")
    alike = [other for other in shelf.sets if other.benchmark == stored.benchmark]
    apart = settings_apart([other.manifest for other in alike])
    settings = apart[[other.id for other in alike].index(stored.id)]
    if settings:
        yield Line(", ".join(f"{name}={value}" for name, value in settings.items()), "aside")
    if figures := figures_line("show", figures_of(stored.manifest, shown)):
        yield Line(figures, "aside")


def _result(file: ScoreFile, specification: Specification) -> str:
    """Return scorer, mean and number of answers of a scoring."""
    overall, repeats = file.summary.overall, answers_per_question(specification)
    mean = average_text(overall.accuracy, overall.accuracy_stderr, repeats, scale=file.scale)
    return f"{file.title}: {mean} (n={overall.n:,})"


def _end(texts: Sequence[object], start: int, matching: int, total: int) -> Block:
    of_all = "" if matching == total else f", out of {total:,} in the set"
    if texts:
        shown = f"{start + 1:,} to {start + len(texts):,} of {matching:,}"
        return Heading(f"answers {shown}{of_all}")
    if matching:
        return Line(f"This page is empty: {matching:,} answers match.")
    return Line("No answer matches.")


def _answer(row: dict[str, Any], stored: StoredSet) -> Iterator[Block]:
    verdict = row["verdict"]
    tones: dict[str, Tone] = {"right": "good", "wrong": "bad"}
    subset = f" · {row['subset']}" if row["subset"] else ""
    title = f"{row['sample_id']} repeat {row['repeat']}{subset} · "
    yield Heading((title, Badge(verdict)), tone=tones.get(verdict, "open"))
    yield from _asked(row, stored)
    if row["trajectory"] is not None:
        did = read_trajectory(row["trajectory"])
        text = row["trajectory"] if did is None else plain_trajectory(did, DID_CHARACTERS)
        answer = f"assistant: {row['text']}"  # is shown below
        did_text = shortened(text.removesuffix(answer).rstrip(), DID_CHARACTERS)[0]
        yield Quote("", did_text, "aside")
    if row["reasoning"]:
        yield Quote("", row["reasoning"], "aside")
    if row["text"] is not None:
        yield Quote("", row["text"])
    if row["tool_calls"] is not None:
        yield Line(f"calls: {row['tool_calls']}")
    if row["label_logprobs"] is not None:
        ranked = (f"{letter_of(n)} {value:.3f}" for n, value in enumerate(row["label_logprobs"]))
        yield Line("log-probabilities: " + ", ".join(ranked))
    if row["error"] is not None:
        yield Line(f"error: {row['error']}", "bad")
    extracted, target = (
        otherwise if row[name] is None else with_choice(row[name], row["choices"])
        for name, otherwise in (("extracted", "nothing"), ("target", "not known"))
    )
    cut = ", cut off at max_tokens" if row["truncated"] else ""
    read = (Strong("extracted"), f" {extracted}   ", Strong("target"), f" {target}{cut}")
    yield Line(read)
    if row["address"] is not None:
        yield Line(Link("in the viewer", row["address"]), "aside")


def _asked(row: dict[str, Any], stored: StoredSet) -> Iterator[Block]:
    """Yield the prompt, a chat as turns; the question if the prompt is not known."""
    if row["prompt"] is None:
        if row["question"] is not None:
            yield Quote("", with_short_marks(row["question"], row["images"] or ()), "aside")
        return
    prompt_format = stored.answers.manifest.specification.prompt.format
    for turn in prompt_messages(row["prompt"], row["prompt_kind"], prompt_format, row["images"]):
        yield Quote(turn.role, plain_message(turn), "aside")

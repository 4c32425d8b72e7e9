"""The page of noise floors."""

from collections.abc import Iterator

from regrade.comparing.models import Asking, NoiseFloor
from regrade.comparing.noise import MeasuredFloor, NoiseReport
from regrade.text.blocks import Block, Fold, Heading, Items, Line, Quote, Table, with_code
from regrade.text.text import counted, significant, tail

COLUMNS = (
    "benchmark",
    "asked",
    "asked again",
    "score differs, of 1,000",
    "text differs, of 1,000",
    "n",
)
_EXPLAINED = (
    "The same questions to the same model, answer by answer. `score differs`: answers whose score is another one; `text differs`: "
    "any other character, and for ranked choices any other bit of their log-probabilities. In brackets the 95 % interval "
    "(Wilson). `regrade compare` and `gate` show it beside their verdicts."
)


def blocks(report: NoiseReport) -> list[Block]:
    """Return the page."""
    floors = [measured.floor for measured in report.floors]
    askings = {a.answer_set_id: a for floor in floors for a in (floor.first, floor.second)}
    return [
        Heading(f"Noise floor of {report.model}", 1),
        Table(COLUMNS, [_row(floor) for floor in floors], COLUMNS[:3], headings=COLUMNS[:1]),
        Line(with_code(_EXPLAINED), "note"),
        Items([line for floor in floors for line in _news(floor)]),
        Items([_asking_text(asking) for asking in askings.values()]),
        Items([*dict.fromkeys(doubt for floor in floors for doubt in _doubts(floor))], "doubt"),
        Items(list(report.notes)),
        *(block for measured in report.floors for block in _examples(measured)),
        *(report.time_spent.blocks() if report.time_spent else ()),
    ]


def _row(floor: NoiseFloor) -> tuple[str, ...]:
    return (
        floor.benchmark,
        floor.first.answer_set_id[:8],
        floor.second.answer_set_id[:8],
        _per_thousand(floor.scores_differ, floor.n, floor.scores),
        _per_thousand(floor.texts_differ, floor.n, floor.texts),
        f"{floor.n:,}",
    )


def _per_thousand(count: int, n: int, interval: tuple[float, float]) -> str:
    low, high = (significant(1000 * end, 3) for end in interval)
    if not n:
        return "-"
    share = significant(1000 * count / n, 3)
    return f"{share} ({low} to {high})" if count else f"0 (at most {high})"


def _news(floor: NoiseFloor) -> Iterator[str]:
    name = (
        f"{floor.benchmark}, {floor.first.answer_set_id[:8]} and {floor.second.answer_set_id[:8]}"
    )
    if not floor.n:
        yield f"{name}: no question has an answer on both sides"
        return
    if not floor.scores_differ:
        high = significant(1000 * floor.scores[1], 3)
        yield f"{name}: no score differs. An unchanged model differs in at most {high} of 1,000 answers (95 %)"
    if floor.logprob_difference is not None:
        yield f"{name}: log-probabilities of the choices differ by at most {floor.logprob_difference:.2g}"
    if floor.first.batch_invariant and floor.second.batch_invariant:
        yield f"{name}: {invariance_text(floor)}"


def invariance_text(floor: NoiseFloor) -> str:
    """Return whether vLLM's batch-invariant mode held between two askings in it, bit by bit."""
    checks = [asking.batches for asking in (floor.first, floor.second) if asking.batches]
    tokens = sum(check.tokens for check in checks)
    differing = sum(check.differing for check in checks)
    compared = f"{floor.texts_differ:,} of {floor.n:,} texts and {differing:,} of {tokens:,} log-probabilities of tokens differ"
    if not checks and not floor.texts_differ:
        return f"both in the batch-invariant mode: 0 of {floor.n:,} texts differ; log-probabilities of tokens were not compared"
    if floor.first.place != floor.second.place:
        return f"both in the batch-invariant mode, which promises nothing between two machines: {compared}"
    holds = not floor.texts_differ and not differing
    return (
        f"the batch-invariant mode {'holds' if holds else 'does NOT hold'}, bit by bit: {compared}"
    )


def _asking_text(asking: Asking) -> str:
    flight = "as many requests at a time as the engine takes"
    if asking.in_flight is not None:
        flight = f"at most {counted(asking.in_flight, 'request')} at a time"
    parts = [
        asking.place,
        asking.dtype,
        f"quantisation {asking.quantization}",
        f"order {asking.order}" if asking.order != "random" else "in random order",
        flight,
        *(["batch-invariant"] if asking.batch_invariant else []),
        str(asking.at),
    ]
    if (check := asking.batches) is not None and check.differing:
        parts.append(
            f"of {check.tokens:,} tokens of fixed prompts, {check.differing:,} have another log-probability in a batch than alone, by at "
            f"most {check.largest:.2g}"
        )
    elif check is not None:
        parts.append(
            f"all {check.tokens:,} tokens of fixed prompts have the same log-probability in a batch as alone, bit by bit"
        )
    what = "asked again, no result" if asking.again else "a result"
    return f"{asking.answer_set_id[:8]} ({what}): {', '.join(parts)}"


def _doubts(floor: NoiseFloor) -> Iterator[str]:
    if floor.unanswered:
        yield f"{floor.benchmark}: {floor.unanswered:,} answers are missing on a side, or their request failed"
    if floor.computed:
        yield f"{floor.benchmark}: not computed alike: {'; '.join(floor.computed)}"
    if floor.temperature:
        yield (
            f"{floor.benchmark}: sampled at temperature {floor.temperature:g}. Each request has its own seed, the same every time it is "
            "asked: this is what numerics alone change, and another seed changes more"
        )


def _examples(measured: MeasuredFloor) -> list[Block]:
    shown: list[Block] = []
    for example in measured.examples:
        shown.append(Heading(f"{example.kind} · {example.question}", 4))
        shown.append(Quote("prompt", tail(example.prompt or "")))
        shown.append(Quote("asked", tail(example.base_text or "")))
        shown.append(Quote("asked again", tail(example.candidate_text or "")))
    title = f"{measured.floor.benchmark}: examples of scores that differ"
    return [Fold(title, shown)] if shown else []

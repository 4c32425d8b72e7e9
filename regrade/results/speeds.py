"""The table of speeds: latencies, goodput, and load of the engine, as the engine or its client measured them."""

from collections.abc import Iterator

from regrade.results.results import Evaluation
from regrade.results.tables import titles
from regrade.stats.scale import percent
from regrade.stats.speed import AGREEMENT, BOTH, LATENCY_COLUMNS, Speed
from regrade.text.blocks import Table

_COLUMNS = ("benchmark", *LATENCY_COLUMNS, "n")
LEGEND = (
    "TTFT: time to the first token. TPOT: time per output token after it. ITL: time between two tokens. E2EL: time of the whole "
    "answer. queue: waiting in the engine."
)


def speed_table(evaluation: Evaluation) -> Table:
    """Return a row per answer set and latency, in milliseconds."""
    return Table(_COLUMNS, list(_rows(evaluation)), _COLUMNS[:2], headings=_COLUMNS[:1])


def _rows(evaluation: Evaluation) -> Iterator[tuple[str, ...]]:
    named = titles(evaluation)
    for answers in evaluation.answer_sets:
        for name, spread in () if answers.speed is None else answers.speed.latencies():
            yield named[answers.answer_set_id], name, *spread.milliseconds(1), f"{spread.n:,}"


def speed_lines(evaluation: Evaluation) -> Iterator[str]:
    """Yield sentences about load of the engine, goodput, who measured, and whether engine and client agree."""
    named = titles(evaluation)
    for answers in evaluation.answer_sets:
        if answers.speed is not None:
            lines = (
                *_load(answers.speed),
                *_sharing(answers.speed, answers.generated),
                *_remarks(answers.speed),
            )
            for line in lines:
                yield f"{named[answers.answer_set_id]}: {line}"


def _load(speed: Speed) -> Iterator[str]:
    if speed.running_mean is None:
        return
    hits = (
        "" if speed.prefix_hit_rate is None else f", prefix cache {percent(speed.prefix_hit_rate)}"
    )
    usage = (
        ""
        if speed.kv_cache_usage_max is None
        else f", KV cache {percent(speed.kv_cache_usage_max)}"
    )
    most = f"most {speed.running_max:,}"
    lost = ""
    if speed.measured_by == "engine":
        most += f", waiting {speed.waiting_max:,}"
        lost = f", {speed.preemptions:,} preempted"
    yield f"{speed.running_mean:.1f} requests at a time ({most}){usage}{hits}{lost}"


def _sharing(speed: Speed, generated: int) -> Iterator[str]:
    measured = 0 if speed.e2el is None else speed.e2el.n
    if measured > generated:
        yield (
            f"latencies are those of {measured:,} answers, because other answer sets shared the engine until its "
            f"{generated:,} were complete"
        )


def _remarks(speed: Speed) -> Iterator[str]:
    goodput = speed.goodput
    if goodput is not None:
        share = "-" if goodput.share is None else f"{percent(goodput.share)}"
        rate = "" if goodput.per_second is None else f", {goodput.per_second:,.2f} per second"
        unknown = f"; {goodput.unmeasured:,} could not be measured" if goodput.unmeasured else ""
        yield (
            f"goodput: {share} of {goodput.answers:,} answers within {goodput.limits_text}{rate}{unknown}"
        )
    if speed.measured_by == "client" and speed.e2el is not None:
        yield "latencies were measured by the client, per chunk: a chunk may hold several tokens"
    other = speed.other_side
    if other is None:
        return
    both = [name for name in BOTH if getattr(speed, name) and getattr(other, name) is not None]
    differing = speed.differences()
    for name, (ours, theirs) in differing.items():
        sides = {speed.measured_by: ours, other.by: theirs}
        yield (
            f"{name.upper()} differs between engine ({1000 * sides['engine']:,.1f} ms on average) and client "
            f"({1000 * sides['client']:,.1f} ms): time was lost between them, or the clocks were changed"
        )
    if both and not differing:
        names = ", ".join(name.upper() for name in both)
        yield f"engine and client agree within {percent(AGREEMENT, 0)} ({names})"

"""Speeds of a run: who measured, goodput, and whether engine and client agree."""

import io

from rich.console import Console

from regrade.results.page import blocks
from regrade.results.results import AnswerSetResult, Evaluation
from regrade.stats.speed import Goodput, OtherSide, Speed, Spread
from regrade.text.markdown import markdown
from regrade.text.terminal import TerminalWriter


def evaluated(speed: Speed) -> Evaluation:
    answers = AnswerSetResult(
        benchmark="sums",
        model="org/tiny",
        answer_set_id="a" * 16,
        revision="c" * 40,
        url=None,
        rows=4,
        expected_rows=4,
        generated=4,
        seconds={},
        speed=speed,
    )
    return Evaluation(answer_sets=(answers,), repository="/answers")


def spread(mean: float) -> Spread:
    return Spread(mean=mean, p25=mean, p50=mean, p75=mean, p99=mean, n=4)


def shown(speed: Speed) -> str:
    """The page of an evaluation."""
    return markdown(blocks(evaluated(speed)))


def test_a_terminal_shows_them_only_if_goodput_asks_for_them():
    latency = Speed(e2el=spread(1.0))
    goodput = Goodput(limits={"e2el": 2.0}, answers=4, within=3, per_second=1.5)
    printed = []
    for speed in (latency, latency.model_copy(update={"goodput": goodput})):
        console = Console(file=io.StringIO(), width=120)
        TerminalWriter(console).write(blocks(evaluated(speed)))
        printed.append(console.file.getvalue())  # type: ignore[attr-defined]

    assert "E2EL" not in printed[0]
    assert "1,000.0" in printed[1]
    assert "goodput: 75.0 %" in printed[1]


def test_latencies_of_a_shared_engine_say_whose_they_are():
    of_ten = spread(1.0).model_copy(update={"n": 10})

    assert "- sums: latencies are those of 10 answers, because other answer sets" in shown(
        Speed(e2el=of_ten)
    )
    assert "latencies are those" not in shown(Speed(e2el=spread(1.0)))


def test_measurements_of_a_client_say_so():
    speed = Speed(
        measured_by="client", ttft=spread(0.1), itl=spread(0.01), e2el=spread(1.0), running_mean=2.0
    )

    page = shown(speed)

    assert "measured by the client, per chunk" in page
    assert "between chunks" in page


def test_goodput_names_its_limits():
    limits = {"ttft": 2.0, "tpot": None, "e2el": 30.0}
    goodput = Goodput(limits=limits, answers=4, within=3, unmeasured=1, per_second=1.5)

    page = shown(Speed(goodput=goodput))

    assert "goodput: 75.0 % of 4 answers within TTFT 2 s, E2EL 30 s, 1.50 per second" in page
    assert "1 could not be measured" in page


def test_a_difference_between_engine_and_client_is_told():
    speed = Speed(e2el=spread(1.0), other_side=OtherSide(by="client", requests=4, e2el=1.2))

    page = shown(speed)

    assert "E2EL differs between engine (1,000.0 ms on average) and client (1,200.0 ms)" in page
    assert "agree" not in page


def test_agreement_is_told():
    speed = Speed(e2el=spread(1.0), other_side=OtherSide(by="client", requests=4, e2el=1.01))

    assert "engine and client agree within 5 % (E2EL)" in shown(speed)

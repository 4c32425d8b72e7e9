import numpy as np
import pytest
from pydantic import ValidationError

from regrade.settings import GoodputLimits
from regrade.stats import speed as speed_module
from regrade.stats.speed import (
    LATENCIES,
    LATENCY_COLUMNS,
    PERCENTILES,
    Durations,
    Goodput,
    GoodputCount,
    OtherSide,
    Speed,
    Spread,
)


@pytest.mark.parametrize(
    ("n", "kept", "error"), [(20, 1000, 1e-12), (50_000, 60_000, 1e-12), (100_000, 1000, 0.006)]
)
def test_percentiles_are_those_of_numpy_and_of_very_many_durations_within_half_a_percent(
    n: int, kept: int, error: float, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(speed_module, "MOST_KEPT", kept)
    values = np.random.default_rng(0).lognormal(-4, 1.5, n)
    durations = Durations()
    for part in np.array_split(values, 97):
        durations.add(part.tolist())

    spread = durations.spread()

    assert (spread.n, spread.mean) == (n, pytest.approx(values.mean()))
    for level in PERCENTILES:
        expected = np.percentile(values, level)
        assert getattr(spread, f"p{level}") == pytest.approx(expected, rel=error)


@pytest.mark.parametrize("extreme", [0.0, -1e-9, 1e9])
def test_durations_of_a_clock_that_jumps_end_no_run(extreme: float):
    durations = Durations()
    durations.add([extreme])

    assert durations.spread() is not None


def test_without_durations_there_is_no_spread():
    assert Durations().spread() is None


def test_scalars_have_the_known_values_only():
    durations = Durations()
    durations.add([1.0, 2.0])
    speed = Speed(itl=durations.spread(), preemptions=3, steps=7)

    scalars = speed.scalars()

    assert scalars["itl_mean"] == 1.5
    assert scalars["preemptions"] == 3
    assert "itl_n" not in scalars
    assert not any(name.startswith("ttft") for name in scalars)


def spread(mean: float) -> Spread:
    return Spread(mean=mean, p25=mean, p50=mean, p75=mean, p99=mean, n=1)


def test_a_table_has_every_latency_that_was_measured_and_says_if_a_client_saw_chunks():
    durations = [name for name, field in Speed.model_fields.items() if "Spread" in str(field)]
    each = {name: spread(0.001 * place) for place, name in enumerate(durations, 1)}
    table = [(name, *found.milliseconds(1)) for name, found in Speed(**each).latencies()]

    assert [row[:2] for row in table] == [
        (name, f"{place}.0") for place, name in enumerate(LATENCIES.values(), 1)
    ]
    assert {len(row) for row in table} == {len(LATENCY_COLUMNS)}
    by_client = Speed(measured_by="client", itl=spread(1.0), e2el=spread(1.0)).latencies()
    assert [name for name, _ in by_client] == ["ITL, between chunks", "E2EL"]


@pytest.mark.parametrize(
    ("limits", "said"),
    [
        ({}, None),
        ({"ttft_p99": 0.5}, None),
        ({"ttft_p99": 0.4999}, "TTFT p99 0.5 s is above 0.4999 s"),
        ({"ttft_p99": 1.0, "tpot_p99": 1.0}, "TPOT was not measured"),
    ],
)
def test_a_latency_above_its_limit_or_not_measured_is_named(
    limits: dict[str, float], said: str | None
):
    assert Speed(ttft=spread(0.5)).above(limits) == said


def test_goodput_counts_answers_within_every_limit():
    count = GoodputCount(GoodputLimits.model_validate("ttft=1s,tpot=100ms"))
    count.add(0.5, 1.4, 10)  # 0.1 s a token
    count.add(0.5, 1.5, 10)  # more
    count.add(1.1, 1.2, 10)  # late
    count.add(0.9, 0.9, 1)  # a single token has no time per token
    count.add_failed()

    goodput = count.result(seconds=4.0)

    assert (goodput.answers, goodput.within, goodput.unmeasured) == (5, 2, 0)
    assert (goodput.share, goodput.per_second) == (0.4, 0.5)
    assert count.result(None).per_second is None  # other answer sets shared the seconds


def test_an_answer_without_the_latency_that_is_limited_is_neither_good_nor_bad():
    count = GoodputCount(GoodputLimits.model_validate("ttft=1s,e2el=2s"))
    count.add(None, 1.0, 10)
    count.add(None, 3.0, 10)  # too late, whenever it began
    count.add(0.5, 1.0, None)

    goodput = count.result(seconds=1.0)

    assert (goodput.answers, goodput.within, goodput.unmeasured) == (2, 1, 1)


def test_goodput_without_answers_has_no_share():
    assert GoodputCount(GoodputLimits.model_validate("ttft=1s")).result(0.0).share is None


@pytest.mark.parametrize("text", ["ttft=2s,tpot=50ms,e2el=.5s", "e2el:500ms, ttft:2s,tpot:50 ms"])
def test_limits_are_also_a_text_and_passed_on_with_units(text: str):
    limits = GoodputLimits.model_validate(text)

    assert limits.given == {"ttft": 2, "tpot": 0.05, "e2el": 0.5}
    assert limits.model_dump(mode="json") == {"ttft": "2.0s", "tpot": "0.05s", "e2el": "0.5s"}
    assert GoodputLimits.model_validate_json(limits.model_dump_json()) == limits
    assert GoodputCount(limits).result(1.0).limits_text == "TTFT 2 s, TPOT 0.05 s, E2EL 0.5 s"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "ttft",
        "ttft=2s,ttft=3s",
        "ttft=0s",
        "itl=1s",
        "ttft=fast",
        "ttft=2s,,e2el=3s",
        "ttft=2m",
    ],
)
def test_a_text_that_names_no_limits_is_refused(text: str):
    with pytest.raises(ValidationError):
        GoodputLimits.model_validate(text)


@pytest.mark.parametrize("limits", ["ttft:500", {"ttft": 500}, {"ttft": 0.5}, {"ttft": "500"}])
def test_a_limit_without_a_unit_is_refused_since_vllms_are_milliseconds(limits: object):
    with pytest.raises(ValidationError, match="number with its unit, such as `2s` or `500ms`"):
        GoodputLimits.model_validate(limits)


def test_limits_that_were_stored_are_seconds():
    stored = Goodput.model_validate(
        {"limits": {"ttft": 2.0, "tpot": None, "e2el": 30}, "answers": 4, "within": 3}
    )

    assert stored.limits_text == "TTFT 2 s, E2EL 30 s"


@pytest.mark.parametrize(("theirs", "differs"), [(1.04, False), (1.06, True), (0.94, True)])
def test_engine_and_client_agree_within_five_percent(theirs: float, *, differs: bool):
    other = OtherSide(by="client", requests=1, e2el=theirs)
    speed = Speed(e2el=spread(1.0), ttft=spread(9.0), other_side=other)

    assert speed.differences() == ({"e2el": (1.0, theirs)} if differs else {})


def test_scalars_have_goodput_and_the_other_side():
    count = GoodputCount(GoodputLimits.model_validate("e2el=1s"))
    count.add(0.1, 0.5, 2)
    other = OtherSide(by="client", requests=1, e2el=0.6)
    scalars = Speed(goodput=count.result(2.0), other_side=other, requests=1).scalars()

    assert scalars["goodput_share"] == 1.0
    assert scalars["goodput_per_second"] == 0.5
    assert scalars["client_e2el_mean"] == 0.6
    assert scalars["requests"] == 1

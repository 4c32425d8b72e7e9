"""Accuracy over cost from stored answers: the front, prices, and which differences are real."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from regrade.answers.local import LocalRepository
from regrade.answers.origin import begin_session
from regrade.answers.publishing import publish_answers
from regrade.answers.sets import AnswerSet
from regrade.answers.spool import Spool
from regrade.cli.main import run
from regrade.comparing.chart_text import choice_table, sentences
from regrade.comparing.comparison import CompareOptions
from regrade.comparing.costs import Prices
from regrade.comparing.tradeoff import Tradeoffs, pareto_front, tradeoffs
from regrade.records.specification import ModelIdentity
from regrade.settings import SamplingParams
from regrade.settings.errors import DamagedAnswersError, RepositoryError, SettingsError
from tests.builders import description, row, session
from tests.command_line import regrade
from tests.comparing.sides import answer
from tests.judged import judge
from tests.stored import commit_manifest, score

TOTAL = 200


def generated(
    repository: LocalRepository,
    tmp_path: Path,
    model: str,
    *,
    right: int,
    seconds: float,
    device: str = "NVIDIA H100",
    quantization: str | None = None,
    revision: str = "a" * 40,
    scorer: str = "number",
    total: int = TOTAL,
    **settings: Any,
) -> AnswerSet:
    """Publish answers as a session of an engine generates them."""
    identity = ModelIdentity(name=model, kind="hub", revision=revision, quantization=quantization)
    described = description(total, (scorer,))
    changes = {"model": identity, "sampling": SamplingParams(max_tokens=total)}
    specified = described.specification.model_copy(update=changes)
    described = described.model_copy(update={"specification": specified})
    begun = session(started_at=datetime.now(UTC), device=device, engine_settings=settings)
    rows = [
        row(
            number,
            "" if number < right else f"#### {number + 1}",
            finished_at=seconds * (number + 1) / total,
        )
        for number in range(total)
    ]
    with Spool(tmp_path / "spool" / specified.answer_set_id) as spool:
        begin_session(spool, repository.uri, described, begun)
        spool.append(rows)
        found = publish_answers(repository, spool, described)
    if scorer != "judge":
        score(found)
    return found


def chart(repository: LocalRepository, **changes: Any) -> Tradeoffs:
    options: dict[str, Any] = {"over": "seconds", "prices": Prices(), "currency": "$"}
    return tradeoffs([repository.uri], **(options | changes))


def test_choices_are_ordered_by_cost_and_the_front_is_marked(
    repository: LocalRepository, tmp_path: Path
):
    generated(repository, tmp_path, "org/small", right=100, seconds=20)
    generated(repository, tmp_path, "org/large", right=160, seconds=200)
    generated(repository, tmp_path, "org/large", right=159, seconds=120, quantization="fp8")
    generated(repository, tmp_path, "org/old", right=90, seconds=160)
    (found,) = chart(repository).benchmarks
    assert [(choice.name, choice.cost, choice.on_front) for choice in found.choices] == [
        ("org/small", 0.1, True),
        ("org/large (fp8)", 0.6, True),
        ("org/old", 0.8, False),
        ("org/large", 1.0, True),
    ]
    told = " ".join(sentences(found, "$"))
    assert "org/large is better than org/small: +30.00 points" in told
    assert (
        "org/large and org/large (fp8) are both on the front, but their difference may be chance"
        in told
    )
    assert "is better than org/large (fp8)" not in told
    assert len(found.pairs) == 6


def test_a_difference_that_was_not_seen_is_no_equality(repository: LocalRepository, tmp_path: Path):
    generated(repository, tmp_path, "org/small", right=100, seconds=20)
    generated(repository, tmp_path, "org/large", right=104, seconds=200)

    (found,) = chart(repository).benchmarks
    told = " ".join(sentences(found, "$"))

    [pair] = found.pairs
    assert not pair.real
    assert f"is within {100 * pair.high:.1f} points of the others, as far as 200 questions" in told
    assert pair.high > 0.03


def test_money_is_gpus_times_hours_or_tokens_times_price(
    repository: LocalRepository, tmp_path: Path
):
    generated(repository, tmp_path, "org/two", right=100, seconds=3600, tensor_parallel_size=2)
    (by_hour,) = chart(repository, over="money", prices=Prices({"": 3.0})).benchmarks
    assert by_hour.choices[0].cost == pytest.approx(2 * 3.0 / TOTAL)
    prices = Prices({"": 3.0}, {"org/two": (1.0, 10.0)})
    (by_token,) = chart(repository, over="money", prices=prices).benchmarks
    assert by_token.choices[0].cost == pytest.approx((5 * 1.0 + 7 * 10.0) / 1e6)
    (tokens,) = chart(repository, over="tokens").benchmarks
    assert tokens.choices[0].cost == 7


def test_money_without_a_price_is_refused(repository: LocalRepository, tmp_path: Path):
    generated(repository, tmp_path, "org/one", right=100, seconds=10)
    with pytest.raises(SettingsError, match="--gpu-hour"):
        chart(repository, over="money")
    (found,) = chart(repository, over="money", prices=Prices({"org/other": 1.0})).benchmarks
    assert found.choices == ()
    assert found.left_out == ("org/one: no price is given for it",)


def test_answers_without_times_have_no_place_in_the_chart(
    repository: LocalRepository, tmp_path: Path
):
    generated(repository, tmp_path, "org/one", right=100, seconds=10)
    answer(repository, "org/imported", total=TOTAL, row_changes={"target": None})
    (found,) = chart(repository).benchmarks
    assert [choice.name for choice in found.choices] == ["org/one"]
    assert found.left_out == ("org/imported: its seconds are not known",)


def test_answers_that_wait_for_a_judge_are_a_remark(repository: LocalRepository, tmp_path: Path):
    generated(repository, tmp_path, "org/one", right=100, seconds=10)
    waiting = generated(repository, tmp_path, "org/two", right=100, seconds=10, scorer="judge")
    (found,) = chart(repository).benchmarks
    assert [choice.name for choice in found.choices] == ["org/one"]
    [remark] = found.left_out
    set_id = waiting.manifest.answer_set_id
    assert remark == f"org/two: a judge grades its answers: `regrade judge {set_id} --judge MODEL`"


def test_one_benchmark_has_one_scorer_in_a_chart(repository: LocalRepository, tmp_path: Path):
    for model, scorer in (("org/one", "number"), ("org/two", "exact"), ("org/six", "number")):
        generated(repository, tmp_path, model, right=100, seconds=10, scorer=scorer)
    (found,) = chart(repository).benchmarks
    assert sorted(choice.name for choice in found.choices) == ["org/one", "org/six"]
    assert found.left_out == (
        "org/two: it is scored by exact, others by number: `--scorer` chooses one for all",
    )
    (all_alike,) = chart(repository, options=CompareOptions(scorer="number")).benchmarks
    assert len(all_alike.choices) == 3


def test_verdicts_stand_for_the_judged_model_with_the_costs_of_its_answers(
    repository: LocalRepository, tmp_path: Path
):
    for model, seconds, grade in (("org/small", 20, "2"), ("org/large", 100, "3")):
        answers = generated(
            repository, tmp_path, model, right=TOTAL, seconds=seconds, scorer="judge"
        )
        judge(
            answers,
            lambda number, _, best=grade: best if number % 2 else "1",
            rubric="accuracy_style",
        )
    (found,) = chart(repository, benchmarks=("judge:accuracy_style:sums",)).benchmarks
    assert [(choice.name, choice.model, choice.cost) for choice in found.choices] == [
        ("org/small (judge org/judge)", "org/small", 0.1),
        ("org/large (judge org/judge)", "org/large", 0.5),
    ]
    assert [choice.accuracy for choice in found.choices] == [1.5, 2.0]
    told = " ".join(sentences(found, "$"))
    assert "org/large (judge org/judge) (2.00 for 0.5 s)" in told
    assert "is better than org/small (judge org/judge): +0.50 points" in told
    assert [row[1].partition("(")[2] for row in choice_table(found, "$").rows] == [
        "uncalibrated)"
    ] * 2
    assert chart(
        repository, models=("small",), benchmarks=("judge:accuracy_style:sums",)
    ).benchmarks


def test_two_models_of_one_name_are_both_in_the_chart(repository: LocalRepository, tmp_path: Path):
    generated(repository, tmp_path, "final", right=100, seconds=10, revision="a" * 64)
    generated(repository, tmp_path, "final", right=180, seconds=30, revision="b" * 64)
    (found,) = chart(repository).benchmarks
    assert [choice.name for choice in found.choices] == ["final@aaaaaaaa", "final@bbbbbbbb"]


def test_different_devices_are_named(repository: LocalRepository, tmp_path: Path):
    generated(repository, tmp_path, "org/one", right=100, seconds=10)
    generated(repository, tmp_path, "org/two", right=100, seconds=10, device="NVIDIA A100")
    (found,) = chart(repository).benchmarks
    assert any(
        "different devices (NVIDIA A100; NVIDIA H100)" in text for text in sentences(found, "$")
    )


def test_a_model_without_answers_is_an_error_that_names_the_others(
    repository: LocalRepository, tmp_path: Path
):
    generated(repository, tmp_path, "org/one", right=100, seconds=10)
    with pytest.raises(RepositoryError, match="Models with complete answers: org/one"):
        chart(repository, models=("org/two",))


def test_equal_places_are_both_on_the_front():
    assert pareto_front([(1.0, 0.5), (1.0, 0.5), (2.0, 0.5), (2.0, 0.7), (3.0, 0.6)]) == {0, 1, 3}


def test_the_command_draws_the_chart(repository: LocalRepository, tmp_path: Path):
    generated(repository, tmp_path, "org/one", right=100, seconds=10)
    generated(repository, tmp_path, "org/$two$", right=180, seconds=30)
    for name in ("deep/chart.svg", "chart.png"):
        assert run(["chart", "--answers", repository.uri, "--image", str(tmp_path / name)]) == 0
    assert "<svg" in (tmp_path / "deep" / "chart.svg").read_text()
    assert (tmp_path / "chart.png").read_bytes().startswith(b"\x89PNG")


def test_damaged_answers_are_left_out_and_named(repository: LocalRepository, tmp_path: Path):
    _, unread, cut = (
        generated(repository, tmp_path, f"org/{name}", right=100, seconds=10)
        for name in ("kept", "unread", "cut")
    )
    commit_manifest(unread, schema_version=99)
    shard = repository.folder / cut.folder / cut.manifest.shards[0].name
    shard.unlink()

    ran = regrade("chart", "--answers", repository.uri, "--json")

    [tradeoff] = ran.document["benchmarks"]
    assert [choice["model"] for choice in tradeoff["choices"]] == ["org/kept"]
    assert (ran.code, ran.err.count("left out: ")) == (1, 2)
    for damaged, named in zip((unread, cut), ran.document["damaged"], strict=True):
        assert f"{damaged.folder}/" in ran.err
        assert f"{damaged.folder}/" in named["path"]
    with pytest.raises(DamagedAnswersError, match=unread.folder):
        chart(repository, models=("org/unread",))


@pytest.mark.parametrize("damage", ["manifest", "shard"])
def test_the_next_fullest_answers_take_the_place_of_damaged_ones_whatever_the_damage(
    repository: LocalRepository, tmp_path: Path, damage: str
):
    fewer = generated(repository, tmp_path, "org/one", right=100, seconds=10, total=150)
    generated(repository, tmp_path, "org/one", right=100, seconds=10, total=100)
    fullest = generated(repository, tmp_path, "org/one", right=100, seconds=10)
    if damage == "manifest":
        commit_manifest(fullest, schema_version=99)
    else:
        (repository.folder / fullest.folder / fullest.manifest.shards[0].name).unlink()
    damaged: list[DamagedAnswersError] = []

    (found,) = chart(repository, on_damage=damaged.append).benchmarks

    [choice] = found.choices
    assert (choice.answer_set_id, choice.n) == (fewer.manifest.answer_set_id, 150)
    [error] = damaged
    assert fullest.folder in error.path


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--image", "chart.gif"], "should end in `.png` or `.svg`"),
        (["--over", "money", "--gpu-hour", "cheap"], "should be a price"),
        (["--over", "money", "--token-price", "1"], "should be two prices"),
    ],
)
def test_wrong_options_are_refused(
    arguments: list[str], message: str, capfd: pytest.CaptureFixture[str]
):
    assert run(["chart", "--answers", "/nowhere", *arguments]) == 2
    assert message in capfd.readouterr().err

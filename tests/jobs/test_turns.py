"""Conversations whose next turn holds the model's own answer."""

import json
from pathlib import Path
from typing import Any

import pytest

from regrade.answers.spool import Spool
from regrade.jobs.generate import generate
from regrade.jobs.plan import Plan
from regrade.jobs.shares import Share
from regrade.jobs.turns import Before, said, stored_before
from regrade.judging.labels.items import clusters_of
from regrade.records import Request
from regrade.settings import PromptSettings
from regrade.settings.errors import EngineError, SettingsError
from regrade.settings.turn_ids import question_ids, question_numbers, turn_of
from tests.conversations import Said, Talking, echo, last_user, plan_of_turns, write_turns

TALKS = (["a", "b", "c"], ["d", "e"], ["f"])


@pytest.fixture
def talks(tmp_path: Path) -> Path:
    return write_turns(tmp_path / "talks.jsonl", *TALKS)


def rows_of(spool: Spool) -> dict[tuple[str, int], dict[str, Any]]:
    rows = [row for batch in spool.batches(["sample_id"]) for row in batch.to_pylist()]
    assert len({(row["sample_id"], row["repeat"]) for row in rows}) == len(rows)
    return {(row["question"], row["repeat"]): row for row in rows}


def filled(plan: Plan, folder: Path, engine: Talking, share: Share | None = None) -> dict:
    """Generate what the spool in a folder lacks, and return its rows."""
    with Spool(folder) as spool:
        missing = plan.missing(spool.states().done, share)
        before = stored_before(missing, None, spool)
        generate(plan.requests(missing, (), before), engine, spool, lambda _: None)
        return rows_of(spool)


def roles(request: Request) -> list[tuple[str, str]]:
    assert not isinstance(request.prompt, str)
    return [(message["role"], message["content"]) for message in request.prompt]


@pytest.mark.parametrize("grows", [True, False])
def test_each_turn_is_asked_with_the_models_own_answers_before_it(
    talks: Path, tmp_path: Path, grows: bool
):
    engine = Talking(grows=grows)
    plan = plan_of_turns(talks, system="Be brief.")

    rows = filled(plan, tmp_path / "spool", engine)

    said = {text: row["text"] for (text, _), row in rows.items()}
    assert said == {turn: f"{2 * n}: {turn}" for talk in TALKS for n, turn in enumerate(talk, 1)}
    [third] = [request for request in engine.asked if last_user(request) == "c"]
    assert roles(third) == [
        *(("system", "Be brief."), ("user", "a"), ("assistant", "2: a")),
        *(("user", "b"), ("assistant", "4: b"), ("user", "c")),
    ]
    assert json.loads(rows["c", 0]["prompt"]) == list(third.prompt)
    assert engine.calls == (1 if grows else 3)


def test_turns_have_ids_subsets_and_targets_of_their_own(talks: Path):
    plan = plan_of_turns(talks)
    first = plan.samples[0]

    assert [sample.question for sample in plan.samples] == ["a", "b", "c", "d", "e", "f"]
    assert [sample.subset for sample in plan.samples[:3]] == ["turn 1", "turn 2", "turn 3"]
    assert [turn_of(s.id)[1:] for s in plan.samples[:3]] == [(1, 3), (2, 3), (3, 3)]  # type: ignore[index]
    assert {turn_of(s.id).question for s in plan.samples[:3]} == {first.id.partition("#")[0]}  # type: ignore[union-attr]
    assert [sample.target for sample in plan.samples] == ["a", "b", "c", "d", "e", "f"]
    assert plan.specification.benchmark.converses
    assert (plan.rows, plan.description.n_samples) == (6, 6)


def test_a_limit_is_one_of_conversations_and_has_no_effect_beyond_them(talks: Path):
    two = plan_of_turns(talks, limit=2)

    assert [sample.question for sample in two.samples] == ["a", "b", "c", "d", "e"]
    assert plan_of_turns(talks, limit=4).specification == plan_of_turns(talks).specification


def test_repeats_are_conversations_of_their_own(talks: Path, tmp_path: Path):
    seeds: dict[int, list[str]] = {}

    def by_seed(request: Request) -> dict[str, Any]:
        seeds.setdefault(request.sampling.seed, []).append(last_user(request))
        return {"text": f"{request.sampling.seed}"}

    engine = Talking(by_seed)
    plan = plan_of_turns(talks, repeats=2, temperature=1.0)
    rows = filled(plan, tmp_path / "spool", engine)

    assert len(rows) == 12
    assert len(seeds) == 12  # no two rows share a seed
    for repeat in (0, 1):
        prompt = json.loads(rows["c", repeat]["prompt"])
        before = [rows[turn, repeat]["text"] for turn in "ab"]
        assert [turn["content"] for turn in prompt[1::2]] == before
    assert rows["a", 0]["text"] != rows["a", 1]["text"]


def failing(turn: str, **fields: Any) -> Said:
    return lambda request: fields if last_user(request) == turn else echo(request)


@pytest.mark.parametrize(
    ("fields", "reason", "permanent"),
    [
        ({"error": "no", "error_permanent": False}, "no", False),
        ({"error": "too long", "error_permanent": True}, "too long", True),
        ({"text": "And so", "finish_reason": "length"}, "its answer was cut off.", True),
        ({"text": "", "reasoning_open": True}, "its reasoning never ended.", True),
    ],
)
def test_after_a_turn_without_a_whole_answer_the_rest_fails_with_the_reason(
    talks: Path, tmp_path: Path, fields: dict[str, Any], reason: str, permanent: bool
):
    engine = Talking(failing("a", **fields))

    rows = filled(plan_of_turns(talks), tmp_path / "spool", engine)

    assert {last_user(request) for request in engine.asked} == {"a", "d", "e", "f"}
    for text in ("b", "c"):
        assert rows[text, 0]["error"] == f"Not asked, because of the turn before it: {reason}"
        assert rows[text, 0]["error_permanent"] is permanent
        assert rows[text, 0]["text"] is None
    assert rows["e", 0]["error"] is None


@pytest.mark.parametrize("answers", range(6))
@pytest.mark.parametrize("share", [None, Share(2, 2)])
def test_a_run_that_ends_in_the_middle_goes_on_and_equals_an_unbroken_one(
    talks: Path, tmp_path: Path, answers: int, share: Share | None
):
    plan = plan_of_turns(talks)
    unbroken = filled(plan, tmp_path / "unbroken", Talking())
    with pytest.raises(EngineError):
        filled(plan, tmp_path / "spool", Talking(ends_after=answers), share)

    engine = Talking(grows=False)
    rows = filled(plan, tmp_path / "spool", engine, share)

    assert len(engine.asked) == 6 - answers

    def without_times(rows: dict) -> dict:
        return {key: row | {"finished_at": None} for key, row in rows.items()}

    assert without_times(rows) == without_times(unbroken)


def test_a_row_whose_follower_was_not_written_is_not_gone_on_with(talks: Path, tmp_path: Path):
    cut = failing("a", text="And so", finish_reason="length")
    plan = plan_of_turns(talks)
    first = filled(plan, tmp_path / "spool", Talking(cut))["a", 0]
    with Spool(tmp_path / "again") as spool:
        spool.append([first])

    again = filled(plan, tmp_path / "again", engine := Talking())

    assert "was cut off" in again["c", 0]["error"]
    assert {last_user(request) for request in engine.asked} == {"d", "e", "f"}


def test_only_first_turns_are_planned_with_the_room_that_the_others_need(talks: Path):
    plan = plan_of_turns(talks)
    planned = plan.requests(plan.missing(set()))

    asked = list(planned)

    assert [(last_user(r), r.later) for r in asked] == [("a", ("b", "c")), ("d", ("e",)), ("f", ())]
    assert len(planned) == 6
    assert asked == list(planned)  # it can be read again


def test_stored_answers_of_one_model_are_no_request_of_another(talks: Path):
    plan = plan_of_turns(talks)
    missing = [(plan.samples[1], 0)]
    key = (plan.samples[1].id, 0)

    one, other = (plan.requests(missing, (), {key: Before((text,))}) for text in ("yes", "no"))

    assert one != other
    assert one == plan.requests(missing, (), {key: Before(("yes",))})
    assert not one.is_part_of(plan.requests(plan.missing(set())))
    assert [roles(request)[1] for request in one] == [("assistant", "yes")]


def test_one_machine_asks_all_turns_of_a_conversation(talks: Path):
    plan = plan_of_turns(talks)
    order = plan.missing(set(), Share(2, 2))
    planned = plan.requests(order)

    planned.withdraw({(plan.samples[0].id, 0)})

    assert [sample.question for sample, _ in order[:3]] == ["d", "e", "f"]  # its part begins with d
    gone = {planned.rows[key][0].question for key in planned.withdrawn}
    assert gone == {"a", "b", "c"}


def test_thoughts_are_no_part_of_the_next_turn():
    assert said("<think>Hm</think>\n\nYes \n", reasoning_open=False) == "Yes \n"
    assert said(" Yes", reasoning_open=False) == " Yes"
    assert said("hm </think>Yes", reasoning_open=True) == "Yes"
    assert said("hm", reasoning_open=True) is None
    assert said("<think>hm", reasoning_open=False) is None
    assert said(None, reasoning_open=False) is None


def test_turns_are_told_from_other_ids():
    assert turn_of("3f#2/3") == ("3f", 2, 3)
    for text in ("3f", "3f#4/3", "3f#0/3", "#1/1", "3f#2", "a#1/2b"):
        assert turn_of(text) is None
    assert question_ids(["x#1/2", "y", "x#2/2"]) == ["x", "y", "x"]
    assert question_numbers(["x#1/2", "y", "x#2/2", "z"]) == [0, 1, 0, 2]
    assert clusters_of([("x#1/2", 0), ("y", 0), ("x#2/2", 1)]).tolist() == [0, 1, 0]


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"prompt": PromptSettings(prefill="Yes")}, "`prompt.prefill` does not allow"),
        ({"format": "completion"}, "`prompt.format` does not allow"),
        ({"n_shots": 1}, "leave out `datasets.prompt` and `datasets.n_shots`"),
        ({"messages_column": "turns"}, "Leave out `datasets.messages_column` or"),
        ({"scorer": "code"}, "can have neither choices, nor tools"),
    ],
)
def test_settings_that_turns_cannot_have_are_refused(
    talks: Path, changes: dict[str, Any], expected: str
):
    with pytest.raises(SettingsError, match=expected):
        plan_of_turns(talks, **changes)

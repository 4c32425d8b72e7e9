"""The grid of a sweep: which points there are, where their answers are, and which share an engine."""

from pathlib import Path
from typing import Any

import pytest

from regrade.jobs.job import make_job
from regrade.settings.errors import SettingsError
from regrade.tuning.sweep.points import SweepJob, SweepPoint, check_address, starts

BASE: dict[str, Any] = {"model": "org/name", "benchmarks": ("gsm8k",), "answers": "/answers"}


def job(**changes: Any) -> SweepJob:
    return make_job(SweepJob, BASE | changes)


def axis(setting: str, *values: str) -> dict[str, Any]:
    return {"setting": setting, "values": values}


def points(**changes: Any) -> list[SweepPoint]:
    return job(**changes).points()


def test_all_combinations_are_points_and_requests_in_flight_vary_fastest():
    found = points(in_flight=(1, 4), axes=(axis("engine.max_num_batched_tokens", "512", "1024"),))
    assert [point.name for point in found] == [
        "max_num_batched_tokens=512, in_flight=1",
        "max_num_batched_tokens=512, in_flight=4",
        "max_num_batched_tokens=1024, in_flight=1",
        "max_num_batched_tokens=1024, in_flight=4",
    ]


def test_each_point_has_an_answer_repository_of_its_own():
    found = points(axes=(axis("model", "a/same", "b/same", "c/sa me"),), in_flight=(1, 2))
    addresses = [point.answers for point in found]
    assert len({address.lower() for address in addresses}) == len(addresses) == 6
    assert all(
        a.startswith(f"/answers/sweeps/{job_id}/")
        for a in addresses
        for job_id in [found[0].answers.split("/")[3]]
    )


def test_points_on_the_hub_are_repositories_with_names_that_it_takes():
    found = points(answers="hf://datasets/org/name", axes=(axis("model", "a/b--c", "x/../y" * 40),))
    for point in found:
        name = point.answers.removeprefix("hf://datasets/org/")
        assert "--" not in name
        assert ".." not in name
        assert "/" not in name
        assert len(name) <= 96


def test_a_long_name_on_the_hub_ends_in_a_hash_and_stays_one_of_its_own():
    long = axis("model", "a/" + "m" * 60, "b/" + "m" * 60)
    found = points(answers=f"hf://datasets/org/{'n' * 60}", axes=(long,), in_flight=(1, 2))
    names = {point.answers.removeprefix("hf://datasets/org/") for point in found}
    assert len(names) == 4
    assert {len(name) for name in names} == {96}
    here = points(answers=f"/org/{'n' * 60}", axes=(long,), in_flight=(1, 2))
    assert [p.answers.rpartition("/")[2] for p in here] == [p.folder for p in here]


def test_points_that_differ_in_requests_and_prompts_share_an_engine_start():
    varied = (axis("prompt.n_shots", "0", "5"), axis("sampling.temperature", "0", "0.7"))
    assert len(starts(points(in_flight=(1, 4, 16), axes=varied))) == 1


@pytest.mark.parametrize(
    ("setting", "values"),
    [
        ("engine.max_num_seqs", ("8", "16")),
        ("prompt.chat_template", ("a.jinja", "b.jinja")),
        ("prompt.truncate", ("true", "false")),
    ],
)
def test_what_an_engine_is_loaded_with_needs_a_start_for_each_value(
    setting: str, values: tuple[str, ...]
):
    assert len(starts(points(in_flight=(1, 4), axes=(axis(setting, *values),)))) == 2


def test_models_may_share_an_engine_and_the_points_of_each_follow_one_another():
    varied = (axis("sampling.temperature", "0", "0.7"), axis("model", "a/b", "a/c"))
    (group,) = starts(points(axes=varied))
    assert [point.parameters["model"] for point in group] == ["a/b", "a/b", "a/c", "a/c"]


def test_values_become_settings_of_the_evaluation():
    varied = (
        axis("engine.max_num_batched_tokens", "512", "default"),
        axis("prompt.thinking", "on", "off"),
    )
    first, *_, last = points(engine={"max_num_batched_tokens": 64}, axes=varied)
    assert first.job().engine.max_num_batched_tokens == 512
    assert first.job().prompt.thinking == "on"
    assert last.job().engine.max_num_batched_tokens is None
    assert last.job().prompt.thinking == "off"
    assert last.job().answers == last.answers


def test_a_value_of_a_list_is_added_to_it():
    shared = {"extra": ("seed=1",)}
    found = points(engine=shared, axes=(axis("engine.extra", "block_size=16", "block_size=32"),))
    assert [point.job().engine.extra for point in found] == [
        ("seed=1", "block_size=16"),
        ("seed=1", "block_size=32"),
    ]


def test_a_greedy_point_has_one_answer_per_question_and_the_others_their_repeats():
    varied = axis("sampling.temperature", "0", "0.7", "default")
    found = points(repeats=4, axes=(varied,))
    assert [point.job().repeats for point in found] == [None, 4, 4]
    both = points(axes=(axis("sampling.temperature", "0.0", "1"), axis("repeats", "1", "4")))
    assert [point.job().repeats for point in both] == [1, 4, 1, 4]


def test_the_same_command_has_the_same_id_wherever_its_answers_are():
    assert job(in_flight=(1, 4)).sweep_id == job(in_flight=(1, 4), answers="/other").sweep_id
    assert job(in_flight=(1, 4)).sweep_id != job(in_flight=(1, 8)).sweep_id
    assert job(in_flight=(1, 4)).sweep_id != job(in_flight=(1, 4), limit=10).sweep_id
    given = {"scorer": "number", "reuse": {"fresh": True}, "tracking_uri": "sqlite:///x"}
    assert job(in_flight=(1, 4), **given).sweep_id == job(in_flight=(1, 4)).sweep_id


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({}, "nothing varies"),
        ({"in_flight": (4,)}, "nothing varies"),
        ({"in_flight": (0, 4)}, "1 or more"),
        ({"in_flight": (4, 4)}, "given twice"),
        ({"axes": (axis("engine.max_num_seq", "1", "2"),)}, "Did you mean 'engine.max_num_seqs'"),
        ({"axes": (axis("engine.max_concurrency", "1", "2"),)}, "as `in_flight`"),
        ({"axes": (axis("repeats", "1", "1"),)}, "'1' is given twice"),
        (
            {"in_flight": (1, 4), "engine": {"tuned": True}},
            "measures the settings that it is given",
        ),
        ({"axes": (axis("repeats", "1"), axis("repeats", "2"))}, "give its values together"),
        (
            {"axes": (axis("engine.max_num_seqs", "8", "16"), axis("prompt.n_shots", "0", "many"))},
            "^`prompt.n_shots` should be a whole number, not 'many'\\.$",
        ),
        ({"axes": (axis("model", "run", "run/checkpoint-*"),)}, "names several models"),
    ],
)
def test_a_grid_that_makes_no_sense_is_refused(changes: dict[str, Any], message: str):
    with pytest.raises(SettingsError, match=message):
        job(**changes)


def test_a_point_of_a_sweep_gets_no_sweep_inside_however_it_is_spelled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    whole = job(in_flight=(1, 2), answers=str(tmp_path))
    point = whole.points()[0].answers
    monkeypatch.chdir(tmp_path)
    for spelled in (point, f"file://{point}", str(Path(point).relative_to(tmp_path))):
        with pytest.raises(SettingsError, match="repository above"):
            check_address(job(in_flight=(1, 2), answers=spelled))
    check_address(job(in_flight=(1, 2), answers="/home/sweeps/answers"))

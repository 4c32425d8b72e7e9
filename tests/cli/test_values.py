"""Options with several values become axes; everything else stays as it is."""

import shlex

import pytest

from regrade.cli.main import run
from regrade.cli.sweep import command_of, several_values
from regrade.jobs.job import make_job
from regrade.settings.errors import SettingsError
from regrade.tuning.sweep.points import SweepJob


def split(*arguments: str) -> tuple[list[str], dict[str, tuple[str, ...]], list[int]]:
    others, axes, in_flight = several_values(arguments)
    return others, {axis.setting: axis.values for axis in axes}, in_flight


def test_values_are_separated_by_commas():
    others, axes, in_flight = split(
        *("--model", "org/name", "--in-flight", "1,4,16"),
        *("--engine.max-num-batched-tokens", "512,1024", "--temperature=0,0.7", "--json"),
    )
    assert axes == {
        "engine.max_num_batched_tokens": ("512", "1024"),
        "sampling.temperature": ("0", "0.7"),
    }
    assert in_flight == [1, 4, 16]
    assert others == [
        "--json",
        "--model=org/name",
        "--engine.max-num-batched-tokens=512",
        "--temperature=0",
    ]


def test_the_command_of_a_sweep_makes_the_same_sweep(monkeypatch: pytest.MonkeyPatch):
    made: list[SweepJob] = []

    def planned(name: str, kind: type, job: SweepJob, *_: object) -> None:
        made.append(job)
        raise SettingsError("planned only")

    monkeypatch.setattr("regrade.cli.sweep.run_flow", planned)
    given = (
        *("--model", "a", "--model", "b", "--benchmark", "gsm8k", "--benchmark", "mmlu"),
        *(
            "--in-flight",
            "1,4",
            "--limit",
            "50",
            "--temperature",
            "0,0.7",
            "--engine.enforce-eager",
        ),
        *("--engine.extra", "x=1", "--answers", "my answers"),
    )
    run(["sweep", *given])
    command, *words = shlex.split(command_of(made[0]))

    run(words)

    assert command == "regrade"
    assert made[1] == made[0]
    assert made[1].sweep_id == made[0].sweep_id


def test_the_command_of_a_sweep_names_the_file_of_datasets_that_only_a_file_can_have():
    dataset = {"name": "own", "path": "own.jsonl", "prompt": "{{ q }}", "target_column": "a"}
    job = make_job(SweepJob, {"model": "m", "datasets": [dataset], "in_flight": (1, 2)})

    words = shlex.split(command_of(job))
    assert words == ["regrade", "sweep", "--config", "FILE", "--model", "m", "--in-flight", "1,2"]


def test_names_and_texts_are_given_repeatedly_because_they_may_hold_commas():
    _, axes, _ = split("--model", "a", "--model", "b", "--system", "Be brief, be right.")
    assert axes == {"model": ("a", "b")}


def test_lists_and_options_of_other_kinds_are_no_axes():
    given = ["--engine.extra", "a=1", "--engine.extra", "b=2", "--dataset.path", "a,b", "--fresh"]
    assert split(*given) == (given, {}, [])


def test_a_flag_without_a_value_stays_a_flag():
    assert split("--engine.enforce-eager", "--limit", "5")[0] == [
        "--engine.enforce-eager",
        "--limit",
        "5",
    ]


def test_a_default_is_left_out_of_the_other_arguments():
    others, axes, _ = split("--engine.quantization", "default,fp8")
    assert others == []
    assert axes == {"engine.quantization": ("default", "fp8")}

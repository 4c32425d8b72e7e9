"""A field of a job is an option, a key of the YAML file and a parameter of a deployment, without being named a second time."""

import json
from pathlib import Path
from typing import Annotated

import pytest
from cyclopts import App
from pydantic import Field

from regrade.cli.checking import checked_job
from regrade.cli.job_options import JobOptions, options_of
from regrade.comparing.job import GateJob, NoiseJob
from regrade.jobs.job import EvaluationJob, JudgeJob, make_job
from regrade.settings import Settings
from regrade.settings.errors import SettingsError
from regrade.settings.marks import NO_OPTION, PATH, Absent
from regrade.settings.paths import from_this_folder
from regrade.tuning.search.job import TuneJob
from regrade.tuning.sweep.points import SweepJob


class Weather(Settings):
    """Weather in which a model answers."""

    option_prefix = "weather."
    option_group = "Weather"

    wind: float = Field(0.0, ge=0)
    """Speed of the wind."""
    map: Annotated[str | None, PATH] = None
    """File with a map."""


class MadeUpJob(EvaluationJob):
    """A job with fields of its own."""

    mood: int = Field(3, ge=1)
    """Mood of the model."""
    weather: Weather = Field(Weather(), examples=["{wind: 2}"])
    """Weather."""
    hidden: Annotated[int, NO_OPTION] = 0
    """Only in a file."""
    share: Absent = None


class MadeUpOptions(JobOptions, job=MadeUpJob):
    """Its options."""


def parsed(*words: str) -> JobOptions:
    app = App()
    found: list[JobOptions] = []

    def command(options: MadeUpOptions | None = None) -> None:
        found.append(options or MadeUpOptions())

    app.default(command)
    app(words, exit_on_error=False, print_error=False, result_action="return_none")
    return found[0]


def test_options_override_the_file_which_has_the_same_names(tmp_path: Path):
    file = tmp_path / "job.yaml"
    file.write_text("model: m\nbenchmarks: gsm8k\nmood: 2\nhidden: 5\nweather: {wind: 1, map: a}\n")

    options = parsed("--config", str(file), "--mood", "4", "--weather.map", "./b")

    job = checked_job(MadeUpJob, options.parameters(), options.config)
    assert (job.mood, job.hidden, job.weather) == (4, 5, Weather(wind=1, map="./b"))
    given = job.model_dump(mode="json", exclude_unset=True)
    schema = MadeUpJob.model_json_schema()
    assert from_this_folder(given, schema, root=schema)["weather"]["map"] == str(
        Path("b").absolute()
    )


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (b"mood: 3\nmood: 4", r"'mood' is given twice in .* line 2"),
        (b"weather: {wind: 1, wind: 2}", "'wind' is given twice"),
        (b"mood: \xff", "cannot be read as YAML: unacceptable character #x00ff"),
    ],
)
def test_a_file_that_can_be_read_in_two_ways_or_none_is_refused(
    tmp_path: Path, text: bytes, says: str
) -> None:
    file = tmp_path / "job.yaml"
    file.write_bytes(text)
    with pytest.raises(SettingsError, match=says):
        parsed("--config", str(file)).parameters()


@pytest.mark.parametrize(
    ("given", "read"),
    [
        ("./maps/a", "{folder}/maps/a"),
        ("../a", "{above}/a"),
        ("maps/a", "maps/a"),
        ("/maps/a", "/maps/a"),
    ],
)
def test_a_path_in_a_file_that_begins_with_a_dot_begins_in_the_folder_of_the_file(
    given: str, read: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    file = tmp_path / "settings" / "job.yaml"
    file.parent.mkdir()
    file.write_text(f"model: m\nbenchmarks: gsm8k\nweather: {{map: {given}}}\n")

    def found(config: str) -> str:
        return str(parsed("--config", config).parameters()["weather"]["map"])

    assert found(str(file)) == read.format(folder=file.parent, above=tmp_path)
    monkeypatch.chdir(tmp_path)
    beside = read.format(folder="./settings", above=".")
    assert found("settings/job.yaml") == beside


def test_every_path_of_a_job_is_named_as_its_workers_see_it():
    given = {
        "model": "org/new",
        "answers": "./answers",
        "engine": {"lora": "./lora", "extra": ["./text"]},
        "datasets": ({"path": "./a.csv", "prompt": "./text", "scorer": "./s.py:score"},),
        "prompt": {"chat_template": "./t.jinja", "system": "./text"},
        "scorer": "./s.py:score",
        "scoring": {"sources": [{"benchmark": "code", "path": "./tests.jsonl"}]},
        "judge": {"judges": ["org/judge", "./judge"], "rubric": "./r.j2", "criteria": "./c.yaml"},
        "gate": {"base_answers": "./old", "baseline": "./checkpoint-400"},
        "unknown": "./text",
    }
    schema = EvaluationJob.model_json_schema()

    named = json.dumps(from_this_folder(given, schema, root=schema))

    assert named == json.dumps(given).replace('"./', f'"{Path.cwd()}/').replace(
        f"{Path.cwd()}/text", "./text"
    )


def test_a_job_has_the_options_of_its_own_fields_only():
    of_judge = {name for option in options_of(JudgeJob) for name in option.names}
    assert {"--judge", "--baseline", "--engine.dtype", "--temperature"} <= of_judge
    assert not of_judge & {"--model", "--benchmark", "--share", "--goodput"}
    of_sweep = {name for option in options_of(SweepJob) for name in option.names}
    assert "--benchmark" in of_sweep
    assert not of_sweep & {"--share", "--judge", "--price-input", "--machines"}
    of_gate = {name: option.setting for option in options_of(GateJob) for name in option.names}
    assert {"--max-drop", "--examples", "--sandbox"} <= of_gate.keys()
    assert of_gate["--min-coverage"] == "min_coverage"  # not that of a judge's verdicts
    assert not of_gate.keys() & {"--promote", "--candidate"}


def test_several_models_are_words_or_options_and_replace_those_of_the_file(tmp_path: Path):
    file = tmp_path / "job.yaml"
    file.write_text("model: m\nmore_models: [n]\nbenchmarks: gsm8k\n")
    config = ("--config", str(file))

    def models(*words: str) -> tuple[str, ...]:
        options = parsed(*config, *words)
        job = checked_job(MadeUpJob, options.parameters(), options.config)
        return job.model, *job.more_models

    assert models() == ("m", "n")
    assert models("--model", "run/checkpoint-1", "run/checkpoint-2", "--mood", "4") == (
        "run/checkpoint-1",
        "run/checkpoint-2",
    )
    assert models("--model", "a", "--model", "b", "--model", "c") == ("a", "b", "c")
    assert models("--model", "a") == ("a",)
    file.write_text("benchmarks: gsm8k\n")
    assert "more_models" not in parsed(*config, "--model", "a").parameters()


def test_a_verdict_a_sweep_tuning_and_the_noise_floor_take_one_model():
    several = {"benchmarks": ["gsm8k"], "model": "run/checkpoint-*"}
    for kind, given, says in (
        (EvaluationJob, {"gate": {}}, "a verdict on one model"),
        (SweepJob, {"in_flight": [1, 4]}, "names several models"),
        (TuneJob, {}, "names several models"),
        (NoiseJob, {}, "names several models"),
    ):
        with pytest.raises(SettingsError, match=says):
            make_job(kind, several | given)


def test_a_setting_of_an_option_beside_a_file_is_named_by_the_option(tmp_path: Path):
    file = tmp_path / "job.yaml"
    file.write_text("mood: 0\ndatasets: [{name: a, path: b, choices_column: c}]\n")
    beside = parsed("--config", str(file), "--dataset.name", "x", "--weather.map", "m")

    named = beside.named(
        "`datasets.0.name`, `datasets.1.name`, `datasets.choices_column`, `mood`, `weather.wind=2`"
    )

    assert named == (
        f"`datasets.0.name` in '{file}', `--dataset.name`, `--dataset.choices-column`, `mood` in '{file}', `--weather.wind 2`"
    )
    alone = parsed("--config", str(file))
    assert alone.named("`datasets.choices_column`") == f"`datasets.choices_column` in '{file}'"
    assert alone.named("`model`, `hidden`, `no_setting`") == "`--model`, `hidden`, `no_setting`"


def test_a_text_that_a_message_quotes_names_no_setting():
    quoted = "the models' prompt 'Isn't `model` a word (`weather.wind=2`)?' and '`model`'"
    assert parsed().named(f"{quoted}: set `model`'s name") == f"{quoted}: set `--model`'s name"

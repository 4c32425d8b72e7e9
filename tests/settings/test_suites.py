"""Suites of benchmarks, on the command line and in a configuration."""

import re
from pathlib import Path

import pytest
from pydantic import ValidationError

from regrade.cli.run import EvaluateOptions
from regrade.jobs.job import GenerationJob
from regrade.settings import registry, suites
from regrade.settings.errors import SettingsError, UnknownNameError
from regrade.settings.suites import SUITES, Suite, members

OURS = Suite("ours", "Two of ours.", {"gsm8k": "", "mmlu": ""}, {"mmlu": 3})
MORE = Suite("more", "One is not here.", dict.fromkeys(("mmlu", "absent_one", "gsm8k_chat"), ""))


@pytest.fixture
def known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(suites, "SUITES", (OURS, MORE))


@pytest.mark.usefixtures("known")
def test_members_of_several_suites_come_once_and_in_order():
    assert members(["ours"]) == ("gsm8k", "mmlu")
    with pytest.raises(UnknownNameError, match=r"Unknown suite 'our'\. Did you mean 'ours'\?"):
        members(["our"])


@pytest.mark.usefixtures("known")
def test_a_suite_with_a_member_that_is_not_installed_says_so():
    assert MORE.missing == ("absent_one",)
    with pytest.raises(
        SettingsError, match="Suite 'more' has a member that is not installed here: absent_one"
    ):
        members(["more"])


def test_tasks_of_the_harness_are_missing_without_the_harness(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(suites, "find_spec", lambda name: None)
    (leaderboard,) = [suite for suite in SUITES if suite.name == "open-llm-leaderboard"]

    assert leaderboard.missing == leaderboard.benchmarks
    with pytest.raises(SettingsError, match=r"pip install 'regrade\[lm-eval\]'"):
        members(["open-llm-leaderboard"])


@pytest.mark.usefixtures("known")
def test_a_suite_sets_the_examples_of_its_members_unless_they_are_set_by_hand():
    options = {"model": "m", "suite": ("ours",)}
    of_suite, by_hand = EvaluateOptions(**options), EvaluateOptions(**options, shots=("mmlu=1",))
    for_all = EvaluateOptions(**options, prompt_n_shots=0)

    shots = [GenerationJob(**given.parameters()) for given in (of_suite, by_hand, for_all)]

    assert [
        [job.prompt_of(name, job.prompt).n_shots for name in ("gsm8k", "mmlu")] for job in shots
    ] == [[None, 3], [None, 1], [0, 0]]
    with pytest.raises(ValidationError, match="worked examples are given for 'gsm8k'"):
        GenerationJob(model="m", benchmarks=["mmlu"], shots=["gsm8k=3"])
    with pytest.raises(ValidationError, match="'mmlu' should be `BENCHMARK=NUMBER`"):
        GenerationJob(model="m", benchmarks=["mmlu"], shots=["mmlu"])


@pytest.mark.parametrize("suite", SUITES, ids=lambda suite: suite.name)
def test_the_form_of_a_member_says_how_many_examples_it_has(suite: Suite):
    for name, form in suite.forms.items():
        said = re.search(r"(\d+) examples", form)
        assert said is not None, name
        is_task = name.startswith("lm_eval:")
        own = None if is_task else registry.load("benchmark", name).default_n_shots
        if (number := suite.shots.get(name, own)) is not None:
            assert int(said[1]) == number, name


@pytest.mark.usefixtures("known")
def test_a_suite_adds_its_benchmarks_to_those_that_are_named(tmp_path: Path):
    config = tmp_path / "job.yaml"
    config.write_text("model: m\nsuite: ours\nbenchmarks: [gsm8k, mmlu_generative]\n")

    by_option = EvaluateOptions(model=("m",), suite=("ours",), benchmarks=("gsm8k_chat",))
    by_file = EvaluateOptions(config=config)
    both = EvaluateOptions(config=config, benchmarks=("mmlu",))

    assert by_option.parameters()["benchmarks"] == ("gsm8k", "mmlu", "gsm8k_chat")
    assert by_file.parameters()["benchmarks"] == ("gsm8k", "mmlu", "mmlu_generative")
    assert both.parameters()["benchmarks"] == ("gsm8k", "mmlu")
    assert "suite" not in by_file.parameters()


def test_suites_name_only_benchmarks_that_regrade_has():
    assert {name for suite in SUITES for name in suite.missing} == set()

"""Suites of benchmarks, on the command line and in a configuration."""

from pathlib import Path

import pytest

from regrade.cli.run import EvaluateOptions
from regrade.settings import suites
from regrade.settings.errors import SettingsError, UnknownNameError
from regrade.settings.suites import SUITES, Suite, members

OURS = Suite("ours", "Two of ours.", ("gsm8k", "mmlu"))
MORE = Suite("more", "One is not here.", ("mmlu", "absent_one", "gsm8k_chat"))


@pytest.fixture
def known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(suites, "SUITES", (OURS, MORE))


@pytest.mark.parametrize("suite", SUITES, ids=lambda suite: suite.name)
def test_a_suite_names_each_benchmark_once_in_the_form_of_a_name(suite: Suite):
    assert len(set(suite.benchmarks)) == len(suite.benchmarks)
    assert all(name.replace("lm_eval:", "").replace("_", "").isalnum() for name in suite.benchmarks)


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
def test_a_suite_adds_its_benchmarks_to_those_that_are_named(tmp_path: Path):
    config = tmp_path / "job.yaml"
    config.write_text("model: m\nsuite: ours\nbenchmarks: [gsm8k, mmlu_generative]\n")

    by_option = EvaluateOptions(model="m", suite=("ours",), benchmarks=("gsm8k_chat",))
    by_file = EvaluateOptions(config=config)
    both = EvaluateOptions(config=config, benchmarks=("mmlu",))

    assert by_option.parameters()["benchmarks"] == ("gsm8k", "mmlu", "gsm8k_chat")
    assert by_file.parameters()["benchmarks"] == ("gsm8k", "mmlu", "mmlu_generative")
    assert both.parameters()["benchmarks"] == ("gsm8k", "mmlu")
    assert "suite" not in by_file.parameters()


def test_suites_name_only_benchmarks_that_regrade_has():
    assert {name for suite in SUITES for name in suite.missing} == set()

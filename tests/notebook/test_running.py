"""`regrade.score` and `regrade.evaluate`: the commands, called from a notebook's process with its event loop."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
import yaml

import regrade
from regrade.answers.local import LocalRepository
from regrade.cli.checking import checked_job
from regrade.cli.run import ScoreOptions
from regrade.jobs.job import ScoringJob
from regrade.notebook import running
from regrade.results.results import Evaluation
from regrade.settings import SourceOverride
from regrade.settings.errors import SettingsError
from tests.stored import numbers, publish


@pytest.mark.prefect
@pytest.mark.slow
def test_answers_are_scored_within_a_running_event_loop(
    repository: LocalRepository, tmp_path: Path, prefect_api: str, capfd: pytest.CaptureFixture[str]
):
    answers = publish(repository, numbers(0, 5))
    uri = f"sqlite:///{tmp_path / 'mlflow.db'}"

    async def cell() -> Evaluation:
        return regrade.score(repository.uri, scorer="number", tracking_uri=uri)

    [result] = asyncio.run(cell()).answer_sets
    assert result.answer_set_id == answers.manifest.answer_set_id
    assert result.scores[0].metrics["accuracy"] == 1.0
    assert list(regrade.open(repository.uri).sets().accuracy) == [1.0]
    assert "1 scoring published" in capfd.readouterr().err


def test_a_refusal_is_an_error_with_the_commands_message(monkeypatch: pytest.MonkeyPatch):
    # A server of its own would import until the command ends.
    monkeypatch.setenv("PREFECT_API_URL", "http://127.0.0.1:9/api")
    with pytest.raises(SettingsError, match="gsm8kk.*gsm8k"):
        regrade.evaluate("org/model", ["gsm8kk"])
    with pytest.raises(SettingsError, match="`regrade evaluate --follow` in a terminal"):
        regrade.evaluate("run/checkpoint-*", ["gsm8k"], follow=0)


def test_a_refused_setting_is_named_without_a_file_and_a_path_begins_in_the_notebooks_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SettingsError, match="^`force` should be"):
        regrade.score(force="often")
    with pytest.raises(SettingsError, match=f"'{tmp_path}/a'"):
        regrade.score("./a")
    assert "parameters.yaml" not in capsys.readouterr().err


def test_settings_that_were_not_set_stay_the_defaults(monkeypatch: pytest.MonkeyPatch):
    seen: list[Any] = []

    def run(words: list[str], _: Path) -> None:
        seen.extend([words[:2], yaml.safe_load(Path(words[2]).read_text())])

    monkeypatch.setattr(running, "_run_command", run)
    regrade.evaluate(
        "org/model",
        ["gsm8k", "lm_eval:arc_challenge"],
        limit=5,
        answers=None,
        sampling=regrade.SamplingSettings(temperature=0.6),
        prompt=regrade.PromptSettings(),
        engine=regrade.VllmEngine(max_model_len=4096),
    )
    assert seen == [
        ["evaluate", "--config"],
        {
            "model": "org/model",
            "benchmarks": ["gsm8k", "lm_eval:arc_challenge"],
            "limit": 5,
            "sampling": {"temperature": 0.6},
            "engine": {"kind": "vllm", "max_model_len": 4096},
        },
    ]


def test_options_of_scoring_become_those_of_the_command(monkeypatch: pytest.MonkeyPatch):
    seen: list[Any] = []
    monkeypatch.setattr(
        running,
        "_run_command",
        lambda words, _: seen.append(ScoreOptions(config=Path(words[2])).parameters()),
    )
    sources = (SourceOverride(benchmark="gsm8k", path="gsm8k.jsonl"),)
    scoring = regrade.ScoringOptions(processes=2, sandbox="landlock", sources=sources)
    regrade.score("answers", scorer="number", scoring=scoring, force=True)
    [given] = seen
    job = checked_job(ScoringJob, given)
    assert (job.answers, job.scorer, job.force, job.scoring) == ("answers", "number", True, scoring)

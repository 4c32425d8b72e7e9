"""`regrade.open` in a notebook: frames with the numbers of the commands, at one commit; axes; a stable, light door."""

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from matplotlib import pyplot

import regrade
from regrade.answers.local import LocalRepository
from regrade.answers.sets import AnswerSet, list_sets
from regrade.comparing.likeness import NotComparableError
from regrade.comparing.together import compare_sides
from regrade.settings import SamplingParams
from regrade.settings.errors import DamagedAnswersError, RepositoryError, SettingsError
from regrade.stats.scale import Scale
from tests.builders import row
from tests.comparing.sides import answer
from tests.hub_server.fixtures import Hub
from tests.judged import graded
from tests.stored import commit_manifest, numbers, publish, score, score_with_an_older_scorer

mpl.use("Agg")


@pytest.fixture(autouse=True)
def closed_figures() -> Any:
    yield
    pyplot.close("all")


def two_sides(repository: LocalRepository) -> tuple[AnswerSet, AnswerSet]:
    base = answer(repository, "org/base", wrong=(1, 2), total=40)
    candidate = answer(repository, "org/candidate", wrong=(2, 3, 5, 7), total=40)
    for side in (base, candidate):
        score(side)
    return base, candidate


PUBLIC = [
    *("Answers", "ComparedAnswers", "DatasetBenchmark", "Evaluation", "OpenAIEngine"),
    *("PromptSettings", "SamplingSettings", "ScoringOptions", "VllmEngine"),
    *("evaluate", "open", "score"),
]
METHODS = ["compare", "plot", "plot_steps", "read", "revision", "sets", "subsets", "uri"]


def test_the_public_names_stay_as_they_are(repository: LocalRepository):
    assert sorted(regrade.__all__) == PUBLIC
    assert all(getattr(regrade, name).__doc__ for name in PUBLIC)
    assert [name for name in dir(regrade) if not name.startswith("_")] == PUBLIC
    score(publish(repository, numbers(0, 2)))
    answers = regrade.open(repository.uri)
    assert sorted(name for name in dir(answers) if not name.startswith("_")) == METHODS
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = regrade.nothing


def test_type_checkers_of_others_see_the_types():
    assert (Path(regrade.__file__).parent / "py.typed").exists()  # mypy --strict checks them here


def test_importing_the_package_imports_nothing_else():
    code = (
        "import sys; before = set(sys.modules); import regrade; print(*(set(sys.modules) - before))"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    heavy = {"numpy", "pandas", "pyarrow", "pydantic", "matplotlib", "prefect", "mlflow", "torch"}
    heavy |= {"huggingface_hub", "rich", "cyclopts"}
    assert not heavy & {name.split(".")[0] for name in found.stdout.split()}
    light = {"regrade.settings", "regrade.settings.project_folder"}  # the version stands there
    assert {name for name in found.stdout.split() if name.startswith("regrade.")} == light


def test_opening_and_reading_needs_neither_prefect_nor_mlflow_nor_matplotlib(
    repository: LocalRepository,
):
    score(publish(repository, numbers(0, 2)))
    code = (
        "import sys, regrade; answers = regrade.open(sys.argv[1]); answers.sets(); answers.read('org/tiny');"
        "print([name for name in ('prefect', 'mlflow', 'matplotlib', 'torch', 'vllm') if name in sys.modules])"
    )
    command = [sys.executable, "-c", code, repository.uri]
    found = subprocess.run(command, capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


def test_sets_have_their_settings_and_the_headline_with_error_and_n(repository: LocalRepository):
    for temperature in (0.0, 0.7):
        sampling = SamplingParams(temperature=temperature)
        rows = [*numbers(0, 9), row(9, "#### 1"), row(10, "no idea")]
        score(publish(repository, rows, sampling=sampling))
    publish(repository, numbers(0, 3), model="org/run/checkpoint-500", benchmark="other", total=4)
    frame = regrade.open(repository.uri).sets()
    assert list(frame["temperature"].dropna()) == ["0.7", "0.0"]
    scored = frame[frame.model == "org/tiny"]
    assert list(scored.accuracy) == pytest.approx([9 / 11] * 2)
    assert list(scored.n) == [11, 11]
    assert (scored.stderr > 0).all()
    assert list(scored.unparsed) == [1, 1]
    [unscored] = frame[frame.model != "org/tiny"].to_dict("records")
    assert np.isnan(unscored["accuracy"])
    assert pd.isna(unscored["n"])
    assert (unscored["step"], unscored["rows"], unscored["expected"]) == (500, 3, 4)
    assert not unscored["complete"]
    assert list(regrade.open(repository.uri).sets(model="TINY").model) == ["org/tiny"] * 2


def test_verdicts_are_those_of_the_judged_model_with_the_judge_beside_it(
    repository: LocalRepository,
):
    graded(repository, "org/run/checkpoint-500", (1, 2, 3))
    frame = regrade.open(repository.uri).sets(model="checkpoint-500")
    assert set(frame.model) == {"org/run/checkpoint-500"}
    assert set(frame.step) == {500}
    [judged] = frame[frame.judge.notna()].to_dict("records")
    assert (judged["judge"], judged["accuracy"]) == ("org/judge", 2)
    assert judged["by_labels"] == "uncalibrated"
    assert frame[frame.judge.isna()].by_labels.isna().all()


def test_answers_are_read_with_outcome_value_and_what_was_read(repository: LocalRepository):
    rows = [
        row(1, "#### 9"),
        row(0, question="How many?") | {"reasoning": "Hm."},
        row(2, "no idea"),
        row(3, text="x", error="too long", error_permanent=True) | {"text": None},
    ]
    score(publish(repository, rows))
    answers = regrade.open(repository.uri)
    frame = answers.read("org/tiny")
    assert list(frame.outcome) == ["right", "wrong", "unparsed", "failed"]
    assert list(frame.value[:3]) == [1.0, 0.0, 0.0]
    assert np.isnan(frame.value[3])  # missing, not wrong
    assert list(frame.extracted.fillna("nothing")) == ["0", "9", "nothing", "nothing"]
    assert list(frame.seconds) == [0.25] * 4
    assert "question" not in frame
    texts = answers.read("org/tiny", texts=True)
    assert list(texts.question.fillna("")) == ["How many?", "", "", ""]
    assert list(texts.thought.fillna("")) == ["Hm.", "", "", ""]
    assert texts.answer[1] == "#### 9"
    assert list(texts.prompt) == [f"What is {n}?" for n in range(4)]


def test_another_scorer_is_stored_or_scored_now(repository: LocalRepository):
    set_id = publish(repository, [row(1, "1"), row(2, "It is 2.")]).manifest.answer_set_id
    answers = regrade.open(repository.uri)
    assert list(answers.read(set_id).outcome) == ["not scored"] * 2
    assert list(answers.read(set_id, scorer="exact").value) == [1.0, 0.0]
    assert list(answers.subsets(set_id, scorer="exact").accuracy) == [0.0, 1.0]
    head = repository.head()
    assert answers.revision == head  # nothing was stored
    with pytest.raises(SettingsError, match="is not scored"):
        answers.subsets(set_id)


def test_scores_of_an_older_scorer_are_not_taken_for_those_of_today(repository: LocalRepository):
    answers = publish(repository, numbers(0, 4))
    score_with_an_older_scorer(answers, lambda _: {"value": 0.0})
    opened = regrade.open(repository.uri)
    assert opened.sets().stale.tolist() == [True]
    with pytest.warns(UserWarning, match="are stale: number v0"):
        old = opened.read("org/tiny")
    assert list(old.value) == [0.0] * 4
    assert old.attrs["scorer"] == "number v0"
    assert list(opened.read("org/tiny", scorer="number").value) == [1.0] * 4


def test_damaged_sets_and_scorings_are_named(repository: LocalRepository):
    file = score(publish(repository, numbers(0, 4)))
    later = publish(repository, numbers(0, 4), model="org/later")
    answers = list_sets(repository, str(repository.head()), answer_set_id=file.answer_set_id)[0]
    broken = {
        f"{answers.scores_folder}/{file.label}.json": b"{",
        f"{later.folder}/manifest.json": b"{",
    }
    repository.commit(broken, "broken", parent=repository.head())
    opened = regrade.open(repository.uri)
    with pytest.warns(UserWarning, match="left out: ") as caught:
        assert list(opened.sets().model) == ["org/tiny"]
    assert len(caught) == 2
    with pytest.raises(DamagedAnswersError):  # another scoring would not be the headline's
        opened.read("org/tiny")


def test_everything_is_as_of_one_commit(repository: LocalRepository):
    score(publish(repository, numbers(0, 4)))
    answers = regrade.open(repository.uri)
    score(publish(repository, numbers(0, 4), model="org/later"))
    assert list(answers.sets().model) == ["org/tiny"]
    assert len(regrade.open(repository.uri).sets()) == 2
    assert len(regrade.open(repository.uri, at=answers.revision).sets()) == 1
    with pytest.raises(RepositoryError, match="org/later"):
        answers.read("org/later")


def test_a_comparison_has_a_row_for_each_question_and_the_verdict_of_the_gate(
    repository: LocalRepository,
):
    two_sides(repository)
    answers = regrade.open(repository.uri)
    compared = answers.compare("org/base", "org/candidate", texts=True)
    [expected] = compare_sides(
        "org/base", "org/candidate", answers=repository.uri
    ).comparisons.compared
    assert compared.comparison == expected
    rows = compared.rows
    assert len(rows) == 40
    flipped = rows[rows.change == "right to wrong"]
    assert list(flipped.number) == [3, 5, 7]
    assert list(flipped.base_extracted) == ["3", "5", "7"]
    assert list(flipped.candidate_extracted) == ["4", "6", "8"]
    assert list(flipped.candidate_answer) == ["#### 4", "#### 6", "#### 8"]
    assert (rows.candidate - rows.base).sum() == pytest.approx(-2)
    assert compared.verdict.verdict == "cannot tell"
    assert answers.compare("org/base", "org/candidate", max_drop=40).verdict.verdict == "pass"
    with pytest.raises(SettingsError, match="max_drop"):
        answers.compare("org/base", "org/candidate", max_drop=-1)
    assert "3 right to wrong, 1 wrong to right of 40; cannot tell" in repr(compared)


def test_sets_that_differ_in_more_than_the_model_need_to_be_allowed(repository: LocalRepository):
    for model, shots in (("org/base", 0), ("org/candidate", 5)):
        score(answer(repository, model, wrong=(2,), total=20, n_shots=shots))
    answers = regrade.open(repository.uri)
    with pytest.raises(NotComparableError, match=re.escape("pass `allow=['few_shot']`")):
        answers.compare("org/base", "org/candidate")
    allowed = answers.compare("org/base", "org/candidate", allow=["few_shot"])
    assert len(allowed.rows) == 20


def test_a_name_of_several_sets_is_refused_with_their_ids(repository: LocalRepository):
    ids = [
        publish(repository, numbers(0, 2), benchmark=name).manifest.answer_set_id
        for name in ("sums", "other")
    ]
    with pytest.raises(SettingsError, match="several answer sets") as caught:
        regrade.open(repository.uri).read("org/tiny")
    assert all(set_id in str(caught.value) for set_id in ids)


def test_withheld_questions_are_not_in_frames(repository: LocalRepository):
    answers = publish(repository, [row(n, question="SECRET?") for n in range(2)])
    score(answers)
    commit_manifest(answers, withheld=True)
    frame = regrade.open(repository.uri).read("org/tiny", texts=True)
    assert frame[["question", "prompt"]].isna().all(axis=None)


def test_charts_are_axes_with_the_numbers(repository: LocalRepository):
    two_sides(repository)
    answers = regrade.open(repository.uri)
    axes = answers.plot("org/base")
    assert sorted(bar.get_width() for bar in axes.patches) == pytest.approx([95.0, 95.0])
    changes = answers.compare("org/base", "org/candidate").plot()
    assert sorted(bar.get_width() for bar in changes.patches) == pytest.approx([-10.0, 0.0])
    own = pyplot.subplots()[1]
    assert answers.plot("org/base", ax=own) is own


def test_checkpoints_are_a_line_over_their_steps(repository: LocalRepository):
    for step, right in ((1000, 30), (500, 20), (1500, 36)):
        score(answer(repository, f"run/checkpoint-{step}", right=right, total=40))
    score(answer(repository, "run", right=40, total=40))
    answers = regrade.open(repository.uri)
    [line] = answers.plot_steps("run").get_lines()[:1]
    assert [list(values) for values in line.get_data()] == [[500, 1000, 1500], [50.0, 75.0, 90.0]]
    with pytest.raises(SettingsError, match="no scored checkpoints"):
        answers.plot_steps("org/none")
    score(answer(repository, "run/checkpoint-500", right=10, total=40, temperature=0.5))
    with pytest.raises(SettingsError, match="Several answer sets"):
        regrade.open(repository.uri).plot_steps("run")


def test_scores_of_several_scales_are_no_line(repository: LocalRepository):
    score(answer(repository, "run/checkpoint-500", right=20, total=40))
    other = answer(repository, "run/checkpoint-1000", right=30, total=40)
    score_with_an_older_scorer(other, lambda _: {}, scale=Scale(low=1, high=5, unit=""))
    with pytest.raises(SettingsError, match="The scores of sums have several scales"):
        regrade.open(repository.uri).plot_steps("run")


def test_a_private_repository_on_the_hub_is_opened_with_the_token_of_this_machine(
    hub: Hub, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    from regrade.answers.hub import HubRepository

    monkeypatch.setenv("HF_ENDPOINT", hub.endpoint)
    monkeypatch.setenv("HF_TOKEN", hub.token)
    stored = HubRepository(hub.repo_id, endpoint=hub.endpoint, token=hub.token)
    score(publish(stored, numbers(0, 3)))
    answers = regrade.open(f"hf://datasets/{hub.repo_id}")
    assert list(answers.read("org/tiny").value) == [1.0] * 3
    assert hub.token not in repr(answers)
